//! The fields of a workorder, out of bounds one by one: docs/src/requests.md names these cases.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command as Program;

use testkit::Requirement::Namespaces;
use testkit::{TestCase, run, wait_until, with_prefix};
use uperf::wire::{
    DataVersion, Endian, FlowopLayout, FlowopRecord, GroupRecord, HANDSHAKE_END, Header,
    MasterCommand, Phase2Answer, SlaveInfo, Text, TransactionRecord, WorkRecords,
};
use uperf::{DataProtocol, FlowopFlags, FlowopKind};

use super::ground::{Hosts, SOON, master_address};
use super::scripted::{Master, place_of, workorder};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        times_and_counts,
        refusals,
        socket_buffers,
        names_of_hosts,
        numbers_of_headers,
    ];
    with_prefix("fields", test_cases).collect()
}

/// One strand and one transaction.
fn work(iterations: u64, flowops: Vec<FlowopRecord>) -> WorkRecords {
    workorder(1, iterations, &[flowops])
}

fn flowop(kind: FlowopKind, change: impl FnOnce(&mut FlowopRecord)) -> FlowopRecord {
    let mut flowop = FlowopRecord {
        size: 64,
        ..FlowopRecord::new(kind)
    };
    change(&mut flowop);
    flowop
}

fn accept() -> FlowopRecord {
    flowop(FlowopKind::Accept, |flowop| flowop.protocol = 1)
}

/// The largest count that is not refused.
const MOST: u64 = i64::MAX as u64;

/// Work without transfers that goes on and on.
fn endless_alone() -> Vec<(&'static str, WorkRecords)> {
    let think = |flags: FlowopFlags| {
        flowop(FlowopKind::Think, |flowop| {
            (flowop.flags, flowop.duration_ns) = (flags.0, 1_000_000_000);
        })
    };
    let nop = || flowop(FlowopKind::Nop, |_| ());
    let connect = flowop(FlowopKind::Connect, |flowop| {
        (flowop.protocol, flowop.port) = (1, 9);
        flowop.flags = FlowopFlags::CAN_FAIL.0;
    });
    let count = flowop(FlowopKind::Nop, |flowop| flowop.count = MOST);
    let pace = changed(work(u64::MAX, vec![nop()]), |work| {
        work.transactions[0].record.rate = 1;
    });
    vec![
        ("iterations", work(u64::MAX, vec![nop()])),
        ("executions", work(1, vec![count])),
        ("pauses", work(u64::MAX, vec![think(FlowopFlags::IDLE)])),
        (
            "busy pauses",
            work(u64::MAX, vec![think(FlowopFlags::BUSY)]),
        ),
        ("a pace", pace),
        ("a peer that is awaited", work(1, vec![accept()])),
        ("refused connections", work(u64::MAX, vec![connect])),
    ]
}

/// The same over a connection; there is an empty file in the directory.
fn endless_transfers(directory: &Path) -> Vec<(&'static str, WorkRecords)> {
    let over_tcp = |iterations, kind, change: fn(&mut FlowopRecord)| -> WorkRecords {
        work(iterations, vec![accept(), flowop(kind, change)])
    };
    let mut batches = over_tcp(1, FlowopKind::Write, |flowop| flowop.batch_size = MOST);
    opening(&mut batches).protocol = 3;
    let mut files = over_tcp(1, FlowopKind::Sendfilev, |flowop| flowop.files = u32::MAX);
    transfer(&mut files).directory = Text::new(directory.as_os_str().as_encoded_bytes());
    vec![
        (
            "reads",
            over_tcp(1, FlowopKind::Read, |flowop| flowop.count = MOST),
        ),
        (
            "transfers",
            over_tcp(1, FlowopKind::Write, |flowop| flowop.repeat = MOST),
        ),
        (
            "reads that may fail",
            over_tcp(u64::MAX, FlowopKind::Read, |flowop| {
                (flowop.flags, flowop.timeout_ns) = (FlowopFlags::CAN_FAIL.0, 1);
            }),
        ),
        (
            "reads that do not wait",
            over_tcp(u64::MAX, FlowopKind::Read, |flowop| {
                flowop.flags = FlowopFlags::NON_BLOCKING.0 | FlowopFlags::CAN_FAIL.0;
            }),
        ),
        ("batches", batches),
        ("empty files", files),
    ]
}

