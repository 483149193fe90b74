//! OMNI tests over transports other than TCP and UDP, and Fast Open. Most run between ours, because
//! the original supports none of them on Linux; some check ours against a stock server.
//!
//! Transports that need a kernel module (SCTP, DCCP, VSOCK, LLC) run in `lab/suite/transports.sh`.

use std::collections::BTreeMap;

use testkit::{Implementation, Namespace, ProcessOutput, Role, Server, key_values};

use super::exchange::{Family, Pair, Setting, programs, run, run_pair};
use super::{Case, CaseResult};

const LENGTH: &str = "1";

const SELECTION: &str = "PROTOCOL,SOCKET_TYPE,DIRECTION,THROUGHPUT,LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,\
    REMOTE_BYTES_SENT,LOCAL_BYTES_RECVD,MULTIPATH";

/// Test options of each direction, and its name in the selector DIRECTION.
const DIRECTIONS: [(&[&str], &str); 5] = [
    (&["-d", "send"], "Send"),
    (&["-d", "recv"], "Receive"),
    (&["-d", "rr"], "Send|Recv"),
    (&["-d", "rr", "-c"], "Connect|Send|Recv"),
    (&["-c"], "Connection"),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for family in Family::ALL {
        for (specific, direction) in DIRECTIONS {
            let name = |transport: &str| {
                let options = specific.join("");
                format!("transports::{transport}::{}::{options}", family.name())
            };
            cases.push(ours(name("mptcp"), move || {
                check_mptcp(family, specific, direction)
            }));
            if !specific.contains(&"-c") {
                cases.push(ours(name("udplite"), move || {
                    check_udplite(family, specific, direction)
                }));
            }
        }
    }
    cases.extend([
        ours("transports::mptcp::count".to_owned(), mptcp_count),
        Case::new("transports::mptcp::to_stock", mptcp_to_stock),
        Case::new("transports::udplite::to_stock", udplite_to_stock),
        ours("transports::udplite::count".to_owned(), udplite_count),
        ours(
            "transports::missing_kernel_module".to_owned(),
            missing_kernel_module,
        ),
        ours("transports::no_provider".to_owned(), no_provider),
        ours("transports::mptcp::disabled".to_owned(), mptcp_disabled).in_namespace(true),
    ]);
    for test in [
        "-t TCP_STREAM --",
        "-t TCP_RR --",
        "-t TCP_CRR --",
        "-t OMNI -- -d send",
        "-t OMNI -- -d rr -T mptcp",
    ] {
        let name = format!("transports::fast_open::{}", test.replace(' ', ""));
        cases.push(ours(name, move || fast_open(test, true)).in_namespace(true));
    }
    // Tests without data in the first segment.
    for test in ["-t TCP_MAERTS --", "-t OMNI -- -c -d 0"] {
        let name = format!("transports::fast_open::{}", test.replace(' ', ""));
        cases.push(ours(name, move || fast_open(test, false)).in_namespace(true));
    }
    cases
}

/// Creates a case between ours.
fn ours(name: String, run: impl Fn() -> CaseResult + Send + 'static) -> Case {
    Case::new(name, run).without_stock()
}

fn omni(setting: Setting, length: &str, specific: &[&str]) -> Result<ProcessOutput, String> {
    let global = ["-t", "OMNI", "-P", "0", "-l", length, "--"];
    let selection = ["-k", SELECTION];
    run_pair(
        Pair::OURS,
        setting,
        &[&global, specific, &selection].concat(),
    )
}

/// Returns the values of a run; fails unless the run exits with 0 and an empty stderr.
fn values(finished: &ProcessOutput) -> Result<BTreeMap<String, String>, String> {
    if finished.code == Some(0) && finished.stderr.is_empty() {
        let pairs = key_values(&finished.stdout).into_iter();
        return Ok(pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect());
    }
    Err(format!("{finished:?}"))
}

fn number(values: &BTreeMap<String, String>, key: &str) -> Result<f64, String> {
    let value = values.get(key).ok_or_else(|| format!("{key} is missing"))?;
    value.parse().map_err(|_| format!("{key} is {value}"))
}

