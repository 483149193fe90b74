//! argv of the five programs → their settings, in the stock tools' getopt grammar.
//!
//! One table ([`table`]) drives the parser, the usage texts and the manual ([`manual`]).

pub mod manual;
mod settings;
mod table;
mod value;

use std::ffi::OsString;
use std::time::Duration;

use getopt::usage::{Layout, own, stock};
use getopt::{Endings, Quit, Section, refuse, scan, utf8};
use model::{Bursts, Lateness, Spacing, SpacingMethod};

pub use getopt::Exit;
pub use settings::{
    BwMon, Common, Documents, FORMAT, Limits, Load, RecordKind, RecordsWanted, Recv, Req, Resp,
    SHORTEST_NUMBERED, SHORTEST_STAMPED, Search, Send, Steps, Sweep,
};
use table::{Preset, Typed};
use value::{MOST_STEPS, steps};

use crate::VERSION;

/// Parses the command line of `udpmon_bw_mon`. `program` is argv\[0\], `args` are the arguments after it.
pub fn bw_mon(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<BwMon, Exit> {
    parse("udpmon_bw_mon", program, &table::BW_MON, args, |mut t| {
        requester(&t)?;
        preset(&mut t);
        let records = t.records;
        let sweep = sweep(&t)?;
        let mut load = load(&t, &sweep)?;
        let shortest = sweep.sizes.iter().min();
        if records.is_some() && shortest.is_some_and(|bytes| *bytes < SHORTEST_STAMPED) {
            return refuse(format!(
                "-G and -L need datagrams of {SHORTEST_STAMPED} bytes: shorter ones have no time of sending"
            ));
        }
        let steps = match search(&t)? {
            Some(search) => {
                if t.count.is_none() && t.time.is_none() {
                    load.time = Some(Duration::from_secs(1));
                }
                Steps::Search(search)
            }
            None => Steps::Sweep(sweep),
        };
        Ok(BwMon {
            common: common(&t),
            host: t.host,
            local_port: t.local_port,
            load,
            steps,
            records,
            bins: t.bins,
            histograms: t.histograms,
            kernel_stamps: t.kernel_stamps,
            extended: t.extended,
            documents: t.documents,
        })
    })
}

/// Parses the command line of `udpmon_req`.
pub fn req(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Req, Exit> {
    parse("udpmon_req", program, &table::REQ, args, |t| {
        requester(&t)?;
        let first = t.first_response.unwrap_or(1472);
        Ok(Req {
            common: common(&t),
            host: t.host,
            request_bytes: t.bytes.unwrap_or(64),
            response_bytes: named("-i", steps(first, t.last_response, t.response_step))?,
            requests: t.count.unwrap_or(10).try_into().unwrap_or(u32::MAX),
            pause: t.gap.unwrap_or_default(),
            bins: t.bins,
            histograms: t.histograms,
            documents: t.documents,
        })
    })
}

/// Parses the command line of `udpmon_send`.
pub fn send(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Send, Exit> {
    parse("udpmon_send", program, &table::SEND, args, |t| {
        requester(&t)?;
        let sweep = sweep(&t)?;
        Ok(Send {
            common: common(&t),
            load: load(&t, &sweep)?,
            host: t.host,
            local_port: t.local_port,
            sweep,
            documents: t.documents,
        })
    })
}

/// Parses the command line of `udpmon_recv`.
pub fn recv(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Recv, Exit> {
    parse("udpmon_recv", program, &table::RECV, args, |t| {
        documents(&t)?;
        Ok(Recv {
            common: common(&t),
            time: t.time,
            interval: t.interval,
            printing_cpus: t.printing_cpus,
            records: t.records,
            bins: t.bins,
            histograms: t.histograms,
            kernel_stamps: t.kernel_stamps,
            arrival_by_kernel: !t.by_program,
            interface: t.interface,
            documents: t.documents,
        })
    })
}

/// Parses the command line of `udpmon_resp`.
pub fn resp(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Resp, Exit> {
    parse("udpmon_resp", program, &table::RESP, args, |t| {
        Ok(Resp {
            common: common(&t),
            interface: t.interface,
            daemon: t.daemon,
            arrival_by_kernel: !t.by_program,
            limits: t.limits,
        })
    })
}

/// Parses a command line. `settle` converts the options to settings, or reports a contradiction. Messages begin with
/// `name`, the name of the program.
fn parse<T>(
    name: &str,
    program: &str,
    section: &Section<Typed>,
    args: impl IntoIterator<Item = OsString>,
    settle: impl FnOnce(Typed) -> Result<T, Quit>,
) -> Result<T, Exit> {
    let ended = |quit: Quit| {
        quit.exit(Endings {
            help: Exit::stdout(usage(name, section), 0),
            version: format!("UDPmon Version {VERSION} (linerate)\n"),
            complaint: Exit::stderr("", 1),
        })
    };
    let words = utf8(name, args)?;
    let may_be_bare = std::ptr::eq(section, &raw const table::RECV)
        || std::ptr::eq(section, &raw const table::RESP);
    if words.is_empty() && !may_be_bare {
        return Err(Exit::stderr(usage(name, section), 1));
    }
    let mut typed = Typed::default();
    let rest = scan(name, section, &words, &mut typed).map_err(ended)?;
    let stray = rest
        .first()
        .map(|word| format!("'{word}' belongs to no option"));
    let typed_words = std::iter::once(program).chain(words.iter().map(String::as_str));
    typed.common.command_line = typed_words.flat_map(|word| [word, " "]).collect();
    let settled = stray.map_or(Ok(typed), refuse).and_then(settle);
    settled.map_err(|quit| match quit {
        Quit::Refused(why) => Exit::stderr(format!("{name}: {why}\n"), 1),
        other => ended(other),
    })
}

/// Returns the usage text: stock's options, followed by linerate's own.
fn usage(name: &str, section: &Section<Typed>) -> String {
    const OWN: Layout = Layout {
        indent: "  ",
        width: 24,
        argument: |name| format!("<{name}>"),
    };
    format!(
        "Usage: {name} [options]\n{}\nlinerate's own options:\n{}",
        stock(section, "  "),
        own(section, &OWN)
    )
}

fn common(typed: &Typed) -> Common {
    Common {
        type_of_service: typed.type_of_service,
        ..typed.common.clone()
    }
}

/// Checks the options that all sending programs share.
fn requester(typed: &Typed) -> Result<(), Quit> {
    if typed.host.is_empty() {
        return refuse("-d is missing: the destination");
    }
    documents(typed)
}

fn documents(typed: &Typed) -> Result<(), Quit> {
    if typed.documents.json && typed.documents.csv {
        return refuse("--json contradicts --csv: each takes all of standard output");
    }
    let records = typed
        .records
        .is_some_and(|records| records.kind == RecordKind::All);
    if typed.documents.packets.is_some() && !records && typed.preset != Some(Preset::Delay) {
        return refuse("--packets needs -G");
    }
    Ok(())
}

/// Applies a script's sweep, except for options given on the command line.
fn preset(typed: &mut Typed) {
    let micros = |gaps: &[u64]| gaps.iter().map(|us| Duration::from_micros(*us)).collect();
    let (sizes, gaps, count): (&[u32], Vec<Duration>, u64) = match typed.preset {
        None => return,
        Some(Preset::Throughput) => (
            &[1400, 1472, 1200, 1000, 800, 600, 400, 200, 100, 50],
            (0..=40).map(Duration::from_micros).collect(),
            10_000,
        ),
        Some(Preset::Jitter) => {
            typed.histograms = true;
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
    let count = *typed.count.get_or_insert(count);
    typed.sizes.get_or_insert_with(|| sizes.to_vec());
    typed.gaps.get_or_insert(gaps);
    if typed.preset == Some(Preset::Delay) {
        typed.records.get_or_insert(RecordsWanted {
            kind: RecordKind::All,
            skip: 0,
            count: count.try_into().unwrap_or(u32::MAX),
        });
    } else {
        typed.extended = true;
    }
}

fn sweep(typed: &Typed) -> Result<Sweep, Quit> {
    let bytes = typed.bytes.unwrap_or(64);
    if typed.bytes.is_some() && typed.sizes.is_some() {
        return refuse("-p contradicts --sizes and --sweep");
    }
    let sizes = typed.sizes.clone().unwrap_or_else(|| vec![bytes]);
    let single = [
        ("-w", typed.gap.is_some()),
        ("-r", typed.rate.is_some()),
        ("-e", typed.last_gap.is_some()),
        ("-i", typed.gap_step.is_some()),
    ];
    let gaps = if let Some(gaps) = &typed.gaps {
        if let Some((name, _)) = single.iter().find(|(_, is_typed)| *is_typed) {
            return refuse(format!("{name} contradicts --gaps and --sweep"));
        }
        gaps.clone()
    } else {
        let last = typed.last_gap.unwrap_or_default();
        let step = typed.gap_step.unwrap_or(Duration::from_nanos(800));
        named("-i", steps(first_gap(typed, sizes[0])?, last, step))?
    };
    if typed.rate.is_some() && sizes.len() > 1 {
        return refuse("-r sets the gap of one size, and contradicts --sizes");
    }
    if sizes.len().saturating_mul(gaps.len()) > MOST_STEPS {
        return refuse(format!("more than {MOST_STEPS} tests"));
    }
    if typed.early_stop.is_some() && gaps.len() < 2 {
        return refuse("--early-stop needs several gaps: -e or --gaps");
    }
    Ok(Sweep {
        sizes,
        gaps,
        early_stop: typed.early_stop,
    })
}

fn first_gap(typed: &Typed, bytes: u32) -> Result<Duration, Quit> {
    match (typed.gap, typed.rate) {
        (Some(_), Some(_)) => refuse("-w contradicts -r: both set the gap"),
        (gap, None) => Ok(gap.unwrap_or_default()),
        (None, Some(rate)) => Ok(gap_of(bytes, rate)),
    }
}

/// Returns the gap for this rate of payload in bits per second, to a nanosecond.
pub fn gap_of(bytes: u32, bits_per_second: f64) -> Duration {
    Duration::from_nanos((f64::from(bytes) * 8e9 / bits_per_second).round() as u64)
}

fn load(typed: &Typed, sweep: &Sweep) -> Result<Load, Quit> {
    let count = typed.bursts.unwrap_or(1);
    if typed.pause.is_none() && count > 1 {
        return refuse("-n is a number of bursts, and needs -g");
    }
    if typed.pause.is_some() && typed.time.is_some() {
        return refuse("-g sends a number of bursts, and contradicts -t");
    }
    if typed.method != SpacingMethod::Spin && typed.pause.is_some() {
        return refuse("-g needs --pacing spin");
    }
    if typed.method != SpacingMethod::Spin
        && sweep.gaps.iter().any(Duration::is_zero)
        && typed.search.is_none()
    {
        return refuse("--pacing txtime and kernel need a gap: -w, -r or --gaps");
    }
    if typed.method != SpacingMethod::Spin && typed.lateness != Lateness::CatchUp {
        return refuse("--lateness needs --pacing spin: the kernel's queue decides otherwise");
    }
    let datagrams = typed.count.unwrap_or(2);
    let bursts = typed.pause.map(|pause| Bursts {
        datagrams,
        count,
        pause,
    });
    Ok(Load {
        bytes: sweep.sizes[0],
        datagrams,
        time: typed.time,
        spacing: Spacing {
            gap: sweep.gaps[0],
            bursts,
            lateness: typed.lateness,
            method: typed.method,
        },
    })
}

fn search(typed: &Typed) -> Result<Option<Search>, Quit> {
    let Some(search) = typed.search else {
        let alone = [
            ("--precision", typed.precision.is_some()),
            ("--tolerate", typed.tolerated.is_some()),
        ];
        return match alone.iter().find(|(_, is_typed)| *is_typed) {
            Some((name, _)) => refuse(format!("{name} needs --search")),
            None => Ok(None),
        };
    };
    for (name, is_typed) in [
        ("-w", typed.gap.is_some()),
        ("-r", typed.rate.is_some()),
        ("-e", typed.last_gap.is_some()),
        ("-i", typed.gap_step.is_some()),
        ("-g", typed.pause.is_some()),
        ("--gaps", typed.gaps.is_some()),
        ("--sizes", typed.sizes.is_some()),
        ("--pacing kernel", typed.method == SpacingMethod::PacingRate),
    ] {
        if is_typed {
            return refuse(format!("{name} contradicts --search, which picks the gaps"));
        }
    }
    Ok(Some(Search {
        precision: typed.precision.unwrap_or(search.precision),
        tolerated: typed.tolerated.unwrap_or(search.tolerated),
        ..search
    }))
}

/// Prefixes a refusal with the name of its option.
fn named<T>(option: &str, result: Result<T, Quit>) -> Result<T, Quit> {
    result.map_err(|quit| match quit {
        Quit::Refused(why) => Quit::Refused(format!("{option}: {why}")),
        other => other,
    })
}
