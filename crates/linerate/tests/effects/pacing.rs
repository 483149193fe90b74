//! Passes per interval, at both ends: -b, -w, --spin.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use rustix::process::Signal;
use testkit::{
    ProcessOutput, STOCK_NETPERF, Server, TestCase, TestProcess, connection_count, is_machine_idle,
    linerate_with_args, test_case, wait_until,
};

use super::trace::{Call, STRACE, trace_netperf};
use super::{TIMEOUT, run_client, selector_values, start_client};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("paces_client", &[], paces_client).run_alone(),
        test_case("paces_server", &[], paces_server).run_alone(),
        test_case(
            "reports_gaps_and_requested_pace",
            &[],
            reports_gaps_and_requested_pace,
        )
        .run_alone(),
        test_case("paces_classic_tests", &[], paces_classic_tests).run_alone(),
        test_case(
            "schedule_does_not_drift",
            &[STRACE],
            schedule_does_not_drift,
        ),
        test_case("spins_at_requested_end", &[STRACE], spins_at_requested_end),
        test_case(
            "limits_spinning_of_server",
            &[STRACE],
            limits_spinning_of_server,
        ),
        test_case(
            "reports_peer_that_does_not_spin",
            &[],
            reports_peer_that_does_not_spin,
        ),
        test_case("stop_ends_wait", &[], stop_ends_wait),
        test_case(
            "reports_peer_that_does_not_pace",
            &[STOCK_NETPERF],
            reports_peer_that_does_not_pace,
        ),
        test_case("banner_lists_options", &[], banner_lists_options),
    ]
}

/// Clock reading that separates real times (below) from the open end of a schedule (above), in
/// nanoseconds.
const NEVER: u64 = u64::MAX / 2;

/// A paced test of one second: options, the selector of its counter, and the expected passes.
type Case = (&'static str, &'static str, f64);

fn paces_client() {
    for case in [
        ("-t UDP_STREAM -b 5 -w 10", "LOCAL_SEND_CALLS", 500.0),
        // Far below a clock tick, with sleeping and with spinning.
        ("-t UDP_STREAM -b 1 -w 50u", "LOCAL_SEND_CALLS", 20_000.0),
        (
            "-t UDP_STREAM -b 1 -w 50u --spin",
            "LOCAL_SEND_CALLS",
            20_000.0,
        ),
        // The default interval is 1 ms.
        ("-t TCP_STREAM -b 2", "LOCAL_SEND_CALLS", 2_000.0),
        // The receiver's schedule starts independently of the sender's.
        ("-t TCP_MAERTS -b 5 -w 10", "LOCAL_RECV_CALLS", 500.0),
        ("-t TCP_RR -b 5 -w 10", "LOCAL_SEND_CALLS", 500.0),
        ("-t UDP_RR -b 5 -w 10", "LOCAL_SEND_CALLS", 500.0),
        ("-t TCP_CRR -b 1 -w 5", "LOCAL_SEND_CALLS", 200.0),
    ] {
        check_pace(case, "LOCAL", "");
    }
    // With several requests in flight, the requests are paced.
    check_pace(
        ("-t TCP_RR -b 5 -w 10", "LOCAL_SEND_CALLS", 500.0),
        "LOCAL",
        "-b 8",
    );
}

fn paces_server() {
    for case in [
        ("-t TCP_MAERTS -b ,5 -w ,10", "REMOTE_SEND_CALLS", 500.0),
        ("-t TCP_RR -b ,5 -w ,10", "REMOTE_RECV_CALLS", 500.0),
        ("-t TCP_CRR -b ,1 -w ,5", "REMOTE_RECV_CALLS", 200.0),
        ("-t OMNI -b ,5 -w ,10", "REMOTE_SEND_CALLS", 500.0),
    ] {
        let specific = if case.0.contains("OMNI") {
            "-T udp -d recv -R 1"
        } else {
            ""
        };
        check_pace(case, "REMOTE", specific);
    }
}

