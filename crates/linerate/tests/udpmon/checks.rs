//! The checks that the specification lists for a re-implementation, each against the scripted stock responder and
//! against ours.

use testkit::{
    ProcessOutput, Relay, RelayAction, RelayDirection, TestCase, run_in_parallel, test_cases,
};

use super::block::{self, at, command, long};
use super::stock::Responder;
use super::{LIMIT, bw_mon, column, counts, req, responder};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = test_cases![
        counts_and_times_of_a_plain_test,
        dropped_swapped_and_doubled_packets,
        loss_at_the_end,
        a_lost_reply_costs_one_retry,
        each_lost_reply_is_asked_for_again,
        a_sweep_of_gaps,
        response_lengths,
    ];
    test_cases.into_iter().map(TestCase::allow_many).collect()
}

/// Runs `check` with the port of each make of responder.
fn with_each(check: impl Fn(u16, bool) + Sync) {
    let check = &check;
    let stock: Box<dyn FnOnce() + Send> = Box::new(move || {
        let stock = Responder::start();
        check(stock.port, true);
    });
    let ours: Box<dyn FnOnce() + Send> = Box::new(move || {
        let ours = responder("");
        check(ours.port, false);
        assert!(!ours.has_panicked(), "{}", ours.stderr());
        ours.terminate().assert_success();
    });
    run_in_parallel([stock, ours]);
}

/// The fate of each packet of data by its number; other datagrams pass.
fn impaired(server: u16, fate: impl Fn(i64) -> RelayAction + Clone + Send + 'static) -> Relay {
    Relay::start(server, move |way, datagram| {
        if way == RelayDirection::ToServer && command(datagram) == block::DATA {
            return fate(long(datagram, at::NUMBER));
        }
        RelayAction::Pass
    })
}

#[track_caller]
fn ended(line: &str) -> ProcessOutput {
    let client = testkit::run(bw_mon(line), LIMIT).expect("it ends");
    client.assert_success();
    client
}

/// Ten packets, 100 µs apart: they take nine gaps, and more where the machine is busy.
fn counts_and_times_of_a_plain_test() {
    with_each(|port, _| {
        let line = format!("-d 127.0.0.1 -u {port} -p 200 -l 10 -w 100 -x");
        let client = ended(&line);
        assert_eq!(counts(&client.stdout), [10, 0, 0], "{client:#?}");
        assert_eq!(column(&client.stdout, "num_sent"), [10.0], "{client:#?}");
        assert_eq!(column(&client.stdout, "%lost"), [0.0], "{client:#?}");
        assert_eq!(column(&client.stdout, "num_timeout"), [0.0], "{client:#?}");
        // Nothing leaves before its time. All of them can be late, and then follow each other closely.
        let sent = column(&client.stdout, "Send time")[0];
        assert!(sent >= 999.0, "{client:#?}");
        let time = column(&client.stdout, "Recv time")[0];
        assert!(time > 0.0, "{client:#?}");
    });
}

/// Stock's counts as the recording has them, and the corrected ones beside them.
fn dropped_swapped_and_doubled_packets() {
    with_each(|port, is_stock| {
        let relay = impaired(port, |number| match number {
            3 | 4 => RelayAction::Drop,
            6 => RelayAction::Swap,
            8 => RelayAction::Double,
            _ => RelayAction::Pass,
        });
        let line = format!("-d 127.0.0.1 -u {} -p 200 -l 12 -w 200", relay.port);
        let plain = ended(&format!("{line} -H"));
        assert_eq!(counts(&plain.stdout), [11, 3, 2], "{plain:#?}");
        assert_eq!(column(&plain.stdout, "%lost"), [8.3], "{plain:#?}");
        assert_eq!(bins(&plain.stdout, "Lost-frame sequence")[..3], [0, 1, 1]);
        assert_eq!(bins(&plain.stdout, "Out-of-order")[..3], [1, 1, 0]);

        // The records have each number; stock's have them at wrong places behind a late one.
        let records = ended(&format!("{line} -G 12"));
        for (result, has_numbers) in [(&plain, !is_stock), (&records, true)] {
            let shown = corrected(&result.stdout);
            let expected = has_numbers.then_some([2, 0, 1, 1]);
            assert_eq!(shown, expected, "{result:#?}");
        }
    });
}

/// The counts of a histogram's bins.
#[track_caller]
fn bins(stdout: &str, title: &str) -> Vec<u64> {
    let mut lines = stdout.lines().skip_while(|line| !line.ends_with(title));
    assert!(lines.next().is_some(), "no {title} in {stdout}");
    let bins = lines.skip(1).map_while(|line| {
        let (_, count) = line.split_once(" ; ")?;
        count.trim().parse().ok()
    });
    bins.collect()
}

/// The corrected counts: lost, lost at the end, late, repeated; `None` where not all are known.
pub(super) fn corrected(stdout: &str) -> Option<[u64; 4]> {
    let line = stdout
        .lines()
        .find(|line| line.starts_with("# corrected"))?;
    let count = |word: &str| {
        let mut words = line.split([' ', ';', ',', ':']);
        words.find(|found| *found == word)?;
        words.next()?.parse().ok()
    };
    Some([
        count("lost")?,
        count("tail")?,
        count("late")?,
        count("repeated")?,
    ])
}

