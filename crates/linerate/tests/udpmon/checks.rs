//! The checks that the specification lists for a reimplementation. Each runs with the scripted
//! stock responder and with linerate's.

use std::net::UdpSocket;

use rustix::process::Signal;
use testkit::{
    ProcessOutput, Receive, Relay, RelayAction, RelayDirection, TestCase, run_in_parallel,
    test_cases, wait_until,
};

use udpmon::wire::{Command, MessageBlock};

use super::block::{self, command, offset, read_i64};
use super::stock::Responder;
use super::{TIMEOUT, bw_mon, column, packet_counts, req, start_responder};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = test_cases![
        reports_counts_and_times,
        counts_dropped_swapped_and_duplicated_packets,
        counts_loss_at_end,
        retries_once_after_lost_reply,
        repeats_requests_after_lost_replies,
        sweeps_gaps,
        sweeps_response_lengths,
        ends_session_of_closed_requester,
    ];
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

/// Runs `check` with the port of each responder, and with whether it is the stock one.
fn for_each_responder(check: impl Fn(u16, bool) + Sync) {
    let check = &check;
    let stock: Box<dyn FnOnce() + Send> = Box::new(move || {
        let stock = Responder::start();
        check(stock.port, true);
    });
    let ours: Box<dyn FnOnce() + Send> = Box::new(move || {
        let ours = start_responder("");
        check(ours.port, false);
        assert!(!ours.has_panicked(), "{}", ours.stderr());
        ours.terminate().assert_success();
    });
    run_in_parallel([stock, ours]);
}

/// Starts a relay that chooses the action for each data packet by its number. Other datagrams pass.
fn start_relay(server: u16, action: impl Fn(i64) -> RelayAction + Clone + Send + 'static) -> Relay {
    Relay::start(server, move |direction, datagram| {
        if direction == RelayDirection::ToServer && command(datagram) == block::DATA {
            return action(read_i64(datagram, offset::NUMBER));
        }
        RelayAction::Pass
    })
}

#[track_caller]
fn run_bw_mon(line: &str) -> ProcessOutput {
    let client = testkit::run(bw_mon(line), TIMEOUT).expect("the client ends");
    client.assert_success();
    client
}

/// Ten packets at intervals of 100 µs take at least nine intervals.
fn reports_counts_and_times() {
    for_each_responder(|port, _| {
        let line = format!("-d 127.0.0.1 -u {port} -p 200 -l 10 -w 100 -x");
        let client = run_bw_mon(&line);
        assert_eq!(packet_counts(&client.stdout), [10, 0, 0], "{client:#?}");
        assert_eq!(column(&client.stdout, "num_sent"), [10.0], "{client:#?}");
        assert_eq!(column(&client.stdout, "%lost"), [0.0], "{client:#?}");
        assert_eq!(column(&client.stdout, "num_timeout"), [0.0], "{client:#?}");
        // No packet leaves before its time. On a busy machine late packets may follow in a burst.
        let send_time = column(&client.stdout, "Send time")[0];
        assert!(send_time >= 999.0, "{client:#?}");
        let receive_time = column(&client.stdout, "Recv time")[0];
        assert!(receive_time > 0.0, "{client:#?}");
    });
}

/// linerate prints stock's counts as in the recording, and the corrected counts.
fn counts_dropped_swapped_and_duplicated_packets() {
    for_each_responder(|port, is_stock| {
        let relay = start_relay(port, |number| match number {
            3 | 4 => RelayAction::Drop,
            6 => RelayAction::Swap,
            8 => RelayAction::Double,
            _ => RelayAction::Pass,
        });
        let line = format!("-d 127.0.0.1 -u {} -p 200 -l 12 -w 200", relay.port);
        let without_records = run_bw_mon(&format!("{line} -H"));
        let stdout = &without_records.stdout;
        assert_eq!(packet_counts(stdout), [11, 3, 2], "{without_records:#?}");
        assert_eq!(column(stdout, "%lost"), [8.3], "{without_records:#?}");
        assert_eq!(
            histogram_bins(stdout, "Lost-frame sequence")[..3],
            [0, 1, 1]
        );
        assert_eq!(histogram_bins(stdout, "Out-of-order")[..3], [1, 1, 0]);

        // Records contain all packet numbers. Stock's have wrong positions after a late packet.
        let with_records = run_bw_mon(&format!("{line} -G 12"));
        for (result, has_numbers) in [(&without_records, !is_stock), (&with_records, true)] {
            let printed = corrected_counts(&result.stdout);
            let expected = has_numbers.then_some([2, 0, 1, 1]);
            assert_eq!(printed, expected, "{result:#?}");
        }
    });
}