/// Checks the passes of a paced end. A sender makes the scheduled number of passes, with a
/// tolerance of 0.1 % or one pass. A receiver runs until the data ends, so its rate is checked.
#[track_caller]
fn check_pace((options, counter, passes): Case, end: &str, specific: &str) {
    let server = Server::start("");
    let names = [
        counter.to_owned(),
        format!("{end}_PACING_TARGET"),
        format!("{end}_PACING_RATE"),
        format!("{end}_P50_GAP"),
    ];
    let line = format!("{options} -l 1 -- {specific} -m 100 -k {}", names.join(","));
    assert_pace_held(|| {
        let output = run_client(&server, &line);
        let names: [&str; 4] = std::array::from_fn(|index| names[index].as_str());
        let [count, target, rate, gap] =
            selector_values(&output, names).map(|value| value.parse::<f64>().expect("a number"));
        assert!((target - passes).abs() < 0.01, "{options}: {target}");
        assert!(gap > 0.0, "{options}: {output:#?}");
        let (measured, tolerance) = if counter.contains("SEND") {
            assert!(count <= passes, "{options}: {count} passes");
            (count, (passes / 1000.0).max(1.0))
        } else {
            (rate, passes / 50.0)
        };
        ((measured - passes).abs() <= tolerance, output)
    });
}

/// Fails the test unless one of three runs holds the pace. A run that misses the pace must warn. On
/// a busy machine, all runs may miss it.
#[track_caller]
fn assert_pace_held(run: impl Fn() -> (bool, ProcessOutput)) {
    for attempt in 1..=3 {
        let (is_held, output) = run();
        if is_held {
            return;
        }
        assert!(
            output.stderr.contains(MISSED_PACE),
            "no warning about a missed pace: {output:#?}"
        );
        if !is_machine_idle() {
            println!("pace not held on a busy machine: {}", output.command);
            return;
        }
        assert!(attempt < 3, "pace not held on an idle machine: {output:#?}");
    }
}

/// Part of the warning about a missed pace.
const MISSED_PACE: &str = "fell behind its schedule";

/// The gaps are in ascending order. Their mean is the interval of a schedule with the measured
/// rate. The requested pace is reported for its end only.
fn reports_gaps_and_requested_pace() {
    let server = Server::start("");
    for (options, paced_end, other_end) in [
        ("-t TCP_STREAM -b 5 -w 10", "LOCAL", "REMOTE"),
        ("-t TCP_MAERTS -b ,5 -w ,10", "REMOTE", "LOCAL"),
    ] {
        let names = "PACING_TARGET,PACING_RATE,LATE_INTERVALS,MIN_GAP,MEAN_GAP,P50_GAP,P99_GAP,MAX_GAP,\
            INTERVAL_USECS,INTERVAL_BURST";
        let selectors_of = |end: &str| {
            names
                .split(',')
                .map(|name| format!("{end}_{name}"))
                .collect::<Vec<_>>()
        };
        let keys = [selectors_of(paced_end), selectors_of(other_end)]
            .concat()
            .join(",");
        let output = run_client(&server, &format!("{options} -l 1 -- -m 1000 -k {keys}"));
        let value = |end: &str, name: &str| -> f64 {
            let key = format!("{end}_{name}");
            selector_values(&output, [&*key])[0]
                .parse()
                .expect("a number")
        };
        let here = |name: &str| value(paced_end, name);
        let gaps = ["MIN", "P50", "P99", "MAX"].map(|gap| here(&format!("{gap}_GAP")));
        assert!(gaps[0] > 0.0 && gaps.is_sorted(), "{output:#?}");
        let mean = here("MEAN_GAP");
        assert!((gaps[0]..=gaps[3]).contains(&mean), "{output:#?}");
        // The schedule has five passes per interval.
        let late = here("LATE_INTERVALS");
        let expected = 5e6 / here("PACING_RATE");
        assert!((0.0..=100.0).contains(&late), "{output:#?}");
        // The schedule may end before late passes.
        let is_near = (mean / expected - 1.0).abs() < 0.05;
        assert!(is_near || late > 0.0, "{expected} {output:#?}");
        for (name, requested) in [
            ("PACING_TARGET", 500.0),
            ("INTERVAL_USECS", 10_000.0),
            ("INTERVAL_BURST", 5.0),
        ] {
            assert!((here(name) - requested).abs() < 0.01, "{name}: {output:#?}");
        }
        // The other end has no pace.
        for name in names.split(',') {
            let expected = if name.starts_with("INTERVAL") {
                0.0
            } else {
                -1.0
            };
            assert!(
                (value(other_end, name) - expected).abs() < 0.01,
                "{name}: {output:#?}"
            );
        }
    }
}

/// Classic tests without selectors print transactions per second, and 10^6 bit/s.
fn paces_classic_tests() {
    let server = Server::start("");
    for (options, min_rate, max_rate) in [
        ("-t TCP_CC -l 1 -P 0 -v 0 -b 1 -w 10", 99.0, 100.0),
        (
            "-t TCP_SENDFILE -l 1 -P 0 -v 0 -b 1 -w 10 -- -m 10000",
            7.9,
            8.0,
        ),
    ] {
        assert_pace_held(|| {
            let output = run_client(&server, options);
            let rate = output.figures()[0];
            assert!(rate <= max_rate, "{output:#?}");
            (rate > min_rate, output)
        });
    }
}