/// `--max-length` ends whatever has no other end.
fn times_and_counts() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("empty"), "").expect("a new directory");
    let hosts = Hosts::new(1);
    let options = format!(
        "--max-length 1 --control-idle 1 --allow-dir {}",
        place.path().display()
    );
    let slave = hosts.slave(0, &options);
    let rest = slave.at_rest();
    let cases = [endless_alone(), endless_transfers(place.path())].concat();
    hosts.master.enter(|| {
        let mut masters = Vec::new();
        for (what, work) in &cases {
            let mut master = Master::connect();
            let infos = master.assign(work);
            let infos = infos.unwrap_or_else(|why| panic!("{what}: {why}"));
            master.say(&HANDSHAKE_END);
            assert_eq!(master.hear(), HANDSHAKE_END);
            master.command(MasterCommand::NextTransaction(0));
            let flowops = &work.transactions[0].flowops;
            let transfers = flowops.len() > 1 && flowops[0].protocol == 1;
            let data = transfers.then(|| {
                TcpStream::connect(place_of(&infos[0], DataProtocol::Tcp)).expect("it listens")
            });
            masters.push((what, master, data));
        }
        // The masters are silent from here on, and stay.
        for (what, master, _data) in &mut masters {
            let ended = master.control.read_to_end(&mut Vec::new());
            assert!(ended.is_ok(), "{what}: {ended:?}");
        }
    });
    slave.is_itself_again(rest, SOON, "times and counts");
}

fn changed(mut work: WorkRecords, change: impl FnOnce(&mut WorkRecords)) -> WorkRecords {
    change(&mut work);
    work
}

