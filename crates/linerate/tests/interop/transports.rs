//! OMNI tests over what carries data beside TCP and UDP, and Fast Open: between ours, as the original
//! has none of it on Linux, and what the original makes of it where it must.
//!
//! What needs a kernel module (SCTP, DCCP, VSOCK, LLC) runs in `lab/suite/transports.sh`.

use std::collections::BTreeMap;

use testkit::{Implementation, Namespace, ProcessOutput, Role, Server, key_values};

use super::exchange::{Family, Pair, Setting, exchange, peers, run};
use super::{Case, Outcome};

const TIME: &str = "1";

const SELECTION: &str = "PROTOCOL,SOCKET_TYPE,DIRECTION,THROUGHPUT,LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,\
    REMOTE_BYTES_SENT,LOCAL_BYTES_RECVD,MULTIPATH";

/// Test options of each direction, as the selector DIRECTION calls it.
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
                let way = specific.join("");
                format!("transports::{transport}::{}::{way}", family.name())
            };
            cases.push(ours(name("mptcp"), move || {
                reliable("mptcp", "MPTCP", family, specific, direction)
            }));
            if !specific.contains(&"-c") {
                cases.push(ours(name("udplite"), move || {
                    udplite(family, specific, direction)
                }));
            }
        }
    }
    cases.extend([
        ours("transports::mptcp::count".to_owned(), mptcp_count),
        Case::against_stock("transports::mptcp::to_stock", mptcp_to_stock),
        Case::against_stock("transports::udplite::to_stock", udplite_to_stock),
        ours("transports::udplite::count".to_owned(), udplite_count),
        ours("transports::missing".to_owned(), missing),
        ours("transports::no_provider".to_owned(), no_provider),
        ours("transports::mptcp::off".to_owned(), mptcp_off).inside(true),
    ]);
    for test in [
        "-t TCP_STREAM --",
        "-t TCP_RR --",
        "-t TCP_CRR --",
        "-t OMNI -- -d send",
        "-t OMNI -- -d rr -T mptcp",
    ] {
        let name = format!("transports::fast_open::{}", test.replace(' ', ""));
        cases.push(ours(name, move || fast_open(test, true)).inside(true));
    }
    // Nothing to send with the first segment.
    for test in ["-t TCP_MAERTS --", "-t OMNI -- -c -d 0"] {
        let name = format!("transports::fast_open::{}", test.replace(' ', ""));
        cases.push(ours(name, move || fast_open(test, false)).inside(true));
    }
    cases
}

fn ours(name: String, run: impl FnOnce() -> Outcome + Send + 'static) -> Case {
    Case::against_stock(name, run).alone()
}

fn omni(setting: Setting, length: &str, specific: &[&str]) -> Result<ProcessOutput, String> {
    let head = ["-t", "OMNI", "-P", "0", "-l", length, "--"];
    let tail = ["-k", SELECTION];
    exchange(Pair::OURS, setting, &[&head, specific, &tail].concat())
}

/// The values of a run in which nothing was said on stderr.
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
    let value = values.get(key).ok_or_else(|| format!("no {key}"))?;
    value.parse().map_err(|_| format!("{key} is {value}"))
}

