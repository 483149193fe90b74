//! What a master cannot take, however it asks: memory, descriptors, time, and what others need.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command as Program;
use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{TestCase, linerate_with_args, wait_until, with_prefix};
use uperf::wire::{
    DataVersion, Endian, FlowopRecord, Goodbye, HANDSHAKE_END, Header, MasterCommand, Phase1Answer,
    Text, WorkRecords,
};
use uperf::{DataProtocol, FlowopKind};

use super::ground::{Hosts, PORT, SOON, Slave, address, master_address};
use super::scripted::{Master, place_of, stream_from, workorder};

/// A second address of the master's host.
const OTHER: &str = "198.18.0.9";

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        memory_of_unfinished_workorders,
        memory_of_runs,
        memory_is_given_back,
        memory_of_one_address,
        connections_of_one_master,
        descriptors_of_one_address,
        masters_of_one_address,
        strands_of_one_address,
        a_run_that_is_kept_alive,
        strands_of_a_master_that_has_left,
        commands_without_end,
        headers_without_end,
    ];
    with_prefix("bounds", test_cases).collect()
}

const MIB: u64 = 1 << 20;

/// Strands, each of which runs these transactions once.
fn work(strands: u32, transactions: &[Vec<FlowopRecord>]) -> WorkRecords {
    workorder(strands, 1, transactions)
}

fn nops(count: usize) -> Vec<FlowopRecord> {
    vec![FlowopRecord::new(FlowopKind::Nop); count]
}

fn accepts(count: u64) -> FlowopRecord {
    FlowopRecord {
        protocol: 1,
        count,
        remote_host: Text::truncated("198.18.0.2"),
        ..FlowopRecord::new(FlowopKind::Accept)
    }
}

fn transfer(kind: FlowopKind, size: u32, batch_size: u64) -> FlowopRecord {
    FlowopRecord {
        size,
        batch_size,
        ..FlowopRecord::new(kind)
    }
}

/// A master that has begun, with this work; why not otherwise.
fn begin(work: &WorkRecords) -> Result<(Master, Vec<uperf::wire::SlaveInfo>), String> {
    let mut master = Master::connect();
    let infos = master.assign(work)?;
    master.say(&HANDSHAKE_END);
    assert_eq!(master.hear(), HANDSHAKE_END);
    master.command(MasterCommand::NextTransaction(0));
    Ok((master, infos))
}

/// Begins with this work again and again, until that is refused.
fn begin_all(work: &WorkRecords) -> (Vec<Master>, String) {
    let mut all = Vec::new();
    loop {
        match begin(work) {
            Ok((master, _)) => all.push(master),
            Err(why) => return (all, why),
        }
        assert!(all.len() < 200, "there is no bound");
    }
}

/// Fails the test if the slave takes more than this.
#[track_caller]
fn takes_at_most(slave: &Slave<'_>, before: u64, bytes: u64, what: &str) {
    let taken = (slave.resident_kib().saturating_sub(before)) << 10;
    let (taken, most) = (taken / MIB, bytes / MIB);
    assert!(taken <= most, "{what}: {taken} MiB, of {most}");
}

fn memory_of_unfinished_workorders() {
    const LIMIT: u64 = 24 * MIB;
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--max-memory 24m");
    slave.serves();
    let before = slave.resident_kib();
    hosts.master.enter(|| {
        let whole = work(1, &[nops(10_000)]);
        let bytes = whole.encode(uperf::wire::FlowopLayout::WithBatchSize, Endian::NATIVE);
        let mut masters = Vec::new();
        for _ in 0..40 {
            let mut master = Master::connect();
            master.say(&Header::for_phase_2(DataVersion::V0_3_1, 0).encode(Endian::NATIVE));
            // Of the last byte it waits for; what is refused is not read to its end.
            let _ = master.control.write_all(&bytes[..bytes.len() - 1]);
            masters.push(master);
        }
        let read = || hosts.slaves[0].enter(has_read_everything);
        assert!(wait_until(SOON, read), "the slave does not read");
        takes_at_most(&slave, before, LIMIT + 4 * MIB, "unfinished workorders");
    });
}

/// Whether no connection of the slave's has data that it has not read.
fn has_read_everything() -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp6").expect("the kernel's table");
    let port = format!(":{PORT:04X}");
    let mut lines = table.lines().skip(1).map(str::split_whitespace);
    lines.all(|mut words| {
        let is_ours = words.nth(1).is_some_and(|local| local.ends_with(&port));
        // The remote end, the state, and the two queues.
        let queues = words.nth(2).unwrap_or_default();
        !is_ours || queues.ends_with(":00000000")
    })
}

