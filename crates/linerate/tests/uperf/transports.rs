//! What data goes over, and how: transports that every machine has.

use testkit::{Profile, Server, TestCase, kernel_counter};

use super::{agree, requests};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        unix_sockets,
        datagram_connections_again_and_again,
        datagram_connections_side_by_side,
        multipath_tcp,
        the_master_listens_over_whatever_it_is,
        datagrams_in_batches,
        who_does_not_block_goes_on,
        what_cannot_be_is_refused_with_the_reason,
    ]
}

fn over(protocol: &str) -> String {
    let opening = format!("protocol={protocol}");
    requests().replace("protocol=tcp tcp_nodelay", &opening)
}

fn unix_sockets() {
    let slave = Server::start_slave("");
    let ended = slave.run_profile("", &over("unix"));
    agree(&ended);
    assert_eq!(ended.statistics("master")[4], "5004", "{ended:?}");
    // The master listens, and both strands at a name of its choice.
    let profile = over("unix port=7").replace("\"connect\"", "\"accept\"");
    agree(&slave.run_profile("", &profile));
}

/// Each connection begins with a handshake at the same port, and the next may come before the last one is closed.
fn datagram_connections_again_and_again() {
    let churn = Profile::new("loop")
        .group("nthreads=3")
        .transaction(
            "iterations=200",
            &[
                "connect remotehost=$h protocol=udp",
                "write size=90",
                "read size=90",
                "disconnect",
            ],
        )
        .text();
    let slave = Server::start_slave("");
    let at_a_port = format!("protocol=udp port={}", testkit::free_port());
    for profile in [
        churn.clone(),
        churn.replace("\"connect\"", "\"accept\""),
        churn
            .replace("protocol=udp", &at_a_port)
            .replace("nthreads=\"3\"", "nthreads=\"1\""),
        churn.replace("nthreads", "nprocs"),
    ] {
        let ended = slave.run_profile("", &profile);
        agree(&ended);
        let strands = if profile.contains("port=") { 1 } else { 3 };
        let operations = (strands * 200 * 4).to_string();
        assert_eq!(ended.statistics("master")[4], operations, "{ended:?}");
    }
}

/// Several at a time, of one strand: each has its own datagrams.
fn datagram_connections_side_by_side() {
    let profile = Profile::new("two")
        .group("nthreads=2")
        .transaction(
            "iterations=1",
            &[
                "connect conn=1 remotehost=$h protocol=udp",
                "connect conn=2 remotehost=$h protocol=udp",
            ],
        )
        .transaction(
            "iterations=100",
            &[
                "write conn=2 size=50",
                "write conn=1 size=90",
                "read conn=1 size=90",
                "read conn=2 size=50",
            ],
        )
        .text();
    let slave = Server::start_slave("");
    for profile in [
        profile.clone(),
        profile.replace("\"connect\"", "\"accept\""),
    ] {
        let ended = slave.run_profile("", &profile);
        agree(&ended);
        assert_eq!(ended.statistics("master")[2], "54.69KB", "{ended:?}");
    }
}

fn multipath_tcp() {
    if !has_multipath_tcp() {
        return;
    }
    let opened = || kernel_counter("MPTcpExt", "MPCapableSYNACKRX");
    let before = opened();
    // Over Multipath TCP small writes wait for acknowledgements, 40 ms each.
    let few = over("mptcp").replace("iterations=\"500\"", "iterations=\"20\"");
    agree(&Server::start_slave("").run_profile("", &few));
    assert!(opened() >= before + 2, "two strands: {before}");
}

/// The master waits for connections, and the slave opens them.
fn the_master_listens_over_whatever_it_is() {
    let slave = Server::start_slave("");
    for protocol in ["tcp", "udp", "unix", "mptcp"] {
        if protocol == "mptcp" && !has_multipath_tcp() {
            continue;
        }
        let profile = over(protocol)
            .replace("\"connect\"", "\"accept\"")
            .replace("iterations=\"500\"", "iterations=\"20\"");
        agree(&slave.run_profile("", &profile));
    }
}

/// Whether this kernel was built with Multipath TCP, and nobody has turned it off.
fn has_multipath_tcp() -> bool {
    let enabled = std::fs::read_to_string("/proc/sys/net/mptcp/enabled");
    let has = enabled.is_ok_and(|enabled| enabled.trim() != "0");
    if !has {
        eprintln!("SKIPPED: no Multipath TCP here");
    }
    has
}

/// Sixteen datagrams an execution, eight or four a call, and all of them are counted.
fn datagrams_in_batches() {
    let profile = Profile::new("batches")
        .group("nthreads=2")
        .single_flowop("connect remotehost=$h protocol=udp wndsz=200k")
        .transaction(
            "iterations=100",
            &[
                "write size=100 batch_size=8 repeat=2",
                "read size=100 batch_size=4 repeat=4",
            ],
        )
        .single_flowop("disconnect")
        .text();
    let before = kernel_counter("Udp", "OutDatagrams");
    let ended = Server::start_slave("").run_profile("", &profile);
    let master = ended.statistics("master");
    // A hundred times sixteen there and sixteen back, each of two strands.
    assert_eq!((&*master[2], &*master[4]), ("625.00KB", "404"), "{ended:?}");
    assert!(kernel_counter("Udp", "OutDatagrams") >= before + 6400);
    let slave = ended.statistics("127.0.0.1");
    assert_eq!((&slave[2], &slave[4]), (&master[2], &master[4]));
}

/// The slave writes one datagram for two reads, so that some of them fail however late they come.
fn who_does_not_block_goes_on() {
    let profile = |options: &str| {
        let read = format!("read size=100 rsize=200 count=2 non_blocking {options}");
        Profile::new("hasty")
            .group("nthreads=1")
            .single_flowop("connect remotehost=$h protocol=udp")
            .transaction("iterations=10", &[&read, "think duration=20ms"])
            .text()
    };
    let slave = Server::start_slave("");
    let ended = slave.run_profile("-v", &profile("canfail"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let failed = slave.run_profile("", &profile(""));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let why = "Resource temporarily unavailable";
    assert!(failed.stdout.contains(why), "{failed:?}");
}

fn what_cannot_be_is_refused_with_the_reason() {
    let slave = Server::start_slave("");
    for (options, expected) in [
        (
            "tcp encaps=9899",
            "tcp: Enabling UDP encapsulation to port 9899 not supported: \
             Linux supports it for SCTP only",
        ),
        ("tcp cc=no-such-one", "protocol=tcp: cc=no-such-one: "),
    ] {
        let ended = slave.run_profile("", &over(options));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let words = format!("uperf: {expected}");
        assert!(ended.stderr.starts_with(&words), "{ended:?}");
    }
}