fn loss_at_the_end() {
    with_each(|port, _| {
        let relay = impaired(port, |number| match number {
            95.. => RelayAction::Drop,
            _ => RelayAction::Pass,
        });
        let line = format!("-d 127.0.0.1 -u {} -p 200 -l 100 -w 20", relay.port);
        let client = ended(&line);
        assert_eq!(counts(&client.stdout), [95, 0, 0], "{client:#?}");
        assert_eq!(column(&client.stdout, "%lost"), [5.0], "{client:#?}");
        assert_eq!(corrected(&client.stdout), Some([0, 5, 0, 0]), "{client:#?}");
    });
}

/// The stock responder answers the repeated request as if another host asked.
fn a_lost_reply_costs_one_retry() {
    let stock = Responder::start();
    let mut has_dropped = false;
    let relay = Relay::start(stock.port, move |way, datagram| {
        if way == RelayDirection::ToClient && command(datagram) == block::OK && !has_dropped {
            has_dropped = true;
            return RelayAction::Drop;
        }
        RelayAction::Pass
    });
    let line = format!("-d 127.0.0.1 -u {} -p 200 -l 10 -w 100 -x", relay.port);
    let client = ended(&line);
    assert_eq!(counts(&client.stdout), [10, 0, 0], "{client:#?}");
    assert_eq!(column(&client.stdout, "num_timeout"), [1.0], "{client:#?}");
    let zeros = stock
        .commands()
        .into_iter()
        .take_while(|command| *command != block::GETSTATS);
    let expected = [
        block::ZEROSTATS,
        block::ZEROSTATS,
        block::TESTEND,
        block::ZEROSTATS,
    ];
    assert_eq!(zeros.collect::<Vec<_>>(), expected);
}

/// Each kind of reply is lost once; the figures are those of a test without loss.
fn each_lost_reply_is_asked_for_again() {
    let lost = [
        block::GETSTATS,
        block::GETHIST0,
        block::GETNETSNMP,
        block::GETNICSTATS,
        block::GETCPULOAD,
        block::GETINFO1,
        block::TESTEND,
    ];
    let check = |wanted: u32| {
        move || {
            with_each(|port, is_stock| {
                let relay = Relay::start(port, nth_reply_lost(wanted, 1));
                let options = "-p 200 -l 10 -w 100 -x -H -G 10";
                let line = format!("-d 127.0.0.1 -u {} {options}", relay.port);
                let client = ended(&line);
                let at = format!("{wanted:#x}, stock: {is_stock}: {client:#?}");
                assert_eq!(counts(&client.stdout), [10, 0, 0], "{at}");
                assert_eq!(bins(&client.stdout, "Out-of-order"), [0; 10], "{at}");
            });
        }
    };
    run_in_parallel(lost.map(check));
}

/// Drops the reply to the `nth` request with this command, counted from 0.
///
/// Requests are answered one after the other, so the reply is the next datagram back. The two ways of a relay share
/// the count.
fn nth_reply_lost(
    wanted: u32,
    nth: u32,
) -> impl FnMut(RelayDirection, &[u8]) -> RelayAction + Clone + Send + 'static {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    /// Too many to be reached.
    const DONE: u32 = u32::MAX / 2;
    let seen = Arc::new(AtomicU32::new(0));
    // Of most objects stock asks for more than one slice.
    let nth = if matches!(
        wanted,
        block::GETSTATS | block::GETNICSTATS | block::TESTEND
    ) {
        0
    } else {
        nth
    };
    move |way, datagram| {
        if way == RelayDirection::ToServer && command(datagram) == wanted {
            seen.fetch_add(1, SeqCst);
        }
        if way == RelayDirection::ToClient && seen.load(SeqCst) == nth + 1 {
            seen.store(DONE, SeqCst);
            return RelayAction::Drop;
        }
        RelayAction::Pass
    }
}

fn a_sweep_of_gaps() {
    with_each(|port, _| {
        let options = "-p 1400 -l 200 -w 0 -e 30 -i 10 -q";
        let client = ended(&format!("-d 127.0.0.1 -u {port} {options}"));
        let lines: Vec<Vec<&str>> = client
            .stdout
            .lines()
            .map(|line| line.split(';').map(str::trim).collect())
            .collect();
        assert_eq!(lines.len(), 4, "{client:#?}");
        let starts = lines
            .iter()
            .map(|fields| fields[0].parse::<u64>().expect("a time"));
        assert!(
            starts.is_sorted_by(|before, after| before < after),
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

fn response_lengths() {
    with_each(|port, _| {
        let options = "-p 64 -r 64 -e 128 -i 64 -l 5";
        let client = testkit::run(req(&format!("-d 127.0.0.1 -u {port} {options}")), LIMIT);
        let client = client.expect("it ends");
        client.assert_success();
        let first = |line: &str| line.split(';').next()?.trim().parse::<u32>().ok();
        let lengths: Vec<u32> = client.stdout.lines().filter_map(first).collect();
        assert_eq!(lengths, [64, 128], "{client:#?}");
    });
}