/// A client sleeps until its first pass plus multiples of the interval, exact to the nanosecond. A
/// spinning client never sleeps.
fn schedule_does_not_drift() {
    let sleep_ends = |options: &str| -> Vec<u64> {
        let client = format!("-t UDP_STREAM -l 1 -b 1 {options} -- -m 100 -R 1");
        let calls = trace_netperf("-e trace=clock_nanosleep", "", &client).client;
        // The last sleep has no end; a stop interrupts it.
        wake_times(&calls).filter(|until| *until < NEVER).collect()
    };
    let spinning = sleep_ends("-w 1111u --spin");
    assert_eq!(spinning.len(), 0, "{spinning:?}");
    let until = sleep_ends("-w 1111u");
    assert!(until.len() > 10, "{until:?}");
    for pair in until.windows(2) {
        assert_eq!((pair[1] - pair[0]) % 1_111_000, 0, "{until:?}");
    }
}

/// A spinning client does not sleep in short intervals. In long intervals it spins only at the end,
/// as a server does in each interval.
fn spins_at_requested_end() {
    let has_slept = |calls: &[Call]| wake_times(calls).any(|until| until < NEVER);
    // The server delays the second transaction of each interval of the client. The client still has
    // time left after it.
    let (short, long) = ("-w 2000u,900u", "-w 20,5");
    for (server, intervals, spin, client_sleeps, server_sleeps) in [
        ("--allow-spin", short, "", true, true),
        ("--allow-spin", short, "--spin", false, true),
        ("--allow-spin", short, "--spin=local", false, true),
        ("--allow-spin", short, "--spin=remote", true, true),
        ("", short, "--spin", false, true),
        ("--allow-spin", long, "--spin", true, true),
    ] {
        let client = format!("-t TCP_RR -l 1 -b 2,1 {intervals} {spin}");
        // On a busy machine, an end that is late in every interval does not sleep.
        let is_expected = (0..20).any(|_| {
            let calls = trace_netperf("-e trace=clock_nanosleep", server, &client);
            let sleeps = [has_slept(&calls.client), has_slept(&calls.server)];
            assert!(client_sleeps || !sleeps[0], "{client}: {:?}", calls.client);
            assert!(server_sleeps || !sleeps[1], "{client}: {:?}", calls.server);
            sleeps == [client_sleeps, server_sleeps]
        });
        assert!(is_expected, "{client}: an end did not sleep");
    }
}

/// A server sleeps for at least half of each interval. Its last interval has no end, so the end of
/// its last sleep shows the spun part.
fn limits_spinning_of_server() {
    for (server, interval, spun_ns) in [
        ("", "1m", 0),
        ("--allow-spin", "1m", 500_000),
        ("--allow-spin", "3m", 1_500_000),
        ("--allow-spin", "20m", 2_000_000),
    ] {
        let client = format!("-t TCP_MAERTS -l 1 -b ,1 -w ,{interval} --spin=remote");
        // A server that is late when the test ends does not reach the last interval.
        let end = (0..20).find_map(|_| {
            let calls = trace_netperf("-e trace=clock_nanosleep", server, &client).server;
            wake_times(&calls).find(|end| *end > NEVER)
        });
        assert_eq!(end, Some(u64::MAX - spun_ns), "{server} {interval}");
    }
}

/// A peer does not spin if it lacks linerate's extensions, or if its options do not allow it.
fn reports_peer_that_does_not_spin() {
    let server = Server::start("");
    let relay = start_relay_without_extensions(server.port);
    let client_stderr = |options: &str| {
        let line = format!("netperf -H 127.0.0.1 -p {relay} -t TCP_MAERTS -l 1 {options}");
        let output = TestProcess::start(&mut linerate_with_args(&line)).finish(TIMEOUT);
        output.assert_success();
        output.stderr
    };
    let warning = "the peer did not spin";
    assert!(client_stderr("-b ,5 --spin").contains(warning));
    assert!(client_stderr("-b ,5 --spin=remote").contains(warning));
    assert!(!client_stderr("-b ,5").contains(warning));
    // A linerate server spins only with --allow-spin.
    let output = run_client(&server, "-t TCP_MAERTS -l 1 -b ,5 --spin");
    assert!(output.stderr.contains(warning), "{output:#?}");
    let server = Server::start("--allow-spin");
    let output = run_client(&server, "-t TCP_MAERTS -l 1 -b ,5 --spin");
    assert!(!output.stderr.contains(warning), "{output:#?}");
}