/// Returns the counts of a histogram's bins.
#[track_caller]
fn histogram_bins(stdout: &str, title: &str) -> Vec<u64> {
    let mut lines = stdout.lines().skip_while(|line| !line.ends_with(title));
    assert!(lines.next().is_some(), "no {title} in {stdout}");
    let counts = lines.skip(1).map_while(|line| {
        let (_, count) = line.split_once(" ; ")?;
        count.trim().parse().ok()
    });
    counts.collect()
}

/// Returns the corrected counts: lost, lost at the end, late, repeated. `None` if they are
/// unavailable.
pub(super) fn corrected_counts(stdout: &str) -> Option<[u64; 4]> {
    let line = stdout
        .lines()
        .find(|line| line.starts_with("# corrected"))?;
    let count = |name: &str| {
        let mut words = line.split([' ', ';', ',', ':']);
        words.find(|word| *word == name)?;
        words.next()?.parse().ok()
    };
    Some([
        count("lost")?,
        count("tail")?,
        count("late")?,
        count("repeated")?,
    ])
}

fn counts_loss_at_end() {
    for_each_responder(|port, _| {
        let relay = start_relay(port, |number| match number {
            95.. => RelayAction::Drop,
            _ => RelayAction::Pass,
        });
        let line = format!("-d 127.0.0.1 -u {} -p 200 -l 100 -w 20", relay.port);
        let client = run_bw_mon(&line);
        assert_eq!(packet_counts(&client.stdout), [95, 0, 0], "{client:#?}");
        assert_eq!(column(&client.stdout, "%lost"), [5.0], "{client:#?}");
        assert_eq!(
            corrected_counts(&client.stdout),
            Some([0, 5, 0, 0]),
            "{client:#?}"
        );
    });
}

/// The stock responder answers the repeated request like a request of another host.
fn retries_once_after_lost_reply() {
    let stock = Responder::start();
    let mut has_dropped = false;
    let relay = Relay::start(stock.port, move |direction, datagram| {
        if direction == RelayDirection::ToClient && command(datagram) == block::OK && !has_dropped {
            has_dropped = true;
            return RelayAction::Drop;
        }
        RelayAction::Pass
    });
    let line = format!("-d 127.0.0.1 -u {} -p 200 -l 10 -w 100 -x", relay.port);
    let client = run_bw_mon(&line);
    assert_eq!(packet_counts(&client.stdout), [10, 0, 0], "{client:#?}");
    assert_eq!(column(&client.stdout, "num_timeout"), [1.0], "{client:#?}");
    let commands = stock
        .commands()
        .into_iter()
        .take_while(|command| *command != block::GETSTATS);
    let expected = [
        block::ZEROSTATS,
        block::ZEROSTATS,
        block::TESTEND,
        block::ZEROSTATS,
    ];
    assert_eq!(commands.collect::<Vec<_>>(), expected);
}

/// Each kind of reply is lost once. The figures are those of a test without loss.
fn repeats_requests_after_lost_replies() {
    let lost = [
        block::GETSTATS,
        block::GETHIST0,
        block::GETNETSNMP,
        block::GETNICSTATS,
        block::GETCPULOAD,
        block::GETINFO1,
        block::TESTEND,
    ];
    let check = |request: u32| {
        move || {
            for_each_responder(|port, is_stock| {
                let relay = Relay::start(port, drop_nth_reply(request, 1));
                let options = "-p 200 -l 10 -w 100 -x -H -G 10";
                let line = format!("-d 127.0.0.1 -u {} {options}", relay.port);
                let client = run_bw_mon(&line);
                let context = format!("{request:#x}, stock: {is_stock}: {client:#?}");
                assert_eq!(packet_counts(&client.stdout), [10, 0, 0], "{context}");
                assert_eq!(
                    histogram_bins(&client.stdout, "Out-of-order"),
                    [0; 10],
                    "{context}"
                );
            });
        }
    };
    run_in_parallel(lost.map(check));
}