/// What a slave refuses, and the beginning of its reason.
type Refused = (&'static str, fn(&mut WorkRecords));

const OF_GROUPS: [Refused; 7] = [
    ("10001 strands: this slave accepts", |work| {
        work.group.strands = 10_001;
    }),
    ("0 strands: this slave accepts", |work| {
        work.group.strands = 0;
    }),
    ("unknown strand kind 9", |work| {
        work.group.strand_kind = 9;
    }),
    ("1000 processes: this slave leaves 938", |work| {
        (work.group.strands, work.group.strand_kind) = (1000, 2);
    }),
    ("transaction 1: its record has the number 7", |work| {
        work.transactions[0].record.number = 7;
    }),
    ("transaction 1: a duration of", |work| {
        work.transactions[0].record.duration_ns = u64::MAX;
    }),
    ("transaction 1: rate=\\x1b is not a plain text", |work| {
        work.transactions[0].record.rate_text = Text::new("\u{1b}");
    }),
];

const OF_OPENINGS: [Refused; 9] = [
    (
        "flowop 1 of transaction 1: port=65536 is not a valid port",
        |work| {
            opening(work).port = 65_536;
        },
    ),
    ("port=443: it needs a privilege", |work| {
        opening(work).port = 443;
    }),
    ("flowop 1 of transaction 1: encaps=65536", |work| {
        opening(work).encapsulation_port = 65_536;
    }),
    ("flowop 1 of transaction 1: wndsz=", |work| {
        opening(work).window = u64::MAX;
    }),
    ("cc=nosuchone: it is not loaded", |work| {
        opening(work).congestion_control = Text::new("nosuchone");
    }),
    ("Unsupported protocol:RDS", |work| {
        opening(work).protocol = 4;
    }),
    ("Unsupported protocol:Unknown", |work| {
        opening(work).protocol = 99;
    }),
    (
        "the first flowop is invalid in every version of uperf",
        |work| {
            opening(work).kind = 12;
        },
    ),
    ("flowop 1 of transaction 1: unknown flags", |work| {
        opening(work).flags = 0x200;
    }),
];

const OF_TRANSFERS: [Refused; 9] = [
    ("1 strands with buffers of 4294967295 bytes", |work| {
        transfer(work).size = u32::MAX;
    }),
    ("1 strands with buffers of 4294967295 bytes", |work| {
        let flowop = transfer(work);
        flowop.flags = FlowopFlags::RANDOM.0;
        (flowop.random_min, flowop.random_max) = (1, u32::MAX);
    }),
    ("flowop 2 of transaction 1: size=rand(0,9)", |work| {
        let flowop = transfer(work);
        flowop.flags = FlowopFlags::RANDOM.0;
        (flowop.random_min, flowop.random_max) = (0, 9);
    }),
    ("flowop 2 of transaction 1: count=-1", |work| {
        transfer(work).count = u64::MAX;
    }),
    ("flowop 2 of transaction 1: repeat=-1", |work| {
        transfer(work).repeat = u64::MAX;
    }),
    ("flowop 2 of transaction 1: batch_size=-1", |work| {
        transfer(work).batch_size = u64::MAX;
    }),
    ("flowop 2 of transaction 1: a timeout of", |work| {
        transfer(work).timeout_ns = u64::MAX;
    }),
    ("flowop 2 of transaction 1: a duration of", |work| {
        transfer(work).duration_ns = u64::MAX;
    }),
    ("dir=/etc: it is not below a directory", |work| {
        let flowop = transfer(work);
        flowop.kind = FlowopKind::Sendfile as u32;
        flowop.directory = Text::new("/etc");
        flowop.files = u32::MAX;
    }),
];

fn opening(work: &mut WorkRecords) -> &mut FlowopRecord {
    &mut work.transactions[0].flowops[0]
}

fn transfer(work: &mut WorkRecords) -> &mut FlowopRecord {
    &mut work.transactions[0].flowops[1]
}

fn refusals() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "");
    let rest = slave.at_rest();
    hosts.master.enter(|| {
        let good = work(1, vec![accept(), flowop(FlowopKind::Read, |_| ())]);
        Master::connect().assign(&good).expect("it is taken");
        for (words, spoil) in OF_GROUPS.iter().chain(&OF_OPENINGS).chain(&OF_TRANSFERS) {
            let work = changed(good.clone(), spoil);
            let why = Master::connect().assign(&work).expect_err(words);
            assert!(why.starts_with(words), "{words}: {why}");
        }
    });
    slave.is_itself_again(rest, SOON, "what it refuses");
}

/// The kernel's limits hold, also if root serves the request.
fn socket_buffers() {
    let limit = |name: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        let text = text.expect("/proc is there");
        // The kernel doubles what it is given.
        2 * text.trim().parse::<u64>().expect("a number")
    };
    let (receive, send) = (limit("rmem_max"), limit("wmem_max"));
    let hosts = Hosts::new(1);
    let _slave = hosts.slave(0, "");
    let largest = i32::MAX as u64;
    let accept = FlowopRecord {
        window: largest,
        ..accept()
    };
    let mut master = hosts.master.enter(Master::connect);
    let infos = master.assign(&work(1, vec![accept])).expect("it is taken");
    let mut list = Program::new("ss");
    list.args([
        "-tlnmH",
        "sport",
        "=",
        &place_of(&infos[0], DataProtocol::Tcp).port().to_string(),
    ]);
    let listed = hosts.slaves[0].enter(|| run(list, SOON));
    let listed = listed.expect("it ends").stdout;
    // As ss(8) has it: skmem:(r0,rb212992,t0,tb212992,…)
    let number = |name: &str| -> u64 {
        let (_, rest) = listed.split_once(name).expect(&listed);
        let (digits, _) = rest.split_once(',').expect(&listed);
        digits.parse().expect(&listed)
    };
    let buffers = (number(",rb"), number(",tb"));
    assert_eq!(buffers, (receive.min(2 * largest), send.min(2 * largest)));
}

