//! The reported facts of hosts and connections, against what the system's own tools say of them.

mod interface;

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{Implementation, Namespace, Role, Server, add_link, key_values, wait_until};

use self::interface::counters;
use super::exchange::{Pair, Setting, peers, run, succeed};
use super::{Case, Outcome};

/// By the names of their selectors.
type Facts = HashMap<String, String>;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = interface::cases();
    cases.extend([
        Case::against_stock("facts::host", host).alone(),
        Case::against_stock("facts::stock_host", stock_host),
        Case::against_stock("facts::classic_client", stock_client_sees_none),
        Case::against_stock("facts::security", security).alone(),
        Case::against_stock("facts::retransmissions", retransmissions)
            .quiet()
            .inside(true),
        Case::against_stock("facts::socket", socket).alone(),
        Case::against_stock("facts::clock", clock).alone().quiet(),
    ]);
    cases
}

/// Both ends are on this host.
fn host() -> Outcome {
    const NAMES: &str = "LOCAL_SYSNAME,LOCAL_RELEASE,LOCAL_VERSION,LOCAL_MACHINE,LOCAL_CPU_COUNT,\
        LOCAL_CPU_MODEL,REMOTE_SYSNAME,REMOTE_RELEASE,REMOTE_VERSION,REMOTE_MACHINE,\
        REMOTE_CPU_COUNT,REMOTE_CPU_MODEL,LOCAL_CPU_FREQUENCY,REMOTE_CPU_FREQUENCY,\
        LOCAL_SYSTEM_MODEL,REMOTE_SYSTEM_MODEL";
    let facts = facts(Pair::OURS, &["-t", "TCP_RR", "-l", "-10"], NAMES)?;
    let of_first_cpu = |key: &str| {
        let script = format!("/^{key}[ \t]*: /{{s///p;q}}");
        said("sed", &["-n", &script, "/proc/cpuinfo"])
    };
    let (model, mhz) = (of_first_cpu("model name")?, of_first_cpu("cpu MHz")?);
    // DMI has it, or the device tree of a board, which ends it with a NUL.
    let machine = ["/sys/class/dmi/id/product_name", "/proc/device-tree/model"]
        .iter()
        .find_map(|file| std::fs::read_to_string(file).ok())
        .unwrap_or("Unknown".to_owned());
    for end in ["LOCAL", "REMOTE"] {
        for (name, expected) in [
            ("SYSNAME", said("uname", &["-s"])?),
            ("RELEASE", said("uname", &["-r"])?),
            ("VERSION", said("uname", &["-v"])?),
            ("MACHINE", said("uname", &["-m"])?),
            ("CPU_COUNT", said("getconf", &["_NPROCESSORS_ONLN"])?),
            (
                "SYSTEM_MODEL",
                machine.trim_end_matches(['\0', '\n', ' ']).to_owned(),
            ),
        ] {
            same(&facts, &format!("{end}_{name}"), &expected)?;
        }
        // Other machines have other words in there.
        if !model.is_empty() {
            same(&facts, &format!("{end}_CPU_MODEL"), &model)?;
        }
        // Where the kernel governs it, it is another one in the next moment.
        let frequency = &facts[&format!("{end}_CPU_FREQUENCY")];
        let governed = Path::new("/sys/devices/system/cpu/cpu0/cpufreq").exists();
        let holds = match (frequency.parse::<f64>(), mhz.parse::<f64>()) {
            (Ok(told), Ok(known)) if !governed => (told - known).abs() <= 1.0,
            (told, _) => told.is_ok(),
        };
        if !holds {
            return Err(format!("{end}_CPU_FREQUENCY={frequency}, {mhz} in cpuinfo"));
        }
    }
    Ok(())
}

/// What the kernel lists of its security modules, in the order in which they are asked; ours have
/// numbers by which one that is none, or is not known, is told apart.
fn security() -> Outcome {
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
    same(&facts, "LOCAL_SECURITY_TYPE_ID", number)?;
    if let Ok(active) = std::fs::read_to_string("/sys/kernel/security/lsm") {
        let confines = |name: &&str| {
            KINDS
                .iter()
                .any(|(kind, _)| kind.eq_ignore_ascii_case(name))
        };
        let first = active
            .trim_end()
            .split(',')
            .find(confines)
            .unwrap_or("none");
        if !kind.eq_ignore_ascii_case(first) {
            return Err(format!("{kind} of {active}"));
        }
    }
    let enabled = match facts["LOCAL_SECURITY_ENABLED_NUM"].as_str() {
        "1" => "Enforcing",
        "0" if kind == "None" => "Disabled",
        "0" => "Permissive",
        _ => "Unknown",
    };
    same(&facts, "LOCAL_SECURITY_ENABLED", enabled)?;
    if matches!(kind, "None" | "Unknown") {
        same(&facts, "LOCAL_SECURITY_SPECIFIC", kind)?;
    }
    // Both ends are on this host.
    for fact in ["TYPE_ID", "TYPE", "ENABLED_NUM", "ENABLED", "SPECIFIC"] {
        let here = &facts[&format!("LOCAL_SECURITY_{fact}")];
        same(&facts, &format!("REMOTE_SECURITY_{fact}"), here)?;
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

/// A connection test whose server has no address for a moment: what the connections sent again is what
/// the kernel counted, but for what was sent when they were closed.
fn retransmissions() -> Outcome {
    let (near, far) = (
        Namespace::with_loopback_only(),
        Namespace::with_loopback_only(),
    );
    add_link(
        (&near, "left", "10.7.0.1/24"),
        (&far, "right", "10.7.0.2/24"),
    );
    let peers = peers();
    let server = far.enter(|| Server::start("-4"));
    let client = |names: &str| {
        let mut client = peers.command(Implementation::Ours, Role::Client);
        client
            .args(["-H", "10.7.0.2", "-p", &server.port.to_string()])
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

/// Takes the far end's address away until the connection that is open stands still, and then waits
/// until something is sent.
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
    let mut looked = Ok(false);
    let holds = || {
        looked = holds();
        looked != Ok(false)
    };
    wait_until(Duration::from_secs(10), holds);
    if looked? {
        Ok(())
    } else {
        Err("it did not happen".to_owned())
    }
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
        // Whole numbers, the minimum rounded down and the maximum up, beside two decimals, which
        // are rounded to the nearest: 47.996 is 47 and 48.00.
        && (0.0..=1.0).contains(&(number("P0_LATENCY") - number("MIN_LATENCY")))
        && (0.0..=1.0).contains(&(number("MAX_LATENCY") - number("P100_LATENCY")));
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
    let pairs = key_values(text).into_iter();
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
