//! Reported facts of hosts and connections, compared with the system's own tools.

mod interface;

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{Implementation, Namespace, Role, Server, add_link, key_values, wait_until};

use self::interface::counters;
use super::exchange::{Pair, Setting, programs, run, stdout_of};
use super::{Case, CaseResult};

/// Facts by selector name.
type Facts = HashMap<String, String>;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = interface::cases();
    cases.extend([
        Case::new("facts::host", host).without_stock(),
        Case::new("facts::stock_host", stock_host),
        Case::new("facts::stock_client", stock_client),
        Case::new("facts::security", security).without_stock(),
        Case::new("facts::retransmissions", retransmissions)
            .run_alone()
            .in_namespace(true),
        Case::new("facts::socket", socket).without_stock(),
        Case::new("facts::clock", clock).without_stock().run_alone(),
    ]);
    cases
}

/// Both ends are on this host.
fn host() -> CaseResult {
    const NAMES: &str = "LOCAL_SYSNAME,LOCAL_RELEASE,LOCAL_VERSION,LOCAL_MACHINE,LOCAL_CPU_COUNT,\
        LOCAL_CPU_MODEL,REMOTE_SYSNAME,REMOTE_RELEASE,REMOTE_VERSION,REMOTE_MACHINE,\
        REMOTE_CPU_COUNT,REMOTE_CPU_MODEL,LOCAL_CPU_FREQUENCY,REMOTE_CPU_FREQUENCY,\
        LOCAL_SYSTEM_MODEL,REMOTE_SYSTEM_MODEL";
    let facts = facts(Pair::OURS, &["-t", "TCP_RR", "-l", "-10"], NAMES)?;
    let first_cpu_field = |key: &str| {
        let script = format!("/^{key}[ \t]*: /{{s///p;q}}");
        stdout_of_program("sed", &["-n", &script, "/proc/cpuinfo"])
    };
    let (model, mhz) = (first_cpu_field("model name")?, first_cpu_field("cpu MHz")?);
    // DMI has the model, or the device tree of a board, with a final NUL.
    let system_model = ["/sys/class/dmi/id/product_name", "/proc/device-tree/model"]
        .iter()
        .find_map(|file| std::fs::read_to_string(file).ok())
        .unwrap_or("Unknown".to_owned());
    for end in ["LOCAL", "REMOTE"] {
        for (name, expected) in [
            ("SYSNAME", stdout_of_program("uname", &["-s"])?),
            ("RELEASE", stdout_of_program("uname", &["-r"])?),
            ("VERSION", stdout_of_program("uname", &["-v"])?),
            ("MACHINE", stdout_of_program("uname", &["-m"])?),
            (
                "CPU_COUNT",
                stdout_of_program("getconf", &["_NPROCESSORS_ONLN"])?,
            ),
            (
                "SYSTEM_MODEL",
                system_model.trim_end_matches(['\0', '\n', ' ']).to_owned(),
            ),
        ] {
            expect_fact(&facts, &format!("{end}_{name}"), &expected)?;
        }
        // cpuinfo of other architectures has no model name.
        if !model.is_empty() {
            expect_fact(&facts, &format!("{end}_CPU_MODEL"), &model)?;
        }
        // A frequency that cpufreq controls changes at any time.
        let frequency = &facts[&format!("{end}_CPU_FREQUENCY")];
        let is_variable = Path::new("/sys/devices/system/cpu/cpu0/cpufreq").exists();
        let holds = match (frequency.parse::<f64>(), mhz.parse::<f64>()) {
            (Ok(reported), Ok(expected)) if !is_variable => (reported - expected).abs() <= 1.0,
            (reported, _) => reported.is_ok(),
        };
        if !holds {
            return Err(format!("{end}_CPU_FREQUENCY={frequency}, {mhz} in cpuinfo"));
        }
    }
    Ok(())
}

