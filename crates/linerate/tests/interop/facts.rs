//! What is told of hosts and interfaces, against what the system's own tools say of them.

use std::cell::Cell;
use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::{Make, Namespace, Role, Server, keyvals, link};

use crate::exchange::{Pair, Setting, peers, run, succeed};
use crate::{Case, Outcome};

/// By the names of their selectors.
type Facts = HashMap<String, String>;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::against_stock("facts::host", host).alone(),
        Case::against_stock("facts::stock_host", stock_host),
        Case::against_stock("facts::classic_client", stock_client_sees_none),
        Case::against_stock("facts::link", veth)
            .alone()
            .inside(true),
        Case::against_stock("facts::retransmissions", retransmissions)
            .alone()
            .inside(true),
        Case::against_stock("facts::socket", socket).alone(),
        Case::against_stock("facts::clock", clock).alone().quiet(),
    ]
}

/// Both ends are on this host.
fn host() -> Outcome {
    const NAMES: &str = "LOCAL_SYSNAME,LOCAL_RELEASE,LOCAL_VERSION,LOCAL_MACHINE,LOCAL_CPU_COUNT,\
        LOCAL_CPU_MODEL,REMOTE_SYSNAME,REMOTE_RELEASE,REMOTE_VERSION,REMOTE_MACHINE,\
        REMOTE_CPU_COUNT,REMOTE_CPU_MODEL,LOCAL_CPU_FREQUENCY,REMOTE_CPU_FREQUENCY";
    let facts = facts(Pair::OURS, &["-t", "TCP_RR", "-l", "-10"], NAMES)?;
    let model = said("sed", &["-n", "s/^model name[ \t]*: //p", "/proc/cpuinfo"])?;
    for end in ["LOCAL", "REMOTE"] {
        for (name, expected) in [
            ("SYSNAME", said("uname", &["-s"])?),
            ("RELEASE", said("uname", &["-r"])?),
            ("VERSION", said("uname", &["-v"])?),
            ("MACHINE", said("uname", &["-m"])?),
            ("CPU_COUNT", said("getconf", &["_NPROCESSORS_ONLN"])?),
        ] {
            same(&facts, &format!("{end}_{name}"), &expected)?;
        }
        // Other machines have other words in there.
        if let Some(model) = model.lines().next() {
            same(&facts, &format!("{end}_CPU_MODEL"), model)?;
        }
        let frequency = &facts[&format!("{end}_CPU_FREQUENCY")];
        if frequency.parse::<u32>().is_err() {
            return Err(format!("{end}_CPU_FREQUENCY={frequency}"));
        }
    }
    Ok(())
}

/// A stock server is asked, too, and says what it says.
fn stock_host() -> Outcome {
    const NAMES: &str = "REMOTE_SYSNAME,REMOTE_SYSTEM_MODEL,REMOTE_RELEASE,REMOTE_VERSION,\
        REMOTE_MACHINE,REMOTE_CPU_MODEL,REMOTE_INTERFACE_NAME,REMOTE_DRIVER_NAME,\
        REMOTE_SECURITY_TYPE";
    for test in ["TCP_RR", "UDP_STREAM", "TCP_CRR"] {
        let args = ["-t", test, "-l", "-100"];
        for (name, fact) in facts(Pair::TESTED[0], &args, NAMES)? {
            if fact != "Deprecated" {
                return Err(format!("{test}: {name}={fact}"));
            }
        }
    }
    Ok(())
}

/// What our server tells in words that a stock client does not look at.
fn stock_client_sees_none() -> Outcome {
    const NAMES: &str = "REMOTE_SYSNAME,REMOTE_CPU_MODEL,REMOTE_INTERFACE_NAME,REMOTE_DRIVER_BUS,\
        REMOTE_SECURITY_SPECIFIC,REMOTE_CPU_FREQUENCY,REMOTE_INTERFACE_VENDOR";
    let args = ["-t", "TCP_STREAM", "-l", "-100000"];
    let facts = facts(Pair::TESTED[1], &args, NAMES)?;
    for (name, fact) in facts {
        if !["Deprecated", "0", "0xfffffffe"].contains(&fact.as_str()) {
            return Err(format!("{name}={fact}"));
        }
    }
    Ok(())
}