/// A slave connects to its master, at a port that the master tells, under whatever names the flowop has for both.
fn names_of_hosts() {
    /// Another address of the master's host, where nothing must arrive.
    const OTHER: &str = "198.18.0.9";
    let hosts = Hosts::new(1);
    hosts.master.ip(&format!("address add {OTHER}/24 dev to0"));
    let _slave = hosts.slave(0, "");
    hosts.master.enter(|| {
        for (local, remote) in [
            ("", ""),
            (OTHER, ""),
            ("no-such-host.invalid", "127.0.0.1"),
            ("127.0.0.1", "203.0.113.1"),
        ] {
            let own: IpAddr = master_address(0).parse().expect("an address");
            let listener = TcpListener::bind((own, 0)).expect("a port");
            let port = listener.local_addr().expect("it is bound").port();
            let elsewhere = TcpListener::bind((OTHER, port)).expect("it is free there");
            let connect = flowop(FlowopKind::Connect, |flowop| {
                flowop.protocol = 1;
                flowop.local_host = Text::new(local);
                flowop.remote_host = Text::new(remote);
            });
            let mut info = SlaveInfo::default();
            info.set_port(DataProtocol::Tcp, port.into());
            let mut master = Master::connect();
            let mut words = Header::for_phase_2(DataVersion::V0_3_1, 1).encode(Endian::NATIVE);
            words
                .extend(work(1, vec![connect]).encode(FlowopLayout::WithBatchSize, Endian::NATIVE));
            words.extend(info.encode(Endian::NATIVE));
            master.say(&words);
            let ack = Phase2Answer::decode(&master.hear(), Endian::NATIVE);
            assert_eq!(ack, Phase2Answer::Ok { slave_infos: 0 }, "{local} {remote}");
            master.say(&HANDSHAKE_END);
            assert_eq!(master.hear(), HANDSHAKE_END);
            master.command(MasterCommand::NextTransaction(0));
            listener.set_nonblocking(true).expect("it is a socket");
            let arrived = wait_until(SOON, || listener.accept().is_ok());
            assert!(arrived, "{local} {remote}: no connection");
            elsewhere.set_nonblocking(true).expect("it is a socket");
            assert!(elsewhere.accept().is_err(), "{local} {remote}");
        }
    });
}

/// What a header announces must be what the workorder has.
fn numbers_of_headers() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "");
    let rest = slave.at_rest();
    hosts.master.enter(|| {
        for (infos, words) in [
            (u32::MAX, "ports of 4294967295 strands for 1 strands"),
            (2, "ports of 2 strands for 1 strands"),
        ] {
            let mut master = Master::connect();
            let mut bytes = Header::for_phase_2(DataVersion::V0_3_1, infos).encode(Endian::NATIVE);
            let nop = work(1, vec![flowop(FlowopKind::Nop, |_| ())]);
            bytes.extend(nop.encode(FlowopLayout::WithBatchSize, Endian::NATIVE));
            // It is not read to its end.
            let _ = master.control.write_all(&bytes);
            let refused = Phase2Answer::decode(&master.hear(), Endian::NATIVE);
            assert_eq!(refused, Phase2Answer::Refused(Text::new(words)));
        }
        for (transactions, flowops, words) in [
            (
                u32::MAX,
                1,
                "4294967295 transactions: this slave accepts at most",
            ),
            (
                1,
                u32::MAX,
                "4294967295 flowops: this slave accepts at most",
            ),
        ] {
            let mut master = Master::connect();
            let mut bytes = Header::for_phase_2(DataVersion::V0_3_1, 0).encode(Endian::NATIVE);
            let nop = work(1, vec![flowop(FlowopKind::Nop, |_| ())]);
            let group = GroupRecord {
                transactions,
                ..nop.group
            };
            let transaction = TransactionRecord {
                flowops,
                ..nop.transactions[0].record.clone()
            };
            bytes.extend(group.encode(Endian::NATIVE));
            bytes.extend(transaction.encode(Endian::NATIVE));
            let _ = master.control.write_all(&bytes);
            let refused = Phase2Answer::decode(&master.hear(), Endian::NATIVE);
            let Phase2Answer::Refused(why) = refused else {
                panic!("{words}: it is taken");
            };
            assert!(why.to_string().starts_with(words), "{why}");
        }
    });
    slave.is_itself_again(rest, SOON, "large numbers");
}