/// The first known security module in the kernel's list, and its number.
fn security() -> CaseResult {
    const NAMES: &str = "LOCAL_SECURITY_TYPE_ID,LOCAL_SECURITY_TYPE,LOCAL_SECURITY_ENABLED_NUM,\
        LOCAL_SECURITY_ENABLED,LOCAL_SECURITY_SPECIFIC,REMOTE_SECURITY_TYPE_ID,REMOTE_SECURITY_TYPE,\
        REMOTE_SECURITY_ENABLED_NUM,REMOTE_SECURITY_ENABLED,REMOTE_SECURITY_SPECIFIC";
    const KINDS: [(&str, &str); 6] = [
        ("None", "0"),
        ("Unknown", "-1"),
        ("SELinux", "1"),
        ("AppArmor", "2"),
        ("Smack", "3"),
        ("TOMOYO", "4"),
    ];
    let facts = facts(Pair::OURS, &["-t", "TCP_RR", "-l", "-10"], NAMES)?;
    let (kind, number) = KINDS
        .into_iter()
        .find(|(kind, _)| facts["LOCAL_SECURITY_TYPE"] == *kind)
        .ok_or_else(|| format!("{facts:?}"))?;
    expect_fact(&facts, "LOCAL_SECURITY_TYPE_ID", number)?;
    if let Ok(active) = std::fs::read_to_string("/sys/kernel/security/lsm") {
        let is_known = |name: &&str| {
            KINDS
                .iter()
                .any(|(kind, _)| kind.eq_ignore_ascii_case(name))
        };
        let first = active
            .trim_end()
            .split(',')
            .find(is_known)
            .unwrap_or("none");
        if !kind.eq_ignore_ascii_case(first) {
            return Err(format!("{kind} is not the first known module of {active}"));
        }
    }
    let enabled = match facts["LOCAL_SECURITY_ENABLED_NUM"].as_str() {
        "1" => "Enforcing",
        "0" if kind == "None" => "Disabled",
        "0" => "Permissive",
        _ => "Unknown",
    };
    expect_fact(&facts, "LOCAL_SECURITY_ENABLED", enabled)?;
    if matches!(kind, "None" | "Unknown") {
        expect_fact(&facts, "LOCAL_SECURITY_SPECIFIC", kind)?;
    }
    // Both ends are on this host.
    for fact in ["TYPE_ID", "TYPE", "ENABLED_NUM", "ENABLED", "SPECIFIC"] {
        let local = &facts[&format!("LOCAL_SECURITY_{fact}")];
        expect_fact(&facts, &format!("REMOTE_SECURITY_{fact}"), local)?;
    }
    Ok(())
}

/// A stock server reports "Deprecated" for each fact.
fn stock_host() -> CaseResult {
    const NAMES: &str = "REMOTE_SYSNAME,REMOTE_SYSTEM_MODEL,REMOTE_RELEASE,REMOTE_VERSION,\
        REMOTE_MACHINE,REMOTE_CPU_MODEL,REMOTE_INTERFACE_NAME,REMOTE_DRIVER_NAME,\
        REMOTE_SECURITY_TYPE";
    for test in ["TCP_RR", "UDP_STREAM", "TCP_CRR"] {
        let args = ["-t", test, "-l", "-100"];
        for (name, fact) in facts(Pair::OURS_TO_STOCK, &args, NAMES)? {
            if fact != "Deprecated" {
                return Err(format!("{test}: {name}={fact}"));
            }
        }
    }
    Ok(())
}

/// A stock client ignores the facts that our server reports in extra fields.
fn stock_client() -> CaseResult {
    const NAMES: &str = "REMOTE_SYSNAME,REMOTE_CPU_MODEL,REMOTE_INTERFACE_NAME,REMOTE_DRIVER_BUS,\
        REMOTE_SECURITY_SPECIFIC,REMOTE_CPU_FREQUENCY,REMOTE_INTERFACE_VENDOR";
    let args = ["-t", "TCP_STREAM", "-l", "-100000"];
    let facts = facts(Pair::STOCK_TO_OURS, &args, NAMES)?;
    for (name, fact) in facts {
        if !["Deprecated", "0", "0xfffffffe"].contains(&fact.as_str()) {
            return Err(format!("{name}={fact}"));
        }
    }
    Ok(())
}

/// The server of a connection test briefly loses its address. The client reports the
/// retransmissions that the kernel counts, except those at the close of a connection.
fn retransmissions() -> CaseResult {
    let (near, far) = (
        Namespace::with_loopback_only(),
        Namespace::with_loopback_only(),
    );
    add_link(
        (&near, "left", "10.7.0.1/24"),
        (&far, "right", "10.7.0.2/24"),
    );
    let programs = programs();
    let server = far.enter(|| Server::start("-4"));
    let client = |names: &str| {
        let mut client = programs.command(Implementation::Ours, Role::Client);
        client
            .args(["-H", "10.7.0.2", "-p", &server.port.to_string()])
            .args(["-P", "0", "-t", "TCP_CRR", "-l", "3", "--", "-k", names]);
        near.command(&client)
    };
    let (finished, interruption) = std::thread::scope(|scope| {
        let interruption = scope.spawn(|| -> CaseResult {
            wait_for(|| Ok(counters(&near, "left")?.1 > 100.0))?;
            // The dropped packets may be the server's, which this count does not include.
            for _ in 0..5 {
                interrupt(&near, &far)?;
                if retransmitted_segments(&near)? > 0.0 {
                    break;
                }
            }
            Ok(())
        });
        let finished = run(client("LOCAL_TRANSPORT_RETRANS,REMOTE_TRANSPORT_RETRANS"));
        (finished, interruption.join())
    });
    interruption.map_err(|_| "the interrupting thread panicked".to_owned())??;
    let facts = parse_facts(&finished?.stdout);
    // The accepting end closes before it can read the count.
    expect_fact(&facts, "REMOTE_TRANSPORT_RETRANS", "-1")?;
    let reported: f64 = facts
        .get("LOCAL_TRANSPORT_RETRANS")
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| format!("{facts:?}"))?;
    let counted = retransmitted_segments(&near)?;
    if !(1.0..=counted).contains(&reported) {
        return Err(format!("{reported} reported, {counted} counted"));
    }
    Ok(())
}