fn expect(values: &BTreeMap<String, String>, expected: [(&str, &str); 3]) -> Outcome {
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

/// What is sent is received, in both directions but for a transaction that the end cuts short.
fn reliable(
    transport: &str,
    protocol: &str,
    family: Family,
    specific: &[&str],
    direction: &str,
) -> Outcome {
    let setting = Setting {
        family,
        ..Setting::PLAIN
    };
    let specific = [&["-T", transport], specific].concat();
    let values = values(&omni(setting, TIME, &specific)?)?;
    expect(
        &values,
        [
            ("PROTOCOL", protocol),
            ("SOCKET_TYPE", "Stream"),
            ("DIRECTION", direction),
        ],
    )?;
    if values.get("MULTIPATH").is_none_or(|value| value != "1") {
        return Err(format!("Multipath TCP was not in force: {values:?}"));
    }
    for (sent, received) in [
        ("LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"),
        ("REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"),
    ] {
        let (sent, received) = (number(&values, sent)?, number(&values, received)?);
        let cut_short = if direction.contains('|') { 1.0 } else { 0.0 };
        if (sent - received).abs() > cut_short {
            return Err(format!(
                "{sent} bytes were sent, {received} received: {values:?}"
            ));
        }
    }
    Ok(())
}

fn udplite(family: Family, specific: &[&str], direction: &str) -> Outcome {
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
    let values = values(&omni(setting, TIME, &specific)?)?;
    expect(
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

fn mptcp_count() -> Outcome {
    let values = values(&omni(
        Setting::PLAIN,
        "-10M",
        &["-T", "mptcp", "-d", "send"],
    )?)?;
    let received = number(&values, "REMOTE_BYTES_RECVD")?;
    if (10e6..12e6).contains(&received) {
        return Ok(());
    }
    Err(format!("{received} bytes for 10 MB"))
}

/// Each transaction of a kind that may be lost, but is not on a loopback interface with one at a time.
fn udplite_count() -> Outcome {
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

/// A stock server is asked for TCP, never for a protocol at which it would spin.
fn mptcp_to_stock() -> Outcome {
    let [ours_to_stock, ..] = Pair::TESTED;
    let args = ["-t", "TCP_STREAM", "-l", "-2M", "--", "-T", "mptcp"];
    let finished = exchange(ours_to_stock, Setting::PLAIN, &args)?;
    if finished.code == Some(0) && finished.stderr.contains("fell back to TCP") {
        return Ok(());
    }
    Err(format!("{finished:?}"))
}

fn udplite_to_stock() -> Outcome {
    let [ours_to_stock, ..] = Pair::TESTED;
    let args = ["-t", "OMNI", "-P", "0", "-l", "1", "--", "-T", "udplite"];
    let finished = exchange(ours_to_stock, Setting::PLAIN, &args)?;
    let refused = finished.code == Some(255) && finished.stdout == "netperf: remote error 95";
    if refused && finished.stderr.contains("cannot serve UDPLite") {
        return Ok(());
    }
    Err(format!("{finished:?}"))
}

/// A transport that this kernel has not got is refused in one line with the module's name.
fn missing() -> Outcome {
    for (transport, module) in [("sctp", "sctp"), ("dccp", "dccp_ipv4")] {
        let finished = omni(Setting::PLAIN, TIME, &["-T", transport])?;
        let line = format!("netperf: this kernel has no {}", transport.to_uppercase());
        let refused = finished.code == Some(1)
            && finished.stderr.starts_with(&line)
            && finished.stderr.contains(module)
            && finished.stderr.lines().count() == 1;
        if !refused && finished.code != Some(0) {
            return Err(format!("{transport}: {finished:?}"));
        }
    }
    Ok(())
}

fn no_provider() -> Outcome {
    for args in [
        &["-t", "XTI_TCP_STREAM"][..],
        &["-t", "xti_udp_rr"],
        &["-t", "SDP_STREAM"],
        &["-t", "OMNI", "--", "-T", "sdp"],
    ] {
        let mut client = peers().command(Implementation::Ours, Role::Client);
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

/// A server and clients in a namespace of their own, in which something is set beforehand.
struct Inside {
    namespace: Namespace,
    server: Server,
}

impl Inside {
    fn new(setting: &str) -> Result<Self, String> {
        let namespace = Namespace::new();
        let (file, value) = setting.split_once('=').unwrap_or((setting, ""));
        namespace
            .enter(|| std::fs::write(format!("/proc/sys/{file}"), value))
            .map_err(|error| format!("{setting}: {error}"))?;
        let server = namespace.enter(|| Server::start("-4"));
        Ok(Self { namespace, server })
    }

    fn client(&self, line: &str) -> Result<ProcessOutput, String> {
        let mut client = peers().command(Implementation::Ours, Role::Client);
        client.args(["-H", "127.0.0.1", "-p", &self.server.port.to_string()]);
        client.args(line.split_whitespace());
        run(self.namespace.command(&client))
    }
}

/// The first connection fetches the cookie, and the result says that it was without data; from the
/// second on data goes with the first segment.
fn fast_open(test: &str, sends_first: bool) -> Outcome {
    let inside = Inside::new("net/ipv4/tcp_fastopen=3")?;
    let line = format!("-l 1 {test} -F");
    // In a connection test the second connection is of the same run.
    let late = sends_first && !test.contains("CRR");
    for without_data in [late, false, false] {
        let finished = inside.client(&line)?;
        let said = finished.stderr.contains("Fast Open took no data");
        if finished.code != Some(0) || said != without_data {
            return Err(format!("netperf {line}: {finished:?}"));
        }
    }
    Ok(())
}

fn mptcp_off() -> Outcome {
    let inside = Inside::new("net/mptcp/enabled=0")?;
    let finished = inside.client("-l 1 -t OMNI -P 0 -- -T mptcp")?;
    if finished.code == Some(1) && finished.stderr.contains("net.mptcp.enabled") {
        return Ok(());
    }
    Err(format!("{finished:?}"))
}
