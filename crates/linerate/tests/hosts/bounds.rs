//! Limits on the memory, descriptors and time of one master, and reserves for other masters.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{TestCase, linerate_with_args, wait_until, with_prefix};
use uperf::wire::{
    DataVersion, Endian, FlowopRecord, Goodbye, HANDSHAKE_END, Header, MasterCommand, Phase1Answer,
    Text, WorkRecords,
};
use uperf::{DataProtocol, FlowopKind};

use super::network::{Hosts, PORT, SHORT_TIMEOUT, Slave, master_address, slave_address};
use super::scripted::{Master, connect_from, data_address, workorder};

/// Second address of the master host.
const OTHER_ADDRESS: &str = "198.18.0.9";

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        limits_memory_of_unfinished_workorders,
        limits_memory_of_runs,
        releases_memory_after_run,
        limits_memory_per_address,
        limits_connections_per_master,
        limits_descriptors_per_address,
        limits_masters_per_address,
        limits_strands_per_address,
        ends_run_at_max_length_despite_commands,
        ends_strands_of_lost_master_at_barrier,
        limits_lines_about_lost_runs,
        limits_commands_per_run,
        limits_headers_per_handshake,
    ];
    with_prefix("bounds", test_cases).collect()
}

const MIB: u64 = 1 << 20;

/// Returns a workorder for `strands` strands that run each transaction once.
fn work(strands: u32, transactions: &[Vec<FlowopRecord>]) -> WorkRecords {
    workorder(strands, 1, transactions)
}

fn nops(count: usize) -> Vec<FlowopRecord> {
    vec![FlowopRecord::new(FlowopKind::Nop); count]
}

fn accept(count: u64) -> FlowopRecord {
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

/// Starts the first transaction of a master, or returns the reason for a refusal.
fn start_run(work: &WorkRecords) -> Result<(Master, Vec<uperf::wire::SlaveInfo>), String> {
    let mut master = Master::connect();
    let infos = master.exchange_phase_2(work)?;
    master.send(&HANDSHAKE_END);
    assert_eq!(master.receive(), HANDSHAKE_END);
    master.command(MasterCommand::NextTransaction(0));
    Ok((master, infos))
}

/// Starts runs until the slave refuses one. Returns their masters and the reason.
fn start_runs_until_refused(work: &WorkRecords) -> (Vec<Master>, String) {
    let mut masters = Vec::new();
    loop {
        match start_run(work) {
            Ok((master, _)) => masters.push(master),
            Err(reason) => return (masters, reason),
        }
        assert!(masters.len() < 200, "the slave refuses no run");
    }
}

/// Checks that the resident memory of the slave has grown by at most `max_bytes`.
#[track_caller]
fn assert_growth_at_most(slave: &Slave<'_>, initial_kib: u64, max_bytes: u64, case: &str) {
    let growth = (slave.resident_kib().saturating_sub(initial_kib)) << 10;
    let (growth, max) = (growth / MIB, max_bytes / MIB);
    assert!(growth <= max, "{case}: {growth} MiB, at most {max} allowed");
}

fn limits_memory_of_unfinished_workorders() {
    const LIMIT: u64 = 24 * MIB;
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--max-memory 24m");
    slave.assert_serves_run();
    let initial_kib = slave.resident_kib();
    hosts.master.enter(|| {
        let work = work(1, &[nops(10_000)]);
        let bytes = work.encode(uperf::wire::FlowopLayout::WithBatchSize, Endian::NATIVE);
        let mut masters = Vec::new();
        for _ in 0..40 {
            let mut master = Master::connect();
            master.send(&Header::for_phase_2(DataVersion::V0_3_1, 0).encode(Endian::NATIVE));
            // The slave waits for the last byte. A slave that refuses does not read everything.
            let _ = master.control.write_all(&bytes[..bytes.len() - 1]);
            masters.push(master);
        }
        let is_read = || hosts.slaves[0].enter(has_read_everything);
        assert!(
            wait_until(SHORT_TIMEOUT, is_read),
            "the slave does not read"
        );
        assert_growth_at_most(
            &slave,
            initial_kib,
            LIMIT + 4 * MIB,
            "unfinished workorders",
        );
    });
}

/// Whether the slave has read all data of its control connections.
fn has_read_everything() -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp6").expect("a readable table of sockets");
    let port = format!(":{PORT:04X}");
    let mut lines = table.lines().skip(1).map(str::split_whitespace);
    lines.all(|mut columns| {
        let is_slaves = columns.nth(1).is_some_and(|local| local.ends_with(&port));
        // The remote address, the state, and the two queues.
        let queues = columns.nth(2).unwrap_or_default();
        !is_slaves || queues.ends_with(":00000000")
    })
}