/// Checks the expected values, and that the throughput is positive.
fn check_values(values: &BTreeMap<String, String>, expected: [(&str, &str); 3]) -> CaseResult {
    for (key, expected) in expected {
        if values.get(key).is_none_or(|value| value != expected) {
            return Err(format!("{key} is not {expected}: {values:?}"));
        }
    }
    let throughput = number(values, "THROUGHPUT")?;
    if throughput > 0.0 {
        Ok(())
    } else {
        Err(format!("THROUGHPUT is {throughput}"))
    }
}

/// MPTCP delivers all sent bytes. The end of the test may interrupt one transaction.
fn check_mptcp(family: Family, specific: &[&str], direction: &str) -> CaseResult {
    let setting = Setting {
        family,
        ..Setting::PLAIN
    };
    let specific = [&["-T", "mptcp"], specific].concat();
    let values = values(&omni(setting, LENGTH, &specific)?)?;
    check_values(
        &values,
        [
            ("PROTOCOL", "MPTCP"),
            ("SOCKET_TYPE", "Stream"),
            ("DIRECTION", direction),
        ],
    )?;
    if values.get("MULTIPATH").is_none_or(|value| value != "1") {
        return Err(format!("the connection did not use MPTCP: {values:?}"));
    }
    for (sent, received) in [
        ("LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"),
        ("REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"),
    ] {
        let (sent, received) = (number(&values, sent)?, number(&values, received)?);
        let max_missing = if direction.contains('|') { 1.0 } else { 0.0 };
        if (sent - received).abs() > max_missing {
            return Err(format!(
                "{sent} bytes were sent, {received} received: {values:?}"
            ));
        }
    }
    Ok(())
}

/// UDP-Lite delivers some of the sent bytes, and no more.
fn check_udplite(family: Family, specific: &[&str], direction: &str) -> CaseResult {
    let setting = Setting {
        family,
        ..Setting::PLAIN
    };
    let sizes = ["-T", "udplite", "-m", "1024", "-M", "1024"];
    let specific = if direction == "Send|Recv" {
        [&sizes[..2], specific].concat()
    } else {
        [&sizes, specific].concat()
    };
    let values = values(&omni(setting, LENGTH, &specific)?)?;
    check_values(
        &values,
        [
            ("PROTOCOL", "UDPLite"),
            ("SOCKET_TYPE", "Datagram"),
            ("DIRECTION", direction),
        ],
    )?;
    for (sent, received) in [
        ("LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"),
        ("REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"),
    ] {
        let (sent, received) = (number(&values, sent)?, number(&values, received)?);
        if received > sent || (received == 0.0) != (sent == 0.0) {
            return Err(format!(
                "{sent} bytes were sent, {received} received: {values:?}"
            ));
        }
    }
    Ok(())
}

fn mptcp_count() -> CaseResult {
    let values = values(&omni(
        Setting::PLAIN,
        "-10M",
        &["-T", "mptcp", "-d", "send"],
    )?)?;
    let received = number(&values, "REMOTE_BYTES_RECVD")?;
    if (10e6..12e6).contains(&received) {
        return Ok(());
    }
    Err(format!("received {received} bytes of 10 MB"))
}

/// Every transaction completes: the loopback interface loses no datagram with one in flight.
fn udplite_count() -> CaseResult {
    let sizes = ["-T", "udplite", "-d", "rr", "-r", "100,200"];
    let values = values(&omni(Setting::PLAIN, "-300", &sizes)?)?;
    for (key, expected) in [
        ("LOCAL_BYTES_SENT", 30_000.0),
        ("REMOTE_BYTES_RECVD", 30_000.0),
        ("REMOTE_BYTES_SENT", 60_000.0),
        ("LOCAL_BYTES_RECVD", 60_000.0),
    ] {
        if (number(&values, key)? - expected).abs() > 0.0 {
            return Err(format!("{key} is not {expected}: {values:?}"));
        }
    }
    Ok(())
}

/// Ours falls back to TCP. A stock server would spin on a request for MPTCP.
fn mptcp_to_stock() -> CaseResult {
    let args = ["-t", "TCP_STREAM", "-l", "-2M", "--", "-T", "mptcp"];
    let finished = run_pair(Pair::OURS_TO_STOCK, Setting::PLAIN, &args)?;
    if finished.code == Some(0) && finished.stderr.contains("fell back to TCP") {
        return Ok(());
    }
    Err(format!("{finished:?}"))
}