/// An Ethernet link with each end in a namespace of its own, in which /sys is another's.
fn veth() -> Outcome {
    const TRANSACTIONS: f64 = 2000.0;
    const NAMES: &str = "LOCAL_INTERFACE_NAME,LOCAL_DRIVER_NAME,LOCAL_DRIVER_VERSION,\
        LOCAL_INTERFACE_VENDOR,LOCAL_INTERFACE_SLOT,REMOTE_INTERFACE_NAME,REMOTE_DRIVER_NAME,\
        LOCAL_INTERFACE_RX_PACKETS,LOCAL_INTERFACE_TX_PACKETS,LOCAL_INTERFACE_RX_BYTES,\
        REMOTE_INTERFACE_TX_PACKETS,REMOTE_INTERFACE_TX_BYTES,PACKETS_PER_TRANSACTION";
    let (near, far) = (Namespace::bare(), Namespace::bare());
    link(
        (&near, "left", "10.7.0.1/24"),
        (&far, "right", "10.7.0.2/24"),
    );
    let peers = peers();
    let server = Server::start(Some(&far), |port| {
        let mut command = peers.command(Make::Ours, Role::Server);
        command.args(["-D", "-4", "-p", &port.to_string()]);
        command
    })
    .map_err(|error| error.to_string())?;
    let before = counters(&near, "left")?;
    let mut client = peers.command(Make::Ours, Role::Client);
    client
        .args(["-H", "10.7.0.2", "-p", &server.port().to_string()])
        .args(["-P", "0", "-t", "TCP_RR", "-l", "-2000", "--", "-k", NAMES]);
    let finished = run(near.command(&client))?;
    let after = counters(&near, "left")?;
    let facts = by_name(&finished.stdout);
    if facts.len() != NAMES.split(',').count() {
        return Err(format!("{finished:?}"));
    }

    let route = near
        .run("ip -o route get 10.7.0.2")
        .map_err(|error| error.to_string())?;
    if !route.contains(" dev left ") {
        return Err(route);
    }
    for (name, expected) in [
        ("LOCAL_INTERFACE_NAME", "left"),
        ("REMOTE_INTERFACE_NAME", "right"),
        ("LOCAL_INTERFACE_VENDOR", "0xffffffff"),
        ("LOCAL_INTERFACE_SLOT", "None"),
    ] {
        same(&facts, name, expected)?;
    }
    if let Ok(text) = near.run("ethtool -i left") {
        let told = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap_or_default().trim().to_owned()
        };
        same(&facts, "LOCAL_DRIVER_NAME", &told("driver:"))?;
        same(&facts, "REMOTE_DRIVER_NAME", &told("driver:"))?;
        same(&facts, "LOCAL_DRIVER_VERSION", &told("version:"))?;
    }

    let number = |name: &str| facts[name].parse::<f64>().unwrap_or(f64::NAN);
    let rate = number("PACKETS_PER_TRANSACTION");
    // A request and a response, and the two control messages, handshake and goodbye around them.
    if !(2.0..2.02).contains(&rate) {
        return Err(format!("{facts:?}"));
    }
    // The whole run has the control connection in it; the test has not.
    for (name, whole) in [
        ("LOCAL_INTERFACE_RX_PACKETS", after.0 - before.0),
        ("LOCAL_INTERFACE_TX_PACKETS", after.1 - before.1),
    ] {
        let packets = number(name);
        if !(TRANSACTIONS..whole).contains(&packets) {
            return Err(format!("{name}={packets}, all {whole}"));
        }
    }
    let (sent, received) = (
        number("REMOTE_INTERFACE_TX_PACKETS"),
        number("LOCAL_INTERFACE_RX_PACKETS"),
    );
    if (sent - received).abs() > 10.0 || number("LOCAL_INTERFACE_RX_BYTES") < 67.0 * TRANSACTIONS {
        return Err(format!("{facts:?}"));
    }
    Ok(())
}

/// A connection test whose server has no address for a moment: what the connections sent again is what the kernel
/// counted, but for what was sent when they were closed.
fn retransmissions() -> Outcome {
    let (near, far) = (Namespace::bare(), Namespace::bare());
    link(
        (&near, "left", "10.7.0.1/24"),
        (&far, "right", "10.7.0.2/24"),
    );
    let peers = peers();
    let server = Server::start(Some(&far), |port| {
        let mut command = peers.command(Make::Ours, Role::Server);
        command.args(["-D", "-4", "-p", &port.to_string()]);
        command
    })
    .map_err(|error| error.to_string())?;
    let client = |names: &str| {
        let mut client = peers.command(Make::Ours, Role::Client);
        client
            .args(["-H", "10.7.0.2", "-p", &server.port().to_string()])
            .args(["-P", "0", "-t", "TCP_CRR", "-l", "3", "--", "-k", names]);
        near.command(&client)
    };
    let (finished, cut) = std::thread::scope(|scope| {
        let cut = scope.spawn(|| -> Outcome {
            await_that(|| Ok(counters(&near, "left")?.1 > 100.0))?;
            // What was dropped may have been the server's, which is not what is counted here.
            for _ in 0..5 {
                interrupt(&near, &far)?;
                if sent_again(&near)? > 0.0 {
                    break;
                }
            }
            Ok(())
        });
        let finished = run(client("LOCAL_TRANSPORT_RETRANS,REMOTE_TRANSPORT_RETRANS"));
        (finished, cut.join())
    });
    cut.map_err(|_| "the other thread broke off".to_owned())??;
    let facts = by_name(&finished?.stdout);
    // The end that accepts closes before it can know.
    same(&facts, "REMOTE_TRANSPORT_RETRANS", "-1")?;
    let told: f64 = facts
        .get("LOCAL_TRANSPORT_RETRANS")
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| format!("{facts:?}"))?;
    let counted = sent_again(&near)?;
    if !(1.0..=counted).contains(&told) {
        return Err(format!("{told} told, {counted} counted"));
    }
    Ok(())
}