fn memory_of_runs() {
    const LIMIT: u64 = 24 * MIB;
    let large = transfer(FlowopKind::Read, 1 << 20, 1);
    let batch = FlowopRecord {
        protocol: 3,
        ..accepts(1)
    };
    for (what, work) in [
        ("flowops", work(1, &[nops(5000)])),
        ("flowops of strands", work(40, &[nops(400)])),
        ("strands", work(100, &[nops(1)])),
        ("transactions", work(10, &vec![Vec::new(); 1000])),
        ("buffers", work(4, &[vec![accepts(1), large]])),
        (
            "batches",
            work(10, &[vec![batch, transfer(FlowopKind::Read, 8192, 1024)]]),
        ),
    ] {
        let hosts = Hosts::new(1);
        let slave = hosts.slave(0, "--max-memory 24m");
        slave.serves();
        let before = slave.resident_kib();
        hosts.master.enter(|| {
            let (masters, why) = begin_all(&work);
            assert!(!masters.is_empty(), "{what}: {why}");
            assert!(why.starts_with("Out of Memory: "), "{what}: {why}");
            takes_at_most(&slave, before, LIMIT + 2 * MIB, what);
        });
    }
}

fn memory_is_given_back() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--max-memory 2g");
    let rest = slave.at_rest();
    let before = slave.resident_kib();
    hosts.master.enter(|| {
        // 300 lists of 5000 steps.
        let (mut master, _) = begin(&work(300, &[nops(5000)])).expect("it is taken");
        master.command(MasterCommand::SendStatistics);
        assert_eq!(master.goodbye().kind, Goodbye::INFO);
    });
    slave.is_at_rest_within(SOON, rest, "a large workorder");
    takes_at_most(&slave, before, 24 * MIB, "after a large workorder");
}

/// What is left serves another.
fn memory_of_one_address() {
    let hosts = hosts();
    let _slave = hosts.slave(0, "--max-memory 64m");
    hosts.master.enter(|| {
        let work = work(16, &[nops(64)]);
        let (_masters, why) = begin_all(&work);
        assert!(why.contains("left for one address"), "{why}");
        let mut other = Master::over(stream_from(other(), control()));
        other.assign(&work).expect("it is taken");
    });
}

fn hosts() -> Hosts {
    let hosts = Hosts::new(1);
    hosts.master.ip(&format!("address add {OTHER}/24 dev to0"));
    hosts
}

fn connections_of_one_master() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--max-connections 20");
    let rest = slave.at_rest();
    hosts.master.enter(|| {
        let (master, infos) = begin(&work(1, &[vec![accepts(1 << 40)]])).expect("it is taken");
        let to = place_of(&infos[0], DataProtocol::Tcp);
        // The listener is one of the 20.
        let _data: Vec<_> = (0..20).map(|_| TcpStream::connect(to)).collect();
        let goodbye = master.goodbye();
        let words = "more than 20 connections, listeners and files of one master \
                     (--max-connections)";
        assert!(goodbye.message.to_string().contains(words), "{goodbye:?}");
        // The end of the strand counts as one, as in stock.
        assert_eq!(goodbye.operations, 20);
    });
    // Listeners are as many as strands, and refused before one is opened.
    hosts.master.enter(|| {
        let refused = begin(&work(21, &[vec![accepts(1)]])).map(drop);
        assert!(refused.is_err_and(|why| why.contains("--max-connections")));
    });
    slave.is_itself_again(rest, SOON, "too many connections");
}