/// Removes the far end's address until the open connection stalls. Restores it and waits until a
/// packet is sent.
fn interrupt(near: &Namespace, far: &Namespace) -> CaseResult {
    let sent = || counters(near, "left").map(|(_, sent)| sent);
    let change = |action: &str| {
        let line = format!("ip address {action} 10.7.0.2/24 dev right");
        far.run(&line).map_err(|error| error.to_string())
    };
    change("del")?;
    // On a busy machine a connection may pause. Only 15 equal counts in a row are a stall.
    let (last, equal_counts) = (Cell::new(0.0), Cell::new(0));
    let stalled = wait_for(|| {
        let sent = sent()?;
        let is_equal = last.replace(sent) >= sent;
        equal_counts.set(if is_equal { equal_counts.get() + 1 } else { 0 });
        Ok(equal_counts.get() == 15)
    });
    change("add")?;
    stalled?;
    wait_for(|| Ok(sent()? > last.get()))
}

/// Waits until a condition holds or fails, or times out.
fn wait_for(condition: impl Fn() -> Result<bool, String>) -> CaseResult {
    let mut result = Ok(false);
    let is_done = || {
        result = condition();
        result != Ok(false)
    };
    wait_until(Duration::from_secs(10), is_done);
    if result? {
        Ok(())
    } else {
        Err("timed out waiting for a condition".to_owned())
    }
}

/// Returns the segments that TCP retransmitted in a namespace: proc(5), `/proc/net/snmp`.
fn retransmitted_segments(namespace: &Namespace) -> Result<f64, String> {
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

/// Socket options are read from the kernel, whether requested or not.
fn socket() -> CaseResult {
    const NAMES: &str = "LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS,LOCAL_SOCKET_PRIO,REMOTE_SOCKET_PRIO,\
        LOCAL_NODELAY,REMOTE_NODELAY,LOCAL_CORK,REMOTE_CORK";
    let defaults: &[&str] = &["-t", "TCP_STREAM", "-l", "-100000"];
    let requested = [
        defaults,
        &["-Y", "0x20,0x08", "-y", "3,2", "--", "-C", "-D"],
    ]
    .concat();
    for (args, expected) in [
        (defaults, ["0x00", "0x00", "0", "0", "0", "0", "0", "0"]),
        (&requested, ["0x20", "0x08", "3", "2", "1", "1", "1", "0"]),
    ] {
        let facts = facts(Pair::OURS, args, NAMES)?;
        for (name, expected) in NAMES.split(',').zip(expected) {
            expect_fact(&facts, name, expected)?;
        }
    }
    Ok(())
}

/// A latency is at least the cost of a clock read.
fn clock() -> CaseResult {
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
        // MIN_LATENCY and MAX_LATENCY are integers, rounded down and up. P0 and P100 have two
        // decimals, rounded to the nearest: 47.996 is 47 and 48.00.
        && (0.0..=1.0).contains(&(number("P0_LATENCY") - number("MIN_LATENCY")))
        && (0.0..=1.0).contains(&(number("MAX_LATENCY") - number("P100_LATENCY")));
    if holds {
        Ok(())
    } else {
        Err(format!("{facts:?}"))
    }
}

/// Runs a test and returns the facts of these selectors.
fn facts(pair: Pair, args: &[&str], names: &str) -> Result<Facts, String> {
    let mut args = [&["-P", "0"], args].concat();
    if !args.contains(&"--") {
        args.push("--");
    }
    args.extend(["-k", names]);
    let facts = parse_facts(&stdout_of(pair, Setting::PLAIN, &args)?);
    match names.split(',').find(|name| !facts.contains_key(*name)) {
        Some(missing) => Err(format!("{missing} is missing: {facts:?}")),
        None => Ok(facts),
    }
}

fn parse_facts(text: &str) -> Facts {
    let pairs = key_values(text).into_iter();
    pairs
        .map(|(name, fact)| (name.to_owned(), fact.to_owned()))
        .collect()
}

fn expect_fact(facts: &Facts, name: &str, expected: &str) -> CaseResult {
    match facts.get(name) {
        Some(fact) if fact == expected => Ok(()),
        fact => Err(format!("{name} is {fact:?}, not {expected}")),
    }
}

fn stdout_of_program(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}