/// Starts a relay of control connections to the server, and returns its port. The relay clears
/// linerate's extensions, which follow netperf's fields in each message.
fn start_relay_without_extensions(server: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let port = listener.local_addr().expect("the listener is bound").port();
    let forward = |mut from: TcpStream, mut to: TcpStream| {
        let mut message = [0; 656];
        while from.read_exact(&mut message).is_ok() {
            message[216..].fill(0);
            if to.write_all(&message).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    };
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server =
                TcpStream::connect((Ipv4Addr::LOCALHOST, server)).expect("the server listens");
            let (from_client, from_server) = (client.try_clone(), server.try_clone());
            let (from_client, from_server) = (from_client.unwrap(), from_server.unwrap());
            std::thread::spawn(move || forward(from_client, server));
            std::thread::spawn(move || forward(from_server, client));
        }
    });
    port
}

/// Returns the ends of a schedule's sleeps. Other pauses are relative.
fn wake_times(calls: &[Call]) -> impl Iterator<Item = u64> {
    let scheduled = calls
        .iter()
        .filter(|call| call.arguments[1] == "TIMER_ABSTIME");
    scheduled.map(wake_ns)
}

/// Parses `clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, {tv_sec=1, tv_nsec=2}, NULL)`.
fn wake_ns(call: &Call) -> u64 {
    assert_eq!(call.arguments[..2], ["CLOCK_MONOTONIC", "TIMER_ABSTIME"]);
    let parse_field = |argument: &str, name: &str| {
        let digits = argument.trim_matches(['{', '}']).strip_prefix(name);
        digits.and_then(|digits| digits.parse::<u64>().ok())
    };
    let seconds = parse_field(&call.arguments[2], "tv_sec=").expect("seconds");
    let nanos = parse_field(&call.arguments[3], "tv_nsec=").expect("nanoseconds");
    seconds.saturating_mul(1_000_000_000) + nanos
}

/// An interrupted client stops waiting for its next interval. A server stops if its client dies.
fn stop_ends_wait() {
    let server = Server::start("");
    let idle_usage = server.idle_usage();
    for (options, signal) in [
        ("-t TCP_STREAM -l 1000 -b 1 -w 1000s", Signal::INT),
        ("-t TCP_STREAM -l 1000 -b 1 -w 1000s --spin", Signal::INT),
        ("-t TCP_RR -l 1000 -b 1 -w 1000s -- -b 4", Signal::INT),
        ("-t TCP_MAERTS -l 1000 -b ,1 -w ,1000s", Signal::KILL),
        ("-t TCP_RR -l 1000 -b ,1 -w ,1000s", Signal::KILL),
    ] {
        let client = start_client(&server, options);
        let pid = client.pid();
        let is_started = wait_until(Duration::from_secs(10), || connection_count(pid) >= 2);
        assert!(is_started, "{options}: {}", client.stderr());
        client.signal(signal);
        let output = client.finish(Duration::from_secs(10));
        if signal == Signal::INT {
            output.assert_success();
        }
        server.assert_usage_returns_to(idle_usage, Duration::from_secs(10), options);
    }
}

fn reports_peer_that_does_not_pace() {
    let server = Server::start_stock();
    let output = run_client(&server, "-t TCP_MAERTS -l 1 -b ,5");
    assert!(
        output.stderr.contains("the peer does not pace"),
        "{output:#?}"
    );
    let output = run_client(&server, "-t TCP_MAERTS -l 1");
    assert_eq!(output.stderr, "");
}

fn banner_lists_options() {
    let server = Server::start("");
    for (options, expected_end) in [
        ("", "AF_INET : demo"),
        ("-b 5", " : interval : demo"),
        ("-b ,5", " : interval : demo"),
        ("-b 5 --spin", " : spin interval : demo"),
        ("-b ,5 --spin", " : spin interval : demo"),
        ("-b 5 --spin=remote", " : interval : demo"),
        ("-b 5 -k 1", " : interval : dirty data : demo"),
        ("-K ,1", " : dirty data : demo"),
        // No bytes are touched.
        ("-k 0,0", "AF_INET : demo"),
    ] {
        let output = run_client(&server, &format!("-t TCP_STREAM -l -1000 {options}"));
        let banner = output.stdout.lines().next().unwrap_or_default();
        assert!(banner.ends_with(expected_end), "{options}: {banner}");
    }
}