fn limits_memory_of_runs() {
    const LIMIT: u64 = 24 * MIB;
    let large = transfer(FlowopKind::Read, 1 << 20, 1);
    let accept_udp = FlowopRecord {
        protocol: DataProtocol::Udp as u32,
        ..accept(1)
    };
    for (case, work) in [
        ("flowops", work(1, &[nops(5000)])),
        ("flowops of strands", work(40, &[nops(400)])),
        ("strands", work(100, &[nops(1)])),
        ("transactions", work(10, &vec![Vec::new(); 1000])),
        ("buffers", work(4, &[vec![accept(1), large]])),
        (
            "batches",
            work(
                10,
                &[vec![accept_udp, transfer(FlowopKind::Read, 8192, 1024)]],
            ),
        ),
    ] {
        let hosts = Hosts::new(1);
        let slave = hosts.start_slave(0, "--max-memory 24m");
        slave.assert_serves_run();
        let initial_kib = slave.resident_kib();
        hosts.master.enter(|| {
            let (masters, reason) = start_runs_until_refused(&work);
            assert!(!masters.is_empty(), "{case}: {reason}");
            assert!(reason.starts_with("Out of Memory: "), "{case}: {reason}");
            assert_growth_at_most(&slave, initial_kib, LIMIT + 2 * MIB, case);
        });
    }
}

fn releases_memory_after_run() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--max-memory 2g");
    let idle_usage = slave.idle_usage();
    let initial_kib = slave.resident_kib();
    hosts.master.enter(|| {
        // 300 lists of 5000 flowops each.
        let (mut master, _) =
            start_run(&work(300, &[nops(5000)])).expect("the slave accepts the work");
        master.command(MasterCommand::SendStatistics);
        assert_eq!(master.receive_goodbye().kind, Goodbye::INFO);
    });
    slave.assert_usage_returns_to(SHORT_TIMEOUT, idle_usage, "a large workorder");
    assert_growth_at_most(&slave, initial_kib, 24 * MIB, "after a large workorder");
}

/// The remaining memory is available to another address.
fn limits_memory_per_address() {
    let hosts = hosts_with_other_address();
    let _slave = hosts.start_slave(0, "--max-memory 64m");
    hosts.master.enter(|| {
        let work = work(16, &[nops(64)]);
        let (_masters, reason) = start_runs_until_refused(&work);
        assert!(reason.contains("left for one address"), "{reason}");
        let mut other = Master::from_stream(connect_from(other_address(), control_address()));
        other
            .exchange_phase_2(&work)
            .expect("the slave accepts the work");
    });
}

fn hosts_with_other_address() -> Hosts {
    let hosts = Hosts::new(1);
    hosts
        .master
        .ip(&format!("address add {OTHER_ADDRESS}/24 dev to0"));
    hosts
}

fn limits_connections_per_master() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--max-connections 20");
    let idle_usage = slave.idle_usage();
    hosts.master.enter(|| {
        let (master, infos) =
            start_run(&work(1, &[vec![accept(1 << 40)]])).expect("the slave accepts the work");
        let address = data_address(&infos[0], DataProtocol::Tcp);
        // The listener is one of the 20.
        let _data: Vec<_> = (0..20).map(|_| TcpStream::connect(address)).collect();
        let goodbye = master.receive_goodbye();
        let expected = "more than 20 connections, listeners and files of one master \
                     (--max-connections)";
        assert!(
            goodbye.message.to_string().contains(expected),
            "{goodbye:?}"
        );
        // The end of the strand counts as one operation, as in stock.
        assert_eq!(goodbye.operations, 20);
    });
    // Each strand has a listener. The slave refuses the run before it opens one.
    hosts.master.enter(|| {
        let refused = start_run(&work(21, &[vec![accept(1)]])).map(drop);
        assert!(refused.is_err_and(|reason| reason.contains("--max-connections")));
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "too many connections");
}

fn limits_descriptors_per_address() {
    let hosts = hosts_with_other_address();
    let slave = linerate_with_args(&format!("uperf -s -P {PORT}"));
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n 224; exec "$0" "$@""#]);
    command.arg(slave.get_program()).args(slave.get_args());
    let slave = hosts.start_slave_with(0, &command);
    hosts.master.enter(|| {
        let work = work(8, &[vec![accept(1)]]);
        let mut masters = Vec::new();
        let reason = loop {
            let mut master = Master::connect();
            if let Err(reason) = master.exchange_phase_2(&work) {
                break reason;
            }
            masters.push(master);
            assert!(masters.len() < 100, "the slave refuses no master");
        };
        assert!(
            reason.contains("left for one address (RLIMIT_NOFILE"),
            "{reason}"
        );
        // The remaining descriptors suffice for another address.
        let mut other = Master::from_stream(connect_from(other_address(), control_address()));
        assert_eq!(other.exchange_phase_1(&[]), Phase1Answer::Ok);
        other
            .exchange_phase_2(&work)
            .expect("the slave accepts the work");
    });
    assert!(!slave.stderr().contains("panicked"), "{}", slave.stderr());
}

fn other_address() -> IpAddr {
    OTHER_ADDRESS.parse().expect("a valid address")
}

fn control_address() -> SocketAddr {
    SocketAddr::new(slave_address(0).parse().expect("a valid address"), PORT)
}