fn udplite_to_stock() -> CaseResult {
    let args = ["-t", "OMNI", "-P", "0", "-l", "1", "--", "-T", "udplite"];
    let finished = run_pair(Pair::OURS_TO_STOCK, Setting::PLAIN, &args)?;
    let is_refused = finished.code == Some(255) && finished.stdout == "netperf: remote error 95";
    if is_refused && finished.stderr.contains("cannot serve UDPLite") {
        return Ok(());
    }
    Err(format!("{finished:?}"))
}

/// A transport that the kernel lacks fails with one line that contains the module's name.
fn missing_kernel_module() -> CaseResult {
    for (transport, module) in [("sctp", "sctp"), ("dccp", "dccp_ipv4")] {
        let finished = omni(Setting::PLAIN, LENGTH, &["-T", transport])?;
        let line = format!("netperf: this kernel has no {}", transport.to_uppercase());
        let is_refused = finished.code == Some(1)
            && finished.stderr.starts_with(&line)
            && finished.stderr.contains(module)
            && finished.stderr.lines().count() == 1;
        if !is_refused && finished.code != Some(0) {
            return Err(format!("{transport}: {finished:?}"));
        }
    }
    Ok(())
}

fn no_provider() -> CaseResult {
    for args in [
        &["-t", "XTI_TCP_STREAM"][..],
        &["-t", "xti_udp_rr"],
        &["-t", "SDP_STREAM"],
        &["-t", "OMNI", "--", "-T", "sdp"],
    ] {
        let mut client = programs().command(Implementation::Ours, Role::Client);
        client.args(args);
        let finished = run(client)?;
        let lines = finished.stderr.lines().count();
        if finished.code != Some(1)
            || !finished.stderr.contains("no provider on Linux")
            || lines != 1
        {
            return Err(format!("{args:?}: {finished:?}"));
        }
    }
    Ok(())
}

/// A namespace with one changed setting of the kernel, and a server in it.
struct Host {
    namespace: Namespace,
    server: Server,
}

impl Host {
    fn new(sysctl: &str) -> Result<Self, String> {
        let namespace = Namespace::new();
        let (file, value) = sysctl.split_once('=').unwrap_or((sysctl, ""));
        namespace
            .enter(|| std::fs::write(format!("/proc/sys/{file}"), value))
            .map_err(|error| format!("{sysctl}: {error}"))?;
        let server = namespace.enter(|| Server::start("-4"));
        Ok(Self { namespace, server })
    }

    fn run_client(&self, line: &str) -> Result<ProcessOutput, String> {
        let mut client = programs().command(Implementation::Ours, Role::Client);
        client.args(["-H", "127.0.0.1", "-p", &self.server.port.to_string()]);
        client.args(line.split_whitespace());
        run(self.namespace.command(&client))
    }
}

/// The first connection fetches the cookie, and the client warns that it carried no data. Later
/// connections send data with the first segment.
fn fast_open(test: &str, sends_first: bool) -> CaseResult {
    let host = Host::new("net/ipv4/tcp_fastopen=3")?;
    // The kernel may store the cookie of an MPTCP connection later than the end of a short test.
    let length = if test.contains("mptcp") { "1" } else { "-1000" };
    let line = format!("-l {length} {test} -F");
    // In a connection test, the same run has a second connection.
    let expects_warning = sends_first && !test.contains("CRR");
    for expects_warning in [expects_warning, false, false] {
        let finished = host.run_client(&line)?;
        let has_warning = finished.stderr.contains("Fast Open sent no data");
        if finished.code != Some(0) || has_warning != expects_warning {
            return Err(format!("netperf {line}: {finished:?}"));
        }
    }
    Ok(())
}

fn mptcp_disabled() -> CaseResult {
    let host = Host::new("net/mptcp/enabled=0")?;
    let finished = host.run_client("-l 1 -t OMNI -P 0 -- -T mptcp")?;
    if finished.code == Some(1) && finished.stderr.contains("net.mptcp.enabled") {
        return Ok(());
    }
    Err(format!("{finished:?}"))
}
