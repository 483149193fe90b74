//! Transports that every machine has, and their options.

use testkit::{Profile, Server, TestCase, kernel_counter};

use super::{assert_ends_agree, request_profile};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        counts_agree_over_unix_sockets,
        reopens_udp_connections,
        separates_concurrent_udp_connections,
        counts_agree_over_multipath_tcp,
        master_listens_over_each_transport,
        counts_datagrams_in_batches,
        non_blocking_reads_fail_without_data,
        refuses_unsupported_options_with_reason,
    ]
}

fn profile_over(transport: &str) -> String {
    let options = format!("protocol={transport}");
    request_profile().replace("protocol=tcp tcp_nodelay", &options)
}

fn counts_agree_over_unix_sockets() {
    let slave = Server::start_slave("");
    let output = slave.run_profile("", &profile_over("unix"));
    assert_ends_agree(&output);
    assert_eq!(output.statistics("master")[4], "5004", "{output:?}");
    // The master listens. Each of its strands chooses a name.
    let profile = profile_over("unix port=7").replace("\"connect\"", "\"accept\"");
    assert_ends_agree(&slave.run_profile("", &profile));
}

/// Each connection starts with a handshake at the same port. The next handshake may arrive before
/// the last connection is closed.
fn reopens_udp_connections() {
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
    let with_port = format!("protocol=udp port={}", testkit::free_port());
    for profile in [
        churn.clone(),
        churn.replace("\"connect\"", "\"accept\""),
        churn
            .replace("protocol=udp", &with_port)
            .replace("nthreads=\"3\"", "nthreads=\"1\""),
        churn.replace("nthreads", "nprocs"),
    ] {
        let output = slave.run_profile("", &profile);
        assert_ends_agree(&output);
        let strands = if profile.contains("port=") { 1 } else { 3 };
        let operations = (strands * 200 * 4).to_string();
        assert_eq!(output.statistics("master")[4], operations, "{output:?}");
    }
}

/// A strand with several open connections does not mix up their datagrams.
fn separates_concurrent_udp_connections() {
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
        let output = slave.run_profile("", &profile);
        assert_ends_agree(&output);
        assert_eq!(output.statistics("master")[2], "54.69KB", "{output:?}");
    }
}

fn counts_agree_over_multipath_tcp() {
    if !has_multipath_tcp() {
        return;
    }
    let opened_connections = || kernel_counter("MPTcpExt", "MPCapableSYNACKRX");
    let before = opened_connections();
    // Over Multipath TCP, each small write waits 40 ms for an acknowledgement.
    let profile = profile_over("mptcp").replace("iterations=\"500\"", "iterations=\"20\"");
    assert_ends_agree(&Server::start_slave("").run_profile("", &profile));
    let after = opened_connections();
    assert!(after >= before + 2, "{after} after {before} connections");
}

/// The slave opens the data connections.
fn master_listens_over_each_transport() {
    let slave = Server::start_slave("");
    for protocol in ["tcp", "udp", "unix", "mptcp"] {
        if protocol == "mptcp" && !has_multipath_tcp() {
            continue;
        }
        let profile = profile_over(protocol)
            .replace("\"connect\"", "\"accept\"")
            .replace("iterations=\"500\"", "iterations=\"20\"");
        assert_ends_agree(&slave.run_profile("", &profile));
    }
}

/// Whether the kernel supports Multipath TCP and it is enabled.
fn has_multipath_tcp() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/net/mptcp/enabled");
    let is_enabled = setting.is_ok_and(|setting| setting.trim() != "0");
    if !is_enabled {
        eprintln!("SKIPPED: the kernel lacks Multipath TCP or it is disabled");
    }
    is_enabled
}

/// Each execution transfers 16 datagrams, 8 per write or 4 per read. Both ends count all of them.
fn counts_datagrams_in_batches() {
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
    let output = Server::start_slave("").run_profile("", &profile);
    let master = output.statistics("master");
    // Each of 2 strands sends 100 × 16 datagrams and receives as many.
    assert_eq!(
        (&*master[2], &*master[4]),
        ("625.00KB", "404"),
        "{output:?}"
    );
    assert!(kernel_counter("Udp", "OutDatagrams") >= before + 6400);
    let slave = output.statistics("127.0.0.1");
    assert_eq!((&slave[2], &slave[4]), (&master[2], &master[4]));
}

/// The slave writes one datagram per two reads, so some reads find no data at any speed.
fn non_blocking_reads_fail_without_data() {
    let profile = |options: &str| {
        let read = format!("read size=100 rsize=200 count=2 non_blocking {options}");
        Profile::new("non-blocking")
            .group("nthreads=1")
            .single_flowop("connect remotehost=$h protocol=udp")
            .transaction("iterations=10", &[&read, "think duration=20ms"])
            .text()
    };
    let slave = Server::start_slave("");
    let output = slave.run_profile("-v", &profile("canfail"));
    assert_eq!(output.code, Some(0), "{output:?}");
    let failed = slave.run_profile("", &profile(""));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let expected = "Resource temporarily unavailable";
    assert!(failed.stdout.contains(expected), "{failed:?}");
}

fn refuses_unsupported_options_with_reason() {
    let slave = Server::start_slave("");
    for (options, expected) in [
        (
            "tcp encaps=9899",
            "tcp: Enabling UDP encapsulation to port 9899 not supported: \
             Linux supports it for SCTP only",
        ),
        ("tcp cc=no-such-one", "protocol=tcp: cc=no-such-one: "),
    ] {
        let output = slave.run_profile("", &profile_over(options));
        assert_eq!(output.code, Some(1), "{output:?}");
        let expected = format!("uperf: {expected}");
        assert!(output.stderr.starts_with(&expected), "{output:?}");
    }
}