/// Drops the reply to the `nth` request with this command, counted from 0.
///
/// The responder answers requests in order, so the reply is the next datagram to the client. Both
/// directions of the relay share the count.
fn drop_nth_reply(
    request: u32,
    nth: u32,
) -> impl FnMut(RelayDirection, &[u8]) -> RelayAction + Clone + Send + 'static {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    /// A count that no test reaches.
    const DONE: u32 = u32::MAX / 2;
    let request_count = Arc::new(AtomicU32::new(0));
    // Stock requests most objects in more than one slice, but not these.
    let nth = if matches!(
        request,
        block::GETSTATS | block::GETNICSTATS | block::TESTEND
    ) {
        0
    } else {
        nth
    };
    move |direction, datagram| {
        if direction == RelayDirection::ToServer && command(datagram) == request {
            request_count.fetch_add(1, SeqCst);
        }
        if direction == RelayDirection::ToClient && request_count.load(SeqCst) == nth + 1 {
            request_count.store(DONE, SeqCst);
            return RelayAction::Drop;
        }
        RelayAction::Pass
    }
}

fn sweeps_gaps() {
    for_each_responder(|port, _| {
        let options = "-p 1400 -l 200 -w 0 -e 30 -i 10 -q";
        let client = run_bw_mon(&format!("-d 127.0.0.1 -u {port} {options}"));
        let lines: Vec<Vec<&str>> = client
            .stdout
            .lines()
            .map(|line| line.split(';').map(str::trim).collect())
            .collect();
        assert_eq!(lines.len(), 4, "{client:#?}");
        let start_times = lines
            .iter()
            .map(|fields| fields[0].parse::<u64>().expect("a time"));
        assert!(
            start_times.is_sorted_by(|before, after| before < after),
            "{client:#?}"
        );
        for (fields, gap) in lines.iter().zip(["0", "10", "20", "30"]) {
            assert_eq!(
                fields[3..8],
                ["127.0.0.1", "127.0.0.1", "1400", "200", gap],
                "{client:#?}"
            );
        }
    });
}

fn sweeps_response_lengths() {
    for_each_responder(|port, _| {
        let options = "-p 64 -r 64 -e 128 -i 64 -l 5";
        let client = testkit::run(req(&format!("-d 127.0.0.1 -u {port} {options}")), TIMEOUT);
        let client = client.expect("the client ends");
        client.assert_success();
        let first_number = |line: &str| line.split(';').next()?.trim().parse::<u32>().ok();
        let lengths: Vec<u32> = client.stdout.lines().filter_map(first_number).collect();
        assert_eq!(lengths, [64, 128], "{client:#?}");
    });
}

/// The responder answers two requests of a requester that has closed its socket. The kernel queues
/// the error of the first answer, and the second one reports it.
fn ends_session_of_closed_requester() {
    let server = start_responder("");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let send = |command| {
        let request = MessageBlock {
            length: MessageBlock::LEN as u32,
            ..MessageBlock::with_command(command)
        };
        let sent = socket.send_to(&request.encode(), ("127.0.0.1", server.port));
        sent.expect("the responder listens");
    };
    let await_answer = || socket.receive(&mut [0; 2048]).expect("an answer");
    // The responder answers TESTEND without a session once it has started all its threads.
    send(Command::TestEnd);
    await_answer();
    let idle_usage = server.usage();
    send(Command::ZeroStats);
    await_answer();
    server.signal(Signal::STOP);
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid()));
        stat.is_ok_and(|stat| stat.contains(") T "))
    };
    assert!(wait_until(TIMEOUT, is_stopped), "the responder runs");
    send(Command::Request);
    send(Command::TestEnd);
    drop(socket);
    server.signal(Signal::CONT);
    server.assert_usage_returns_to(idle_usage, TIMEOUT, "the end of the requester");
}
