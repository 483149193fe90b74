//! `--cpu-method looper`: function, not precision.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testkit::{is_machine_idle, key_values};

use super::exchange::{Pair, Setting, exchange, succeed};
use super::{Case, Outcome};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case("looper::only_where_allowed", only_where_allowed),
        case("looper::each_end_by_itself", each_end_by_itself),
        case("looper::one_looper_a_host", one_looper_a_host),
        case("looper::sees_a_load", sees_a_load),
        case("looper::calibrates", calibrates),
    ]
}

fn case(name: &str, run: fn() -> Outcome) -> Case {
    let run = move || match run() {
        // Others leave nothing idle: that is what it is to say then.
        Err(why) if why.contains(TOO_BUSY) && !is_machine_idle() => {
            println!("not calibrated, on a machine that is busy: {why}");
            Ok(())
        }
        outcome => outcome,
    };
    // A namespace has a looper of its own, so that cases do not meet.
    Case::against_stock(name, run).alone().inside(true).quiet()
}

const TOO_BUSY: &str = "the CPUs are too busy to be calibrated";

const SETTING: Setting = Setting {
    namespace: true,
    server_args: &["--allow-looper"],
    ..Setting::PLAIN
};

/// A server that was not told to allow it measures by /proc/stat, calibrates nothing, and both are
/// said.
fn only_where_allowed() -> Outcome {
    let strict = Setting::PLAIN.inside(true);
    let args = "-t TCP_RR -l 1 -C --cpu-method looper --strict -- -k REMOTE_CPU_METHOD";
    let measured = exchange(Pair::OURS, strict, &args.split(' ').collect::<Vec<_>>())?;
    if !measured.stdout.contains("REMOTE_CPU_METHOD=S\n")
        || !measured.stderr.contains("its CPU time by a looper")
    {
        return Err(format!("{measured:?}"));
    }
    let args = ["-t", "REM_CPU", "--cpu-method", "looper"];
    let refused = exchange(Pair::OURS, strict, &args)?;
    if refused.code == Some(0) || !refused.stderr.contains("--allow-looper") {
        return Err(format!("{refused:?}"));
    }
    Ok(())
}

fn value(args: &[&str], key: &str) -> Result<f64, String> {
    let selection = format!("{key},LOCAL_CPU_METHOD,REMOTE_CPU_METHOD");
    let args = [args, &["--cpu-method", "looper", "--", "-k", &selection]].concat();
    let text = succeed(Pair::OURS, SETTING, &args)?;
    let end = key.split('_').next().unwrap_or_default();
    let method = format!("{end}_CPU_METHOD");
    let find = |wanted: &str| {
        let found = key_values(&text)
            .into_iter()
            .find(|(key, _)| *key == wanted);
        found.map(|(_, value)| value.to_owned())
    };
    if find(&method).as_deref() != Some("L") {
        return Err(text);
    }
    find(key).and_then(|value| value.parse().ok()).ok_or(text)
}

fn each_end_by_itself() -> Outcome {
    for (option, key) in [("-c", "LOCAL_CPU_UTIL"), ("-C", "REMOTE_CPU_UTIL")] {
        let busy = value(&["-t", "TCP_RR", "-l", "1", option], key)?;
        if !(1.0..=100.0).contains(&busy) {
            return Err(format!("{key} is {busy}"));
        }
    }
    Ok(())
}

/// Two would take each other's idle cycles for work, so the second end has no figure.
fn one_looper_a_host() -> Outcome {
    let args = "-t TCP_RR -l 1 -c -C --cpu-method looper --strict -- -k LOCAL_CPU_METHOD,REMOTE_CPU_METHOD,REMOTE_CPU_UTIL";
    let finished = exchange(Pair::OURS, SETTING, &args.split(' ').collect::<Vec<_>>())?;
    let says = |text: &str, what: &str| text.contains(what);
    if says(
        &finished.stdout,
        "LOCAL_CPU_METHOD=L\nREMOTE_CPU_METHOD=U\nREMOTE_CPU_UTIL=-1.00\n",
    ) && says(&finished.stderr, "the peer did not report its CPU time")
    {
        return Ok(());
    }
    Err(format!("{finished:?}"))
}

/// A test that hardly works, first alone and then beside threads that leave nothing idle.
fn sees_a_load() -> Outcome {
    let args = ["-t", "UDP_RR", "-l", "1", "-c"];
    let stop = AtomicBool::new(false);
    let loaded = std::thread::scope(|scope| {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cpus {
            scope.spawn(|| {
                let began = Instant::now();
                while !stop.load(Relaxed) && began.elapsed() < Duration::from_secs(30) {
                    std::hint::spin_loop();
                }
            });
        }
        let loaded = value(&args, "LOCAL_CPU_UTIL");
        stop.store(true, Relaxed);
        loaded
    })?;
    // What a hypervisor takes meanwhile is nobody's work here, and can be half of it.
    if loaded < 30.0 {
        return Err(format!("{loaded} % with every CPU busy"));
    }
    Ok(())
}

/// A rate that was found out can be given back, and is the one in force then.
fn calibrates() -> Outcome {
    for (test, option, key) in [
        ("LOC_CPU", "-c", "LOCAL_CPU_UTIL"),
        ("REM_CPU", "-C", "REMOTE_CPU_UTIL"),
    ] {
        let text = succeed(Pair::OURS, SETTING, &["-t", test, "--cpu-method", "looper"])?;
        let rate: f64 = text.trim().parse().map_err(|_| text.clone())?;
        if rate < 100.0 || text.ends_with('\n') {
            return Err(format!("{test}: {text:?}"));
        }
        // With a rate that no CPU can reach, all of it is missing.
        let absurd = format!("{:e}", rate * 1e6);
        let busy = value(&["-t", "TCP_RR", "-l", "1", option, &absurd], key)?;
        if busy < 50.0 {
            return Err(format!("{busy} % of a rate of {absurd}"));
        }
    }
    Ok(())
}