fn descriptors_of_one_address() {
    let hosts = hosts();
    let own = linerate_with_args(&format!("uperf -s -P {PORT}"));
    let mut program = Program::new("sh");
    program.args(["-c", r#"ulimit -n 224; exec "$0" "$@""#]);
    program.arg(own.get_program()).args(own.get_args());
    let slave = hosts.slave_of(0, program);
    hosts.master.enter(|| {
        let eight = work(8, &[vec![accepts(1)]]);
        let mut masters = Vec::new();
        let why = loop {
            let mut master = Master::connect();
            if let Err(why) = master.assign(&eight) {
                break why;
            }
            masters.push(master);
            assert!(masters.len() < 100, "there is no bound");
        };
        assert!(why.contains("left for one address (descriptors"), "{why}");
        // What is left is enough for another.
        let mut other = Master::over(stream_from(other(), control()));
        assert_eq!(other.greet(&[]), Phase1Answer::Ok);
        other.assign(&eight).expect("it is taken");
    });
    assert!(!slave.stderr().contains("panicked"), "{}", slave.stderr());
}

fn other() -> IpAddr {
    OTHER.parse().expect("an address")
}

fn control() -> SocketAddr {
    SocketAddr::new(address(0).parse().expect("an address"), PORT)
}

fn masters_of_one_address() {
    let hosts = hosts();
    let _slave = hosts.slave(0, "--max-masters 32");
    hosts.master.enter(|| {
        let own: IpAddr = master_address(0).parse().expect("an address");
        let mut masters: Vec<_> = (0..32)
            .map(|_| Master::over(stream_from(own, control())))
            .collect();
        let served = masters.iter_mut().map(|master| {
            let header = Header::for_phase_1(DataVersion::V0_3_1, []).encode(Endian::NATIVE);
            // One that is not served is closed.
            let _ = master.control.write_all(&header);
            master.control.read_exact(&mut [0; 192]).is_ok()
        });
        assert_eq!(served.filter(|served| *served).count(), 30);
        let mut other = Master::over(stream_from(other(), control()));
        assert_eq!(other.greet(&[]), Phase1Answer::Ok);
    });
}

fn strands_of_one_address() {
    let hosts = hosts();
    let _slave = hosts.slave(0, "--max-strands 32");
    hosts.master.enter(|| {
        let (_master, _) = begin(&work(30, &[nops(1)])).expect("it is taken");
        let refused = begin(&work(1, &[nops(1)])).map(drop);
        let words = "1 strands: this slave leaves 0 to one address";
        assert_eq!(refused, Err(words.to_owned()));
        let mut other = Master::over(stream_from(other(), control()));
        other.assign(&work(2, &[nops(1)])).expect("it is taken");
    });
}

/// A command now and then makes it no longer.
fn a_run_that_is_kept_alive() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--max-length 1 --control-idle 1");
    let rest = slave.at_rest();
    hosts.master.enter(|| {
        let (mut master, _) = begin(&work(1, &[nops(1), nops(1)])).expect("it is taken");
        let begun = Instant::now();
        let again = MasterCommand::NextTransaction(0).encode(Endian::NATIVE);
        while master.control.write_all(&again).is_ok() {
            assert!(begun.elapsed() < SOON, "it has no end");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    slave.is_itself_again(rest, SOON, "a run that is kept alive");
}

/// It leaves while the slave waits for its strands at the next barrier: they end there, and not when they have come to it.
fn strands_of_a_master_that_has_left() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "-v");
    let rest = slave.at_rest();
    let think = FlowopRecord {
        duration_ns: 60_000_000_000,
        ..FlowopRecord::new(FlowopKind::Think)
    };
    let begun = || slave.stdout().matches("unlocking barrier 0").count();
    let before = begun();
    hosts.master.enter(|| {
        let (mut master, _) = begin(&work(1, &[vec![think], nops(1)])).expect("it is taken");
        assert!(wait_until(SOON, || begun() > before), "{}", slave.stdout());
        master.command(MasterCommand::NextTransaction(1));
    });
    slave.is_itself_again(rest, SOON, "a master that has left");
    let said = slave.stderr();
    assert!(said.contains("lost in Txn1: "), "{said}");
}

fn commands_without_end() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "");
    let rest = slave.at_rest();
    hosts.master.enter(|| {
        let (mut master, _) = begin(&work(1, &[nops(1), nops(1)])).expect("it is taken");
        let again = MasterCommand::NextTransaction(0).encode(Endian::NATIVE);
        let begun = Instant::now();
        while master.control.write_all(&again).is_ok() {
            assert!(begun.elapsed() < SOON, "it has no end");
        }
    });
    slave.is_itself_again(rest, SOON, "commands without end");
    let said = slave.stderr();
    assert!(said.contains("more than 4096 commands"), "{said}");
}

fn headers_without_end() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "-v");
    let rest = slave.at_rest();
    hosts.master.enter(|| {
        let mut master = Master::connect();
        let header = Header::for_phase_1(DataVersion::V0_3_1, []).encode(Endian::NATIVE);
        let answered = (0..100).take_while(|_| {
            let said = master.control.write_all(&header);
            said.is_ok() && master.control.read_exact(&mut [0; 192]).is_ok()
        });
        assert_eq!(answered.count(), 16);
    });
    slave.is_itself_again(rest, SOON, "headers without end");
    assert!(slave.stdout().contains("more than 16 headers"));
}