/// Takes the far end's address away until the connection that is open stands still, and then waits until
/// something is sent.
fn interrupt(near: &Namespace, far: &Namespace) -> Outcome {
    let sent = || counters(near, "left").map(|(_, sent)| sent);
    let change = |what: &str| {
        let line = format!("ip address {what} 10.7.0.2/24 dev right");
        far.run(&line).map_err(|error| error.to_string())
    };
    change("del")?;
    // A busy machine may look like it for a moment.
    let (last, same) = (Cell::new(0.0), Cell::new(0));
    let stands = await_that(|| {
        let sent = sent()?;
        let stood = last.replace(sent) >= sent;
        same.set(if stood { same.get() + 1 } else { 0 });
        Ok(same.get() == 15)
    });
    change("add")?;
    stands?;
    await_that(|| Ok(sent()? > last.get()))
}

/// Looks until it is so, or too long.
fn await_that(holds: impl Fn() -> Result<bool, String>) -> Outcome {
    let patience = Duration::from_secs(10);
    let start = Instant::now();
    while !holds()? {
        if start.elapsed() > patience {
            return Err("it did not happen".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Segments that TCP has sent again in a namespace: proc(5), `/proc/net/snmp`.
fn sent_again(namespace: &Namespace) -> Result<f64, String> {
    let table = namespace
        .enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp"))
        .map_err(|error| error.to_string())?;
    let mut rows = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (
        rows.next().unwrap_or_default(),
        rows.next().unwrap_or_default(),
    );
    names
        .split(' ')
        .zip(values.split(' '))
        .find(|(name, _)| *name == "RetransSegs")
        .and_then(|(_, value)| value.parse().ok())
        .ok_or(table.clone())
}

/// Packets that an interface has received and sent.
fn counters(namespace: &Namespace, interface: &str) -> Result<(f64, f64), String> {
    let table = namespace
        .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))
        .map_err(|error| error.to_string())?;
    let row = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
    let words: Vec<f64> = row
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match words[..] {
        [_, received, _, _, _, _, _, _, _, sent, ..] => Ok((received, sent)),
        _ => Err(table),
    }
}

/// Options are what the kernel has, whether they were asked for or not.
fn socket() -> Outcome {
    const NAMES: &str = "LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS,LOCAL_SOCKET_PRIO,REMOTE_SOCKET_PRIO,\
        LOCAL_NODELAY,REMOTE_NODELAY,LOCAL_CORK,REMOTE_CORK";
    let plain: &[&str] = &["-t", "TCP_STREAM", "-l", "-100000"];
    let asked = [plain, &["-Y", "0x20,0x08", "-y", "3,2", "--", "-C", "-D"]].concat();
    for (args, expected) in [
        (plain, ["0x00", "0x00", "0", "0", "0", "0", "0", "0"]),
        (&asked, ["0x20", "0x08", "3", "2", "1", "1", "1", "0"]),
    ] {
        let facts = facts(Pair::OURS, args, NAMES)?;
        for (name, expected) in NAMES.split(',').zip(expected) {
            same(&facts, name, expected)?;
        }
    }
    Ok(())
}

/// A time cannot be shorter than a reading of the clock costs.
fn clock() -> Outcome {
    let args = ["-t", "TCP_RR", "-l", "-100"];
    let facts = facts(
        Pair::OURS,
        &args,
        "CLOCK_COST_NS,CLOCK_RESOLUTION_NS,P0_LATENCY,MIN_LATENCY,P100_LATENCY,MAX_LATENCY",
    )?;
    let number = |name: &str| facts[name].parse::<f64>().unwrap_or(f64::NAN);
    let holds = number("CLOCK_COST_NS") > 0.0
        && number("CLOCK_COST_NS") < 1000.0 * number("P0_LATENCY")
        && number("CLOCK_RESOLUTION_NS") >= 1.0
        // The one with decimals, the other without.
        && (0.0..1.0).contains(&(number("P0_LATENCY") - number("MIN_LATENCY")))
        && (0.0..1.0).contains(&(number("P100_LATENCY") - number("MAX_LATENCY")));
    if holds {
        Ok(())
    } else {
        Err(format!("{facts:?}"))
    }
}

fn facts(pair: Pair, args: &[&str], names: &str) -> Result<Facts, String> {
    let mut args = [&["-P", "0"], args].concat();
    if !args.contains(&"--") {
        args.push("--");
    }
    args.extend(["-k", names]);
    let facts = by_name(&succeed(pair, Setting::PLAIN, &args)?);
    match names.split(',').find(|name| !facts.contains_key(*name)) {
        Some(missing) => Err(format!("{missing} is missing: {facts:?}")),
        None => Ok(facts),
    }
}

fn by_name(text: &str) -> Facts {
    let pairs = keyvals(text).into_iter();
    pairs
        .map(|(name, fact)| (name.to_owned(), fact.to_owned()))
        .collect()
}

fn same(facts: &Facts, name: &str, expected: &str) -> Outcome {
    match facts.get(name) {
        Some(fact) if fact == expected => Ok(()),
        other => Err(format!("{name} is {other:?}, not {expected}")),
    }
}

fn said(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}
