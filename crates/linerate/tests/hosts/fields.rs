//! Out-of-range values for each field of a workorder. docs/src/requests.md names these test cases.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use testkit::Requirement::Namespaces;
use testkit::{TestCase, run, wait_until, with_prefix};
use uperf::wire::{
    DataVersion, Endian, FlowopLayout, FlowopRecord, GroupRecord, HANDSHAKE_END, Header,
    MasterCommand, Phase2Answer, SlaveInfo, Text, TransactionRecord, WorkRecords,
};
use uperf::{DataProtocol, FlowopFlags, FlowopKind};

use super::network::{Hosts, SHORT_TIMEOUT, master_address};
use super::scripted::{Master, data_address, workorder};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        max_length_ends_endless_work,
        refuses_invalid_fields,
        limits_socket_buffers,
        ignores_host_names,
        refuses_invalid_record_counts,
    ];
    with_prefix("fields", test_cases).collect()
}

/// Returns a workorder for one strand and one transaction.
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

/// Largest count that a slave accepts.
const MAX_COUNT: u64 = i64::MAX as u64;

/// Endless work without transfers.
fn endless_work() -> Vec<(&'static str, WorkRecords)> {
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
    let count = flowop(FlowopKind::Nop, |flowop| flowop.count = MAX_COUNT);
    let paced = changed(work(u64::MAX, vec![nop()]), |work| {
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
        ("a rate", paced),
        ("a missing peer", work(1, vec![accept()])),
        ("refused connections", work(u64::MAX, vec![connect])),
    ]
}

/// Endless transfers over a connection. `directory` contains an empty file.
fn endless_transfers(directory: &Path) -> Vec<(&'static str, WorkRecords)> {
    let over_tcp = |iterations, kind, change: fn(&mut FlowopRecord)| -> WorkRecords {
        work(iterations, vec![accept(), flowop(kind, change)])
    };
    let mut batches = over_tcp(1, FlowopKind::Write, |flowop| flowop.batch_size = MAX_COUNT);
    opening(&mut batches).protocol = 3;
    let mut files = over_tcp(1, FlowopKind::Sendfilev, |flowop| flowop.files = u32::MAX);
    transfer(&mut files).directory = Text::new(directory.as_os_str().as_encoded_bytes());
    vec![
        (
            "reads",
            over_tcp(1, FlowopKind::Read, |flowop| flowop.count = MAX_COUNT),
        ),
        (
            "transfers",
            over_tcp(1, FlowopKind::Write, |flowop| flowop.repeat = MAX_COUNT),
        ),
        (
            "reads that can fail",
            over_tcp(u64::MAX, FlowopKind::Read, |flowop| {
                (flowop.flags, flowop.timeout_ns) = (FlowopFlags::CAN_FAIL.0, 1);
            }),
        ),
        (
            "non-blocking reads",
            over_tcp(u64::MAX, FlowopKind::Read, |flowop| {
                flowop.flags = FlowopFlags::NON_BLOCKING.0 | FlowopFlags::CAN_FAIL.0;
            }),
        ),
        ("batches", batches),
        ("empty files", files),
    ]
}

/// `--max-length` ends work that has no other end.
fn max_length_ends_endless_work() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("empty"), "").expect("a writable directory");
    let hosts = Hosts::new(1);
    let options = format!(
        "--max-length 1 --control-idle 1 --allow-dir {}",
        directory.path().display()
    );
    let slave = hosts.start_slave(0, &options);
    let idle_usage = slave.idle_usage();
    let cases = [endless_work(), endless_transfers(directory.path())].concat();
    hosts.master.enter(|| {
        let mut masters = Vec::new();
        for (case, work) in &cases {
            let mut master = Master::connect();
            let infos = master.exchange_phase_2(work);
            let infos = infos.unwrap_or_else(|reason| panic!("{case}: {reason}"));
            master.send(&HANDSHAKE_END);
            assert_eq!(master.receive(), HANDSHAKE_END);
            master.command(MasterCommand::NextTransaction(0));
            let flowops = &work.transactions[0].flowops;
            let has_tcp_transfers = flowops.len() > 1 && flowops[0].protocol == 1;
            let data = has_tcp_transfers.then(|| {
                TcpStream::connect(data_address(&infos[0], DataProtocol::Tcp))
                    .expect("the slave listens")
            });
            masters.push((case, master, data));
        }
        // The masters send nothing more and keep their connections open.
        for (case, master, _data) in &mut masters {
            let received = master.control.read_to_end(&mut Vec::new());
            assert!(received.is_ok(), "{case}: {received:?}");
        }
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "endless work");
}

