//! The parser of the five programs' command lines, with the getopt grammar of the stock tools.
//!
//! One table (`table`) drives the parser, the usage texts and the manual pages ([`manual`]).

pub mod manual;
mod settings;
mod table;
mod value;

use std::ffi::OsString;
use std::time::Duration;

use getopt::usage::{UsageLayout, linerate_lines, stock_lines};
use getopt::{EarlyExit, ExitTexts, Section, refuse, scan, utf8_words};
use model::{Bursts, Lateness, Spacing, SpacingMethod};

pub use getopt::Exit;
pub use settings::{
    BwMonSettings, CommonSettings, DATAGRAM_FORMAT, DocumentOptions, MIN_NUMBERED_BYTES,
    MIN_STAMPED_BYTES, RecordKind, RecordRequest, RecvSettings, ReqSettings, RespSettings,
    ResponderLimits, SearchSettings, SendSettings, Sweep, TestLoad, TestSequence,
};
use table::{GivenOptions, Preset};
use value::{MAX_TESTS, numbers_from_to};

use crate::VERSION;

/// Parses the command line of `udpmon_bw_mon`. `program` is argv\[0\], `args` are the arguments
/// after it.
pub fn bw_mon(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<BwMonSettings, Exit> {
    parse(
        "udpmon_bw_mon",
        program,
        &table::BW_MON,
        args,
        |mut given| {
            check_requester(&given)?;
            apply_preset(&mut given);
            let records = given.records;
            let sweep = sweep(&given)?;
            check_plot(&given, sweep.has_several_tests() || given.search.is_some())?;
            let mut load = load(&given, &sweep)?;
            let min_bytes = sweep.sizes.iter().min();
            if records.is_some() && min_bytes.is_some_and(|bytes| *bytes < MIN_STAMPED_BYTES) {
                return refuse(format!(
                    "-G and -L need datagrams of {MIN_STAMPED_BYTES} bytes: shorter ones carry no send time"
                ));
            }
            let sequence = match search(&given)? {
                Some(search) => {
                    if given.count.is_none() && given.time.is_none() {
                        load.time = Some(Duration::from_secs(1));
                    }
                    TestSequence::Search(search)
                }
                None => TestSequence::Sweep(sweep),
            };
            Ok(BwMonSettings {
                common: common(&given),
                host: given.host,
                local_port: given.local_port,
                load,
                sequence,
                records,
                bins: given.bins,
                histograms: given.histograms,
                records_kernel_and_nic_stamps: given.records_kernel_and_nic_stamps,
                extended: given.extended,
                documents: given.documents,
            })
        },
    )
}

/// Parses the command line of `udpmon_req`.
pub fn req(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<ReqSettings, Exit> {
    parse("udpmon_req", program, &table::REQ, args, |given| {
        check_requester(&given)?;
        let first = given.first_response.unwrap_or(1472);
        Ok(ReqSettings {
            common: common(&given),
            host: given.host,
            request_bytes: given.bytes.unwrap_or(64),
            response_bytes: with_option_name(
                "-i",
                numbers_from_to(first, given.last_response, given.response_step),
            )?,
            requests: given.count.unwrap_or(10).try_into().unwrap_or(u32::MAX),
            pause: given.gap.unwrap_or_default(),
            bins: given.bins,
            histograms: given.histograms,
            documents: given.documents,
        })
    })
}

/// Parses the command line of `udpmon_send`.
pub fn send(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<SendSettings, Exit> {
    parse("udpmon_send", program, &table::SEND, args, |given| {
        check_requester(&given)?;
        let sweep = sweep(&given)?;
        check_plot(&given, sweep.has_several_tests())?;
        Ok(SendSettings {
            common: common(&given),
            load: load(&given, &sweep)?,
            host: given.host,
            local_port: given.local_port,
            sweep,
            documents: given.documents,
        })
    })
}

/// Parses the command line of `udpmon_recv`.
pub fn recv(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<RecvSettings, Exit> {
    parse("udpmon_recv", program, &table::RECV, args, |given| {
        check_documents(&given)?;
        check_plot(&given, false)?;
        Ok(RecvSettings {
            common: common(&given),
            time: given.time,
            interval: given.interval,
            printing_cpus: given.printing_cpus,
            records: given.records,
            bins: given.bins,
            histograms: given.histograms,
            records_kernel_and_nic_stamps: given.records_kernel_and_nic_stamps,
            arrival_by_kernel: !given.uses_program_clock,
            interface: given.interface,
            documents: given.documents,
        })
    })
}

/// Parses the command line of `udpmon_resp`.
pub fn resp(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<RespSettings, Exit> {
    parse("udpmon_resp", program, &table::RESP, args, |given| {
        Ok(RespSettings {
            common: common(&given),
            interface: given.interface,
            daemon: given.daemon,
            arrival_by_kernel: !given.uses_program_clock,
            limits: given.limits,
        })
    })
}

/// Parses a command line. `to_settings` converts the options to settings, or returns a
/// contradiction. Messages begin with `name`, the name of the program.
fn parse<T>(
    name: &str,
    program: &str,
    section: &Section<GivenOptions>,
    args: impl IntoIterator<Item = OsString>,
    to_settings: impl FnOnce(GivenOptions) -> Result<T, EarlyExit>,
) -> Result<T, Exit> {
    let to_exit = |early_exit: EarlyExit| {
        early_exit.into_exit(ExitTexts {
            help: Exit::stdout(usage(name, section), 0),
            version: format!("UDPmon Version {VERSION} (linerate)\n"),
            syntax_error: Exit::stderr("", 1),
        })
    };
    let words = utf8_words(name, args)?;
    let can_be_empty = std::ptr::eq(section, &raw const table::RECV)
        || std::ptr::eq(section, &raw const table::RESP);
    if words.is_empty() && !can_be_empty {
        return Err(Exit::stderr(usage(name, section), 1));
    }
    let mut given = GivenOptions::default();
    let operands = scan(name, section, &words, &mut given).map_err(to_exit)?;
    let stray_argument = operands
        .first()
        .map(|word| format!("unexpected argument '{word}'"));
    let command_line = std::iter::once(program).chain(words.iter().map(String::as_str));
    given.common.command_line = command_line.flat_map(|word| [word, " "]).collect();
    let settings = stray_argument
        .map_or(Ok(given), refuse)
        .and_then(to_settings);
    settings.map_err(|early_exit| match early_exit {
        EarlyExit::Refused(reason) => Exit::stderr(format!("{name}: {reason}\n"), 1),
        other => to_exit(other),
    })
}

/// Returns the usage text: stock's options, followed by linerate's additional options.
fn usage(name: &str, section: &Section<GivenOptions>) -> String {
    const LINERATE_LAYOUT: UsageLayout = UsageLayout {
        indent: "  ",
        width: 24,
        format_argument: |name| format!("<{name}>"),
    };
    format!(
        "Usage: {name} [options]\n{}\nlinerate's own options:\n{}",
        stock_lines(section, "  "),
        linerate_lines(section, &LINERATE_LAYOUT)
    )
}

/// Returns the settings common to all programs, including the TOS byte.
fn common(given: &GivenOptions) -> CommonSettings {
    CommonSettings {
        type_of_service: given.type_of_service,
        ..given.common.clone()
    }
}

/// Checks the options common to the programs that send.
fn check_requester(given: &GivenOptions) -> Result<(), EarlyExit> {
    if given.host.is_empty() {
        return refuse("-d is missing: the destination");
    }
    check_documents(given)
}

/// Checks the options of the documents.
fn check_documents(given: &GivenOptions) -> Result<(), EarlyExit> {
    if given.documents.json && given.documents.csv {
        return refuse("--json contradicts --csv: both write to standard output");
    }
    if given.documents.packets.is_some() && !has_records(given) {
        return refuse("--packets needs -G");
    }
    Ok(())
}

/// Refuses `--plot` without anything to plot: a curve needs several tests, and the plots of packets
/// need their records.
fn check_plot(given: &GivenOptions, has_several_tests: bool) -> Result<(), EarlyExit> {
    if given.documents.plot.is_some() && !has_several_tests && !has_records(given) {
        return refuse(
            "--plot needs a sweep, such as --gaps or -e, or records of all packets (-G)",
        );
    }
    Ok(())
}

/// Whether the options request the records of all packets.
fn has_records(given: &GivenOptions) -> bool {
    let kind = given.records.map(|records| records.kind);
    kind == Some(RecordKind::All) || given.preset == Some(Preset::Delay)
}

/// Applies the sweep of a stock script. Options of the command line override it.
fn apply_preset(given: &mut GivenOptions) {
    let micros = |gaps: &[u64]| gaps.iter().map(|us| Duration::from_micros(*us)).collect();
    let (sizes, gaps, count): (&[u32], Vec<Duration>, u64) = match given.preset {
        None => return,
        Some(Preset::Throughput) => (
            &[1400, 1472, 1200, 1000, 800, 600, 400, 200, 100, 50],
            (0..=40).map(Duration::from_micros).collect(),
            10_000,
        ),
        Some(Preset::Jitter) => {
            given.histograms = true;
            (
                &[1472, 100],
                micros(&[1, 2, 3, 5, 10, 20, 40, 80, 100]),
                100_000,
            )
        }
        Some(Preset::Delay) => (
            &[1472],
            micros(&[11, 12, 13, 14, 15, 20, 100, 200, 300]),
            10_000,
        ),
    };
    let count = *given.count.get_or_insert(count);
    given.sizes.get_or_insert_with(|| sizes.to_vec());
    given.gaps.get_or_insert(gaps);
    if given.preset == Some(Preset::Delay) {
        given.records.get_or_insert(RecordRequest {
            kind: RecordKind::All,
            skip: 0,
            count: count.try_into().unwrap_or(u32::MAX),
        });
    } else {
        given.extended = true;
    }
}

/// Returns the sizes and gaps of the tests.
fn sweep(given: &GivenOptions) -> Result<Sweep, EarlyExit> {
    let bytes = given.bytes.unwrap_or(64);
    if given.bytes.is_some() && given.sizes.is_some() {
        return refuse("-p contradicts --sizes and --sweep");
    }
    let sizes = given.sizes.clone().unwrap_or_else(|| vec![bytes]);
    let single_gap_options = [
        ("-w", given.gap.is_some()),
        ("-r", given.rate.is_some()),
        ("-e", given.last_gap.is_some()),
        ("-i", given.gap_step.is_some()),
    ];
    let gaps = if let Some(gaps) = &given.gaps {
        if let Some((name, _)) = single_gap_options.iter().find(|(_, is_given)| *is_given) {
            return refuse(format!("{name} contradicts --gaps and --sweep"));
        }
        gaps.clone()
    } else {
        let last = given.last_gap.unwrap_or_default();
        let step = given.gap_step.unwrap_or(Duration::from_nanos(800));
        with_option_name(
            "-i",
            numbers_from_to(first_gap(given, sizes[0])?, last, step),
        )?
    };
    if given.rate.is_some() && sizes.len() > 1 {
        return refuse("-r contradicts --sizes: it sets the gap of one size");
    }
    if sizes.len().saturating_mul(gaps.len()) > MAX_TESTS {
        return refuse(format!("more than {MAX_TESTS} tests"));
    }
    if given.early_stop.is_some() && gaps.len() < 2 {
        return refuse("--early-stop needs several gaps: -e or --gaps");
    }
    Ok(Sweep {
        sizes,
        gaps,
        early_stop: given.early_stop,
    })
}

/// Returns the gap of the first test, from `-w` or `-r`.
fn first_gap(given: &GivenOptions, bytes: u32) -> Result<Duration, EarlyExit> {
    match (given.gap, given.rate) {
        (Some(_), Some(_)) => refuse("-w contradicts -r: both set the gap"),
        (gap, None) => Ok(gap.unwrap_or_default()),
        (None, Some(rate)) => Ok(gap_for_rate(bytes, rate)),
    }
}

/// Returns the gap for a payload rate in bits per second, rounded to 1 ns.
pub fn gap_for_rate(bytes: u32, bits_per_second: f64) -> Duration {
    Duration::from_nanos((f64::from(bytes) * 8e9 / bits_per_second).round() as u64)
}

/// Returns the datagrams of the first test.
fn load(given: &GivenOptions, sweep: &Sweep) -> Result<TestLoad, EarlyExit> {
    let count = given.bursts.unwrap_or(1);
    if given.pause.is_none() && count > 1 {
        return refuse("-n sets the number of bursts and needs -g");
    }
    if given.pause.is_some() && given.time.is_some() {
        return refuse("-g contradicts -t: the number of bursts ends the test");
    }
    if given.method != SpacingMethod::Spin && given.pause.is_some() {
        return refuse("-g needs --pacing spin");
    }
    if given.method != SpacingMethod::Spin
        && sweep.gaps.iter().any(Duration::is_zero)
        && given.search.is_none()
    {
        return refuse("--pacing txtime and kernel need a gap: -w, -r or --gaps");
    }
    if given.method != SpacingMethod::Spin && given.lateness != Lateness::CatchUp {
        return refuse(
            "--lateness needs --pacing spin: otherwise the kernel handles late datagrams",
        );
    }
    let datagrams = given.count.unwrap_or(2);
    let bursts = given.pause.map(|pause| Bursts {
        datagrams,
        count,
        pause,
    });
    Ok(TestLoad {
        bytes: sweep.sizes[0],
        datagrams,
        time: given.time,
        spacing: Spacing {
            gap: sweep.gaps[0],
            bursts,
            lateness: given.lateness,
            method: given.method,
        },
    })
}

/// Returns the settings of `--search`; `None` without it.
fn search(given: &GivenOptions) -> Result<Option<SearchSettings>, EarlyExit> {
    let Some(search) = given.search else {
        let search_options = [
            ("--precision", given.precision.is_some()),
            ("--tolerate", given.tolerated_loss.is_some()),
        ];
        return match search_options.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => refuse(format!("{name} needs --search")),
            None => Ok(None),
        };
    };
    for (name, is_given) in [
        ("-w", given.gap.is_some()),
        ("-r", given.rate.is_some()),
        ("-e", given.last_gap.is_some()),
        ("-i", given.gap_step.is_some()),
        ("-g", given.pause.is_some()),
        ("--gaps", given.gaps.is_some()),
        ("--sizes", given.sizes.is_some()),
        ("--pacing kernel", given.method == SpacingMethod::PacingRate),
    ] {
        if is_given {
            return refuse(format!("{name} contradicts --search, which picks the gaps"));
        }
    }
    Ok(Some(SearchSettings {
        precision: given.precision.unwrap_or(search.precision),
        tolerated_loss: given.tolerated_loss.unwrap_or(search.tolerated_loss),
        ..search
    }))
}

/// Adds the name of the option to a refusal.
fn with_option_name<T>(option: &str, result: Result<T, EarlyExit>) -> Result<T, EarlyExit> {
    result.map_err(|early_exit| match early_exit {
        EarlyExit::Refused(reason) => EarlyExit::Refused(format!("{option}: {reason}")),
        other => other,
    })
}