fn limits_masters_per_address() {
    let hosts = hosts_with_other_address();
    let _slave = hosts.start_slave(0, "--max-masters 32");
    hosts.master.enter(|| {
        let first_address: IpAddr = master_address(0).parse().expect("a valid address");
        let mut masters: Vec<_> = (0..32)
            .map(|_| Master::from_stream(connect_from(first_address, control_address())))
            .collect();
        let served = masters.iter_mut().map(|master| {
            let header = Header::for_phase_1(DataVersion::V0_3_1, []).encode(Endian::NATIVE);
            // The slave refuses the other masters, and closes their connections.
            let _ = master.control.write_all(&header);
            let mut answer = [0; Phase1Answer::LEN];
            let is_answered = master.control.read_exact(&mut answer).is_ok();
            is_answered && Phase1Answer::decode(&answer) == Phase1Answer::Ok
        });
        assert_eq!(served.filter(|is_served| *is_served).count(), 30);
        let mut other = Master::from_stream(connect_from(other_address(), control_address()));
        assert_eq!(other.exchange_phase_1(&[]), Phase1Answer::Ok);
    });
}

fn limits_strands_per_address() {
    let hosts = hosts_with_other_address();
    let _slave = hosts.start_slave(0, "--max-strands 32");
    hosts.master.enter(|| {
        let (_master, _) = start_run(&work(30, &[nops(1)])).expect("the slave accepts the work");
        let refused = start_run(&work(1, &[nops(1)])).map(drop);
        let expected = "1 strands requested: 0 left for one address";
        assert_eq!(refused, Err(expected.to_owned()));
        let mut other = Master::from_stream(connect_from(other_address(), control_address()));
        other
            .exchange_phase_2(&work(2, &[nops(1)]))
            .expect("the slave accepts the work");
    });
}

/// Commands do not extend a run.
fn ends_run_at_max_length_despite_commands() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--max-length 1 --control-idle 1");
    let idle_usage = slave.idle_usage();
    hosts.master.enter(|| {
        let (mut master, _) =
            start_run(&work(1, &[nops(1), nops(1)])).expect("the slave accepts the work");
        let start = Instant::now();
        let command = MasterCommand::NextTransaction(0).encode(Endian::NATIVE);
        while master.control.write_all(&command).is_ok() {
            assert!(start.elapsed() < SHORT_TIMEOUT, "the run does not end");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "a run with endless commands");
}

/// The master leaves while the slave waits for its strands at the next barrier. The strands end
/// then, not when they reach the barrier.
fn ends_strands_of_lost_master_at_barrier() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "-v");
    let idle_usage = slave.idle_usage();
    let think = FlowopRecord {
        duration_ns: 60_000_000_000,
        ..FlowopRecord::new(FlowopKind::Think)
    };
    let started_runs = || slave.stdout().matches("unlocking barrier 0").count();
    let earlier_runs = started_runs();
    hosts.master.enter(|| {
        let (mut master, _) =
            start_run(&work(1, &[vec![think], nops(1)])).expect("the slave accepts the work");
        let is_started = wait_until(SHORT_TIMEOUT, || started_runs() > earlier_runs);
        assert!(is_started, "{}", slave.stdout());
        master.command(MasterCommand::NextTransaction(1));
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "a lost master");
    let stderr = slave.stderr();
    assert!(stderr.contains("lost in Txn1: "), "{stderr}");
}

/// Masters that leave during their runs cause at most 100 lines per 10 s.
fn limits_lines_about_lost_runs() {
    const RUNS: usize = 300;
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "");
    let idle_usage = slave.idle_usage();
    let start = Instant::now();
    hosts.master.enter(|| {
        for _ in 0..RUNS {
            start_run(&work(1, &[nops(1), nops(1)])).expect("the slave accepts the work");
        }
    });
    let line_count = || slave.stderr().matches(": run lost ").count();
    assert!(wait_until(SHORT_TIMEOUT, || line_count() >= 100));
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "lost runs");
    let periods = start.elapsed().as_secs() as usize / 10 + 2;
    assert!(line_count() <= periods * 100, "{}", line_count());
}

fn limits_commands_per_run() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "");
    let idle_usage = slave.idle_usage();
    hosts.master.enter(|| {
        let (mut master, _) =
            start_run(&work(1, &[nops(1), nops(1)])).expect("the slave accepts the work");
        let command = MasterCommand::NextTransaction(0).encode(Endian::NATIVE);
        let start = Instant::now();
        while master.control.write_all(&command).is_ok() {
            assert!(start.elapsed() < SHORT_TIMEOUT, "the run does not end");
        }
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "endless commands");
    let stderr = slave.stderr();
    assert!(stderr.contains("more than 4096 commands"), "{stderr}");
}

fn limits_headers_per_handshake() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "-v");
    let idle_usage = slave.idle_usage();
    hosts.master.enter(|| {
        let mut master = Master::connect();
        let header = Header::for_phase_1(DataVersion::V0_3_1, []).encode(Endian::NATIVE);
        let answered = (0..100).take_while(|_| {
            let sent = master.control.write_all(&header);
            sent.is_ok() && master.control.read_exact(&mut [0; 192]).is_ok()
        });
        assert_eq!(answered.count(), 16);
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "endless headers");
    assert!(slave.stdout().contains("more than 16 headers"));
}
