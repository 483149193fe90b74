//! The limits of `linerate serve` per address, and the file with them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use iperf::wire::flags::{self, upper};
use iperf::wire::{Extension, Hello, HelloTransport};
use rustix::process::Signal;
use testkit::{TestCase, wait_until};

use super::{PROFILE, Serving, TIMEOUT, create_fifo, end_reason, write_with_mode};

pub(super) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        enforces_limits_per_address,
        limits_apply_until_the_last_direction_ends,
        address_in_excess_gets_no_new_test,
        sighup_reloads_limits,
    ]
}

fn enforces_limits_per_address() {
    let serving = Serving::start("--max-tests 1 --max-seconds 60 --max-rate 100mbit");
    for (line, error) in [
        ("netperf -p PORT -H 127.0.0.1 -l 61", "quota"),
        (
            "iperf3 -c 127.0.0.1 -p PORT -t 61",
            "exceeds the server's maximum",
        ),
    ] {
        let refused = serving.run_client(line);
        assert!(refused.code != Some(0), "{refused:#?}");
        let output = refused.stderr + &refused.stdout;
        assert!(output.contains(error), "{output}");
    }
    let first = serving.start_client("iperf3 -c 127.0.0.1 -p PORT -b 20M -t 3");
    serving.await_tests(1);
    let second = serving.run_client("iperf3 -c 127.0.0.1 -p PORT -t 1");
    assert!(second.stderr.contains("server is busy"), "{second:#?}");
    first.finish(TIMEOUT).assert_success();
    let fast = serving.run_client("iperf3 -c 127.0.0.1 -p PORT -t 10");
    assert!(fast.code != Some(0), "{fast:#?}");
    let log = serving.log(2);
    assert_eq!(end_reason(&log[0]), "complete");
    assert_eq!(end_reason(&log[1]), "limit of 100000000 bit/s per address");
}

/// A client that has sent all its data can still request data of the server for long.
fn limits_apply_until_the_last_direction_ends() {
    let serving = Serving::start("--max-tests 1");
    let hello = Hello {
        flags: flags::VERSION2 | flags::EXTEND,
        extension: Some(Extension {
            upper: upper::FULL_DUPLEX,
            rate: 800_000,
            ..Extension::default()
        }),
        ..Hello::default()
    };
    let mut client = TcpStream::connect(("127.0.0.1", serving.ports[1])).expect("it listens");
    let hello = hello.encode(HelloTransport::Stream);
    client.write_all(&hello).expect("the server reads");
    client.shutdown(Shutdown::Write).expect("it is connected");
    // The server has seen the end of the client's data when it has sent for half a second.
    client
        .read_exact(&mut vec![0; 50_000])
        .expect("the server sends");
    assert_eq!(serving.running_tests().len(), 1);
    let refused = serving.run_client("iperf3 -c 127.0.0.1 -p PORT -n 1K");
    assert!(refused.stderr.contains("server is busy"), "{refused:#?}");
}

/// Short tests cannot exceed the limit together, in any dialect.
fn address_in_excess_gets_no_new_test() {
    let serving = Serving::start("--max-rate 10kbit");
    let profile = serving.write_file("p.xml", PROFILE, 0o600);
    let uperf = format!("uperf -P PORT -m {}", profile.display());
    // Even if the server ends this test early, it uses up the rate for more than 10 minutes.
    let first = serving.run_client("iperf3 -c 127.0.0.1 -p PORT -n 10M");
    let log = serving.log(1);
    assert!(
        log[0]["received_bytes"].as_u64() > Some(1_000_000),
        "{first:#?}"
    );
    for line in [
        "netperf -p PORT -H 127.0.0.1 -l -1000 -P 0",
        &uperf,
        "iperf -c 127.0.0.1 -p PORT -n 2000",
        "iperf -c 127.0.0.1 -p PORT -u -n 2000 -l 1000",
        "iperf -c 127.0.0.1 -p PORT --bounceback -t 1",
        "iperf3 -c 127.0.0.1 -p PORT -n 3000",
        "udpmon_bw_mon -d 127.0.0.1 -u PORT -p 1000 -l 10 -w 100",
    ] {
        let refusals = || serving.server.stderr().matches("; try again in ").count();
        let old_count = refusals();
        let client = serving.start_client(line);
        // uperf's slave sends the reason to its master only. UDPmon's requester retries for long.
        let is_refused = || client.stderr().contains("; try again in ") || refusals() > old_count;
        assert!(
            wait_until(TIMEOUT, is_refused),
            "{line}: {} {}",
            client.stderr(),
            serving.server.stderr()
        );
    }
    assert_eq!(serving.log(1).len(), 1);
}

fn sighup_reloads_limits() {
    let directory = testkit::short_path_dir();
    let file = directory.path().join("limits");
    write_with_mode(&file, "max-seconds 1\n", 0o644);
    let serving = Serving::start(&format!("--limits-file {}", file.display()));
    let client = "netperf -p PORT -H 127.0.0.1 -l 2";
    assert!(serving.run_client(client).code != Some(0));
    let reload = |text: &str, message: &str| {
        write_with_mode(&file, text, 0o644);
        serving.server.signal(Signal::HUP);
        let is_reported = wait_until(TIMEOUT, || serving.server.stderr().contains(message));
        assert!(is_reported, "{}", serving.server.stderr());
    };
    reload("max-second 9\n", "line 1: unknown option");
    reload("# rates\nmax-rate 10mbps\n", "line 2: max-rate: not a rate");
    reload("max-seconds 9x\n", "line 1: max-seconds: not a duration");
    std::fs::remove_file(&file).expect("a file");
    create_fifo(&file);
    serving.server.signal(Signal::HUP);
    let message = "it is not a regular file";
    let is_reported = wait_until(TIMEOUT, || serving.server.stderr().contains(message));
    assert!(is_reported, "{}", serving.server.stderr());
    std::fs::remove_file(&file).expect("a FIFO");
    assert!(serving.run_client(client).code != Some(0));
    reload("allow-peers 127.0.0.0/8\n", "limits were read again");
    serving.run_client(client).assert_success();
}