fn changed(mut work: WorkRecords, change: impl FnOnce(&mut WorkRecords)) -> WorkRecords {
    change(&mut work);
    work
}

/// Start of the reason for a refusal, and the change that makes a workorder invalid.
type InvalidChange = (&'static str, fn(&mut WorkRecords));

const GROUP_CHANGES: [InvalidChange; 7] = [
    ("10001 strands: this slave accepts", |work| {
        work.group.strands = 10_001;
    }),
    ("0 strands: this slave accepts", |work| {
        work.group.strands = 0;
    }),
    ("unknown strand kind 9", |work| {
        work.group.strand_kind = 9;
    }),
    (
        "1000 processes requested: 938 left for one address",
        |work| {
            (work.group.strands, work.group.strand_kind) = (1000, 2);
        },
    ),
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

const OPENING_CHANGES: [InvalidChange; 9] = [
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

const TRANSFER_CHANGES: [InvalidChange; 9] = [
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

fn refuses_invalid_fields() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "");
    let idle_usage = slave.idle_usage();
    hosts.master.enter(|| {
        let valid = work(1, vec![accept(), flowop(FlowopKind::Read, |_| ())]);
        Master::connect()
            .exchange_phase_2(&valid)
            .expect("the slave accepts the work");
        for (expected, change) in GROUP_CHANGES
            .iter()
            .chain(&OPENING_CHANGES)
            .chain(&TRANSFER_CHANGES)
        {
            let work = changed(valid.clone(), change);
            let reason = Master::connect()
                .exchange_phase_2(&work)
                .expect_err(expected);
            assert!(reason.starts_with(expected), "{expected}: {reason}");
        }
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "refused workorders");
}

/// The limits of the kernel apply even to a slave that runs as root.
fn limits_socket_buffers() {
    let limit = |name: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        let text = text.expect("a readable sysctl");
        // The kernel doubles the requested size.
        2 * text.trim().parse::<u64>().expect("a number")
    };
    let (receive, send) = (limit("rmem_max"), limit("wmem_max"));
    let hosts = Hosts::new(1);
    let _slave = hosts.start_slave(0, "");
    let largest = i32::MAX as u64;
    let accept = FlowopRecord {
        window: largest,
        ..accept()
    };
    let mut master = hosts.master.enter(Master::connect);
    let infos = master
        .exchange_phase_2(&work(1, vec![accept]))
        .expect("the slave accepts the work");
    let mut command = Command::new("ss");
    command.args([
        "-tlnmH",
        "sport",
        "=",
        &data_address(&infos[0], DataProtocol::Tcp)
            .port()
            .to_string(),
    ]);
    let output = hosts.slaves[0].enter(|| run(command, SHORT_TIMEOUT));
    let stdout = output.expect("the program ends").stdout;
    // The format of ss(8): skmem:(r0,rb212992,t0,tb212992,…)
    let field = |name: &str| -> u64 {
        let (_, value) = stdout.split_once(name).expect(&stdout);
        let (digits, _) = value.split_once(',').expect(&stdout);
        digits.parse().expect(&stdout)
    };
    let buffers = (field(",rb"), field(",tb"));
    assert_eq!(buffers, (receive.min(2 * largest), send.min(2 * largest)));
}

/// A slave connects to the address of its master and the reported port, whatever hosts the flowop
/// names.
fn ignores_host_names() {
    /// Second address of the master host. No connection may arrive there.
    const OTHER_ADDRESS: &str = "198.18.0.9";
    let hosts = Hosts::new(1);
    hosts
        .master
        .ip(&format!("address add {OTHER_ADDRESS}/24 dev to0"));
    let _slave = hosts.start_slave(0, "");
    hosts.master.enter(|| {
        for (local, remote) in [
            ("", ""),
            (OTHER_ADDRESS, ""),
            ("no-such-host.invalid", "127.0.0.1"),
            ("127.0.0.1", "203.0.113.1"),
        ] {
            let control_address: IpAddr = master_address(0).parse().expect("a valid address");
            let listener = TcpListener::bind((control_address, 0)).expect("a free port");
            let port = listener.local_addr().expect("a bound socket").port();
            let other_listener = TcpListener::bind((OTHER_ADDRESS, port)).expect("a free port");
            let connect = flowop(FlowopKind::Connect, |flowop| {
                flowop.protocol = 1;
                flowop.local_host = Text::new(local);
                flowop.remote_host = Text::new(remote);
            });
            let mut info = SlaveInfo::default();
            info.set_port(DataProtocol::Tcp, port.into());
            let mut master = Master::connect();
            let mut bytes = Header::for_phase_2(DataVersion::V0_3_1, 1).encode(Endian::NATIVE);
            bytes
                .extend(work(1, vec![connect]).encode(FlowopLayout::WithBatchSize, Endian::NATIVE));
            bytes.extend(info.encode(Endian::NATIVE));
            master.send(&bytes);
            let answer = Phase2Answer::decode(&master.receive(), Endian::NATIVE);
            assert_eq!(
                answer,
                Phase2Answer::Ok { slave_infos: 0 },
                "{local} {remote}"
            );
            master.send(&HANDSHAKE_END);
            assert_eq!(master.receive(), HANDSHAKE_END);
            master.command(MasterCommand::NextTransaction(0));
            listener
                .set_nonblocking(true)
                .expect("a non-blocking socket");
            let arrived = wait_until(SHORT_TIMEOUT, || listener.accept().is_ok());
            assert!(arrived, "{local} {remote}: no connection");
            other_listener
                .set_nonblocking(true)
                .expect("a non-blocking socket");
            assert!(other_listener.accept().is_err(), "{local} {remote}");
        }
    });
}

/// The slave refuses counts that do not match the workorder or exceed its limits.
fn refuses_invalid_record_counts() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "");
    let idle_usage = slave.idle_usage();
    hosts.master.enter(|| {
        for (infos, expected) in [
            (u32::MAX, "ports of 4294967295 strands for 1 strands"),
            (2, "ports of 2 strands for 1 strands"),
        ] {
            let mut master = Master::connect();
            let mut bytes = Header::for_phase_2(DataVersion::V0_3_1, infos).encode(Endian::NATIVE);
            let nop = work(1, vec![flowop(FlowopKind::Nop, |_| ())]);
            bytes.extend(nop.encode(FlowopLayout::WithBatchSize, Endian::NATIVE));
            // The slave does not read everything.
            let _ = master.control.write_all(&bytes);
            let answer = Phase2Answer::decode(&master.receive(), Endian::NATIVE);
            assert_eq!(answer, Phase2Answer::Refused(Text::new(expected)));
        }
        for (transactions, flowops, expected) in [
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
            let answer = Phase2Answer::decode(&master.receive(), Endian::NATIVE);
            let Phase2Answer::Refused(reason) = answer else {
                panic!("{expected}: the slave accepts the work");
            };
            assert!(reason.to_string().starts_with(expected), "{reason}");
        }
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "invalid record counts");
}
