//! `--cpu-method looper`: its function, not its precision.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testkit::{is_machine_idle, key_values};

use super::exchange::{Pair, Setting, run_pair, stdout_of};
use super::{Case, CaseResult};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case("looper::requires_permission", requires_permission),
        case("looper::measures_each_end", measures_each_end),
        case("looper::one_looper_per_host", one_looper_per_host),
        case("looper::measures_load", measures_load),
        case("looper::calibrates", calibrates),
    ]
}

fn case(name: &str, run: fn() -> CaseResult) -> Case {
    let run = move || match run() {
        // On a busy machine this error is correct.
        Err(error) if error.contains(TOO_BUSY) && !is_machine_idle() => {
            println!("not calibrated on a busy machine: {error}");
            Ok(())
        }
        result => result,
    };
    // Each namespace has its own looper, so cases do not share one.
    Case::new(name, run)
        .without_stock()
        .in_namespace(true)
        .run_alone()
}

const TOO_BUSY: &str = "the CPUs are too busy to be calibrated";

const SETTING: Setting = Setting {
    namespace: true,
    server_args: &["--allow-looper"],
    ..Setting::PLAIN
};

/// A server without `--allow-looper` measures from /proc/stat and refuses to calibrate. The client
/// reports both.
fn requires_permission() -> CaseResult {
    let setting = Setting::PLAIN.in_namespace(true);
    let args = "-t TCP_RR -l 1 -C --cpu-method looper --strict -- -k REMOTE_CPU_METHOD";
    let measured = run_pair(Pair::OURS, setting, &args.split(' ').collect::<Vec<_>>())?;
    if !measured.stdout.contains("REMOTE_CPU_METHOD=S\n")
        || !measured.stderr.contains("CPU time measured by a looper")
    {
        return Err(format!("{measured:?}"));
    }
    let args = ["-t", "REM_CPU", "--cpu-method", "looper"];
    let refused = run_pair(Pair::OURS, setting, &args)?;
    if refused.code == Some(0) || !refused.stderr.contains("--allow-looper") {
        return Err(format!("{refused:?}"));
    }
    Ok(())
}

/// Returns the value of `key`, which a looper measured.
fn looper_value(args: &[&str], key: &str) -> Result<f64, String> {
    let selection = format!("{key},LOCAL_CPU_METHOD,REMOTE_CPU_METHOD");
    let args = [args, &["--cpu-method", "looper", "--", "-k", &selection]].concat();
    let text = stdout_of(Pair::OURS, SETTING, &args)?;
    let end = key.split('_').next().unwrap_or_default();
    let method = format!("{end}_CPU_METHOD");
    let find = |selector: &str| {
        let pair = key_values(&text)
            .into_iter()
            .find(|(key, _)| *key == selector);
        pair.map(|(_, value)| value.to_owned())
    };
    if find(&method).as_deref() != Some("L") {
        return Err(text);
    }
    find(key).and_then(|value| value.parse().ok()).ok_or(text)
}

fn measures_each_end() -> CaseResult {
    for (option, key) in [("-c", "LOCAL_CPU_UTIL"), ("-C", "REMOTE_CPU_UTIL")] {
        let utilisation = looper_value(&["-t", "TCP_RR", "-l", "1", option], key)?;
        if !(1.0..=100.0).contains(&utilisation) {
            return Err(format!("{key} is {utilisation}"));
        }
    }
    Ok(())
}

/// Two loopers would count each other's idle cycles as work, so the second end reports no figure.
fn one_looper_per_host() -> CaseResult {
    let args = "-t TCP_RR -l 1 -c -C --cpu-method looper --strict -- -k LOCAL_CPU_METHOD,REMOTE_CPU_METHOD,REMOTE_CPU_UTIL";
    let finished = run_pair(Pair::OURS, SETTING, &args.split(' ').collect::<Vec<_>>())?;
    if finished
        .stdout
        .contains("LOCAL_CPU_METHOD=L\nREMOTE_CPU_METHOD=U\nREMOTE_CPU_UTIL=-1.00\n")
        && finished
            .stderr
            .contains("the peer did not report its CPU time")
    {
        return Ok(());
    }
    Err(format!("{finished:?}"))
}

/// The looper measures the load of spinning threads beside a light test.
fn measures_load() -> CaseResult {
    let args = ["-t", "UDP_RR", "-l", "1", "-c"];
    let stop = AtomicBool::new(false);
    let utilisation = std::thread::scope(|scope| {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cpus {
            scope.spawn(|| {
                let start = Instant::now();
                while !stop.load(Relaxed) && start.elapsed() < Duration::from_secs(30) {
                    std::hint::spin_loop();
                }
            });
        }
        let utilisation = looper_value(&args, "LOCAL_CPU_UTIL");
        stop.store(true, Relaxed);
        utilisation
    })?;
    // A hypervisor can steal half of the time, which counts for no process here.
    if utilisation < 30.0 {
        return Err(format!("{utilisation} % while every CPU was busy"));
    }
    Ok(())
}

/// The calibrated rate is valid as an argument, and a test uses that rate.
fn calibrates() -> CaseResult {
    for (test, option, key) in [
        ("LOC_CPU", "-c", "LOCAL_CPU_UTIL"),
        ("REM_CPU", "-C", "REMOTE_CPU_UTIL"),
    ] {
        let text = stdout_of(Pair::OURS, SETTING, &["-t", test, "--cpu-method", "looper"])?;
        let rate: f64 = text.trim().parse().map_err(|_| text.clone())?;
        if rate < 100.0 || text.ends_with('\n') {
            return Err(format!("{test}: {text:?}"));
        }
        // At a rate that no CPU can reach, nearly all time counts as busy.
        let excessive_rate = format!("{:e}", rate * 1e6);
        let args = ["-t", "TCP_RR", "-l", "1", option, &excessive_rate];
        let utilisation = looper_value(&args, key)?;
        if utilisation < 50.0 {
            return Err(format!("{utilisation} % at a rate of {excessive_rate}"));
        }
    }
    Ok(())
}
