//! `-i`, `-I` and `-r`. Chance decides whether a run reaches an interval, so each interval here is
//! either too narrow to be reached or too wide to be missed.

use testkit::{ProcessOutput, key_values};

use super::exchange::{Pair, Setting, run_pair, stdout_of};
use super::variants::compare_output;
use super::{Case, CaseResult};

const LINES: &[&str] = &[
    "-l -200k -I 95,0.000001 -i 4,3",
    "-l -200k -I 99,9000 -i 5,3",
    "-l -200k -I 99,9000 -i 5,3 -r",
    "-l -2M -I 95,9000 -i 3 -c -C -P 0",
    "-t TCP_MAERTS -l -200k -I 95,9000",
    "-t UDP_STREAM -l -200k -I 95,9000 -- -R 1",
    "-t TCP_RR -l -200 -I 95,0.000001 -i 3 -r",
    "-t TCP_RR -l -200 -I 99,9000 -c -C",
    "-t TCP_RR -l -200 -I 99,9000 -c 100 -C 100",
    "-t UDP_RR -l -200 -I 95,0.000001 -i 3 -v 0 -P 0",
    "-t TCP_CRR -l -100 -I 95,9000",
    "-t TCP_CC -l -100 -I 95,0.000001 -i 3",
    "-t TCP_MSS -i 3",
    "-t OMNI -l -200k -I 99,0.000001 -i 3 -- -d send",
    "-t OMNI -l -200k -I 99,9000 -- -d recv -k CONFIDENCE_LEVEL,CONFIDENCE_INTERVAL,CONFIDENCE_ITERATION",
    "-l -200k -I 98",
    "-t LOC_CPU -c 50",
    "-t REM_CPU -C 50",
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &line in LINES {
        let name = format!("confidence::{}", line.replace(' ', "_"));
        let connects = line.contains("TCP_CRR") || line.contains("TCP_CC");
        let setting = Setting::PLAIN.in_namespace(connects);
        let case = Case::new(name, move || same_as_stock(setting, line));
        cases.push(case.in_namespace(connects));
    }
    for pair in [Pair::STOCK].into_iter().chain(Pair::TESTED) {
        let name = format!("confidence::iterations::{}", pair.name());
        cases.push(Case::new(name, move || iterations(pair)));
        if pair != Pair::STOCK {
            let name = format!("confidence::sendfile::{}", pair.name());
            cases.push(Case::new(name, move || sendfile(pair)));
        }
    }
    cases
}

fn same_as_stock(setting: Setting, line: &str) -> CaseResult {
    let args: Vec<&str> = line.split_ascii_whitespace().collect();
    let stock = without_widths(run_pair(Pair::STOCK, setting, &args)?);
    for pair in Pair::TESTED {
        let ours = without_widths(run_pair(pair, setting, &args)?);
        compare_output(&ours, &stock).map_err(|error| format!("{}: {error}", pair.name()))?;
    }
    Ok(())
}

/// Removes the widths, figures with a percent sign, from the warning.
fn without_widths(mut finished: ProcessOutput) -> ProcessOutput {
    let lines = finished.stdout.split_inclusive('\n').map(|line| {
        let is_width = line.starts_with("!!!") && line.ends_with("%\n");
        line[..if is_width {
            line.rfind(':').unwrap_or(0)
        } else {
            line.len()
        }]
            .to_owned()
    });
    finished.stdout = lines.collect();
    finished
}

/// Checks the number of iterations at both limits, and the reported widths.
fn iterations(pair: Pair) -> CaseResult {
    const SELECTION: &str = "CONFIDENCE_ITERATION,THROUGHPUT_CONFID,LOCAL_CPU_CONFID,THROUGHPUT";
    for (width, expected) in [("0.000001", "5"), ("9000", "4")] {
        let confidence = format!("95,{width}");
        let args = [
            "-t",
            "TCP_RR",
            "-l",
            "-200",
            "-i",
            "5,4",
            "-I",
            &confidence,
            "--",
            "-k",
            SELECTION,
        ];
        let text = stdout_of(pair, Setting::PLAIN, &args)?;
        let value = |key: &str| {
            let pair = key_values(&text).into_iter().find(|(name, _)| *name == key);
            pair.map_or("", |(_, value)| value)
        };
        let throughput_width: f64 = value("THROUGHPUT_CONFID").parse().unwrap_or(f64::NAN);
        if value("CONFIDENCE_ITERATION") != expected
            || value("LOCAL_CPU_CONFID") != "0.000"
            || !(0.0..9000.0).contains(&throughput_width)
        {
            return Err(format!("requested width {width}: {text}"));
        }
    }
    Ok(())
}

/// The stock pair cannot run this test.
fn sendfile(pair: Pair) -> CaseResult {
    let args = "-t TCP_SENDFILE -l -200k -I 99,0.000001 -i 5,3 -v 0 -P 0";
    let args: Vec<_> = args.split(' ').collect();
    let finished = run_pair(pair, Setting::PLAIN, &args)?;
    if finished.code == Some(0) && finished.stdout.starts_with("!!! WARNING\n") {
        return Ok(());
    }
    Err(format!("{finished:?}"))
}
