//! The runs of the five programs. Each test is printed when it ends.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ::server::Service;
use engine::Stop;
use model::{Counts, Ended, Outcome, Side, SpacingMethod};
use units::Bytes;

use crate::calibration::calibrate;
use crate::client::{Requester, Sender};
use crate::options::{
    BwMon, Common, Documents, Load, Recv, Req, Resp, Search, Send, Steps, gap_of,
};
use crate::output::{self, Calibration, Program, csv, remarks};
use crate::receiver::{self, Event};
use crate::result::{Opened, RecordRows, Records, Snapshot, Throughput};
use crate::steps::{Evidence, Found, Searcher, Walk};
use crate::{endpoint, server};

/// The maximum number of packet records for the documents of all tests together; about 150 MB.
const MOST_KEPT: usize = 1 << 21;

/// The result of a run.
#[derive(Debug, Default)]
pub struct Finished {
    /// Each test's figures.
    pub outcomes: Vec<Outcome>,
    /// The peer's address, if the name was resolved.
    pub peer: Option<IpAddr>,
    /// The error that ended the run, in one line.
    pub error: Option<String>,
    /// The number of packet records that the documents omit because there are too many.
    pub left_out: usize,
    /// The last line of a search.
    pub found: Option<String>,
}

/// Runs `udpmon_bw_mon`.
pub fn bw_mon(settings: &BwMon, stop: &Stop, out: &mut dyn Write) -> Finished {
    let mut run = Run::new(&settings.common, &settings.documents, out);
    let requester = Requester::open(&settings.common, &settings.host, settings.local_port);
    let Some(mut requester) = run.opened(Program::BwMon, requester, Requester::opened) else {
        return run.finished;
    };
    let mut measure = |run: &mut Run, load: &Load| {
        run.size(load.bytes);
        let test = requester.throughput(settings, load, stop);
        let test = run.tested(test.map_err(|error| control::why(&error)))?;
        run.throughput(settings, &test);
        let evidence = Evidence::of(&test);
        run.keep(test.outcome);
        (run.finished.error.is_none() && !stop.is_set()).then_some(evidence)
    };
    match &settings.steps {
        Steps::Sweep(sweep) => {
            let mut walk = Walk::new(sweep);
            while let Some((bytes, gap)) = walk.advance() {
                let Some(evidence) = measure(&mut run, &settings.load.with(bytes, gap)) else {
                    break;
                };
                let left_out = walk.saw(&evidence);
                if left_out > 0 {
                    run.remark(&remarks::left_out(bytes, left_out));
                }
            }
        }
        Steps::Search(search) => {
            let found = find(&mut run, *search, &settings.load, measure);
            if let Some(found) = found {
                let line = remarks::found(&found, settings.load.bytes, settings.common.v6);
                run.finished.found = Some(line);
            }
        }
    }
    run.ended(stop)
}

/// Searches for the highest rate that the path carries; `None` if a test failed or the run was stopped.
fn find(
    run: &mut Run,
    search: Search,
    load: &Load,
    mut measure: impl FnMut(&mut Run, &Load) -> Option<Evidence>,
) -> Option<Found> {
    let mut searcher = Searcher::new(search, load.bytes);
    for number in 1.. {
        let rate = match searcher.advance() {
            Ok(rate) => rate,
            Err(found) => return Some(*found),
        };
        let mut load = match rate {
            Some(rate) => load.with(load.bytes, gap_of(load.bytes, rate)),
            None => load.with(load.bytes, Duration::ZERO),
        };
        if rate.is_none() {
            load.spacing.method = SpacingMethod::Spin;
        }
        let evidence = measure(run, &load)?;
        let is_carried = searcher.saw(rate, &evidence);
        run.remark(&remarks::step(number, rate, &evidence, is_carried));
    }
    None
}

/// Runs `udpmon_req`.
pub fn req(settings: &Req, stop: &Stop, out: &mut dyn Write) -> Finished {
    let mut run = Run::new(&settings.common, &settings.documents, out);
    let requester = Requester::open(&settings.common, &settings.host, None);
    let Some(mut requester) = run.opened(Program::Req, requester, Requester::opened) else {
        return run.finished;
    };
    for bytes in &settings.response_bytes {
        let test = requester.latency(settings, *bytes, stop);
        let Some(test) = run.tested(test.map_err(|error| control::why(&error))) else {
            break;
        };
        run.titled(output::req_titles, || csv::latency(&test));
        run.print(|_| output::req_line(&test));
        if settings.histograms {
            run.print(|_| output::latency_histogram(&test.times));
        }
        run.keep(test.outcome);
        if stop.is_set() {
            break;
        }
    }
    run.ended(stop)
}

/// Runs `udpmon_send`.
pub fn send(settings: &Send, stop: &Stop, out: &mut dyn Write) -> Finished {
    let mut run = Run::new(&settings.common, &settings.documents, out);
    let sender = Sender::open(settings);
    let Some(sender) = run.opened(Program::Send, sender, Sender::opened) else {
        return run.finished;
    };
    let mut walk = Walk::new(&settings.sweep);
    while let Some((bytes, gap)) = walk.advance() {
        run.size(bytes);
        let load = settings.load.with(bytes, gap);
        let test = sender.send(settings, &load, stop);
        let Some(test) = run.tested(test.map_err(|error| control::why(&error))) else {
            break;
        };
        let (cpus, is_v6) = (test.here.cpus.len(), test.here.counters.is_v6);
        run.titled(|| output::send_titles(cpus, is_v6), || csv::sending(&test));
        run.print(|_| output::send_line(&test));
        run.remark(&remarks::spacing(gap, test.outcome.here.spaced.as_ref()));
        run.keep(test.outcome);
        if stop.is_set() || run.finished.error.is_some() {
            break;
        }
    }
    run.ended(stop)
}

/// Runs `udpmon_recv`.
pub fn recv(settings: &Recv, stop: &Stop, out: &mut dyn Write) -> Finished {
    let mut run = Run::new(&settings.common, &settings.documents, out);
    let (mut number, mut first) = (0, None);
    let done = receiver::run(settings, stop, &mut |event| match event {
        Event::Opened(opened) => {
            run.begin(Program::Recv, opened, settings.printing_cpus.unwrap_or(0));
        }
        Event::Snapshot(look) => {
            let since = look.at.duration_since(*first.get_or_insert(look.at));
            run.look(
                settings,
                &look,
                number,
                since.unwrap_or_default(),
                stop.is_set(),
            );
            number += 1;
            if !look.histograms.is_empty() {
                run.keep(outcome_of(settings, &look));
            }
        }
    });
    run.tested(done.map_err(|error| control::why(&error)));
    match settings.time {
        Some(_) => run.ended(stop),
        // Only the stop ends this run.
        None => run.finished,
    }
}

/// Returns the figures of a receiver, which has no data of the sender.
fn outcome_of(settings: &Recv, look: &Snapshot) -> Outcome {
    let total = &look.total;
    let side = Side {
        counts: Counts {
            received: Bytes(total.bytes),
            receive_calls: total.received.received,
            ..Counts::default()
        },
        elapsed: Some(total.received.elapsed),
        datagrams: Some(total.counts),
        ..Side::default()
    };
    let started = look
        .at
        .checked_sub(total.received.elapsed)
        .unwrap_or(look.at);
    let mut outcome = Outcome::of_flow(settings.plan(), started, side, None, Ended::Deadline);
    if let Some(Records {
        skip,
        rows: RecordRows::All(rows),
        ..
    }) = &look.records
    {
        let bytes = (total.bytes / total.received.received.max(1)) as u32;
        let tenths = |tenths: i64| {
            let tenths = u64::try_from(tenths).ok()?;
            Some(Duration::from_nanos(tenths.checked_mul(100)?))
        };
        let rows = rows.iter().zip(u64::from(*skip)..);
        outcome.packets = rows
            .filter(|(row, _)| row.came != 0)
            .map(|(row, number)| model::PacketRecord {
                number,
                bytes,
                sent: tenths(row.sent),
                received: tenths(row.came),
                one_way_delay_ns: None,
            })
            .collect();
    }
    outcome
}

/// Runs `udpmon_resp` until the stop. It calls `begin` after it opens its sockets and before it starts a thread.
/// `begin` returns whether this process serves.
pub fn resp(
    settings: &Resp,
    stop: &Stop,
    begin: impl FnOnce() -> Result<bool, String>,
) -> Result<(), String> {
    let why = |error: io::Error| sys::describe(&error);
    let unbound = Common {
        cpus: None,
        ..settings.common.clone()
    };
    let (listeners, mut opened) = server::listen(&unbound).map_err(why)?;
    opened.cpus.1 = settings.common.cpus.unwrap_or(opened.cpus.1);
    let documents = Documents::default();
    Run::new(&settings.common, &documents, &mut io::stdout()).begin(Program::Resp, opened, 0);
    if !begin()? {
        return Ok(());
    }
    // A daemon loses threads that were started before it forks.
    endpoint::bind_to_cpus(settings.common.cpus).map_err(why)?;
    let service = Service::new(settings.limits.server.clone(), stop.clone());
    server::serve(listeners, settings, &service, &|line| {
        sys::write_error_line(format_args!("udpmon_resp: {line}"));
    });
    Ok(())
}

/// The form of the printed output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Text,
    /// `-q`.
    Lines,
    Csv,
    /// `--json`: prints nothing here.
    Nothing,
}

/// A run under way.
struct Run<'a> {
    common: &'a Common,
    style: Style,
    keeps_records: bool,
    packets: Option<PathBuf>,
    out: &'a mut dyn Write,
    opened: Opened,
    /// The size in the last printed size line.
    size: Option<u32>,
    has_titles: bool,
    finished: Finished,
}

impl<'a> Run<'a> {
    fn new(common: &'a Common, documents: &Documents, out: &'a mut dyn Write) -> Self {
        let style = match (documents.json, documents.csv, common.quiet) {
            (true, ..) => Style::Nothing,
            (_, true, _) => Style::Csv,
            (_, _, true) => Style::Lines,
            _ => Style::Text,
        };
        Self {
            common,
            style,
            packets: documents.packets.clone(),
            keeps_records: documents.json || documents.html.is_some() || documents.plot.is_some(),
            out,
            opened: Opened::default(),
            size: None,
            has_titles: false,
            finished: Finished::default(),
        }
    }

    /// Prints the lines before the first test; `None` if the socket failed to open.
    fn opened<T>(
        &mut self,
        program: Program,
        opened: io::Result<T>,
        of: impl Fn(&T) -> &Opened,
    ) -> Option<T> {
        let end = self.tested(opened.map_err(|error| sys::describe(&error)))?;
        self.begin(program, of(&end).clone(), 0);
        self.finished.error.is_none().then_some(end)
    }

    fn begin(&mut self, program: Program, opened: Opened, printing_cpus: u64) {
        self.write_packets(None);
        self.finished.peer = opened.peer_address.parse().ok();
        self.opened = opened;
        if self.style == Style::Text {
            let calibration = match program {
                Program::Recv | Program::Resp => Calibration::default(),
                _ => calibrate(),
            };
            let now = SystemTime::now();
            let text = output::preamble(
                program,
                self.common,
                now,
                &self.opened,
                &calibration,
                printing_cpus,
            );
            self.write(&text);
        }
    }

    /// Returns a result, or records the error that ends the run.
    fn tested<T>(&mut self, test: Result<T, String>) -> Option<T> {
        test.map_err(|why| self.finished.error = Some(why)).ok()
    }

    /// Ends a run. A stop makes it incomplete, which is an error.
    fn ended(mut self, stop: &Stop) -> Finished {
        if stop.is_set() {
            let interrupted = || "interrupted".to_owned();
            self.finished.error.get_or_insert_with(interrupted);
        }
        self.finished
    }

    /// Announces tests with datagrams of another size.
    fn size(&mut self, bytes: u32) {
        if self.style == Style::Text && self.size.replace(bytes) != Some(bytes) {
            self.write(&format!(" {bytes} bytes\n"));
        }
    }

    fn throughput(&mut self, settings: &BwMon, test: &Throughput) {
        let extended = settings.extended.then_some((&test.here, &test.there));
        self.titled(|| output::bw_mon_titles(extended), || csv::throughput(test));
        self.print(|run| {
            let line = output::bw_mon_line(test, settings.extended);
            match run.style {
                Style::Lines => output::quiet_prefix(test.outcome.started, &run.opened) + &line,
                _ => line,
            }
        });
        if settings.histograms {
            self.print(|_| test.histograms.iter().map(output::histogram).collect());
        }
        if let Some(records) = &test.records {
            self.print(|_| output::arrival_records(records));
        }
        if self.style == Style::Text {
            let figures = test.outcome.packet_figures();
            self.write(&remarks::of_test(test, figures.as_ref()));
        }
    }

    /// Prints the counts since the previous snapshot; with `is_interrupted`, also those of the whole time.
    fn look(
        &mut self,
        settings: &Recv,
        look: &Snapshot,
        number: u64,
        since_first: Duration,
        is_interrupted: bool,
    ) {
        let host = &look.delta.host;
        let (cpus, is_v6) = (host.cpus.len(), host.counters.is_v6);
        self.titled(|| output::recv_titles(cpus, is_v6), || csv::snapshot(look));
        if is_interrupted {
            self.print(|_| output::recv_table(look));
        }
        self.print(|_| output::recv_line(number, since_first, look));
        if look.histograms.is_empty() {
            return;
        }
        if settings.histograms {
            let count = if settings.kernel_stamps { 5 } else { 3 };
            let histograms = look.histograms.iter().take(count);
            self.print(|_| histograms.map(output::histogram).collect());
        }
        if let Some(records) = &look.records {
            self.print(|_| output::recv_records(records));
        }
        self.remark(&remarks::received(&look.total.counts));
    }

    /// Prints titles before the first result; in CSV, also the result.
    fn titled<T: AsRef<str>>(&mut self, titles: impl Fn() -> T, row: impl Fn() -> csv::Row) {
        let is_first = !std::mem::replace(&mut self.has_titles, true);
        match self.style {
            Style::Text if is_first => self.write(titles().as_ref()),
            Style::Csv => {
                let row = row();
                let titles = if is_first {
                    csv::titles(&row)
                } else {
                    String::new()
                };
                self.write(&(titles + &csv::values(&row)));
            }
            _ => {}
        }
    }

    /// Prints a part of the text.
    fn print(&mut self, text: impl FnOnce(&Self) -> String) {
        if matches!(self.style, Style::Text | Style::Lines) {
            let text = text(self);
            self.write(&text);
        }
    }

    /// Prints a line that stock does not have.
    fn remark(&mut self, line: &str) {
        if self.style == Style::Text {
            self.write(line);
        }
    }

    /// Ignores a closed pipe.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }

    /// Writes the records of a test to the file of `--packets`; without a test, writes the names of the values.
    fn write_packets(&mut self, outcome: Option<&Outcome>) {
        let Some(path) = &self.packets else { return };
        let mut options = OpenOptions::new();
        let (options, text) = match outcome {
            None => (
                options.write(true).create(true).truncate(true),
                csv::PACKETS.to_owned(),
            ),
            Some(outcome) => (
                options.append(true),
                csv::packets(self.finished.outcomes.len(), outcome),
            ),
        };
        let written = options
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            let why = sys::describe(&error);
            self.finished.error = Some(format!("cannot write {}: {why}", path.display()));
        }
    }

    /// Stores a test's figures. Drops its packet records if no document shows them or if there are too many.
    fn keep(&mut self, mut outcome: Outcome) {
        if let Ended::Failed(why) = &outcome.ended {
            self.finished.error = Some(why.clone());
        }
        self.write_packets(Some(&outcome));
        let kept: usize = self
            .finished
            .outcomes
            .iter()
            .map(|outcome| outcome.packets.len())
            .sum();
        if self.keeps_records && kept + outcome.packets.len() > MOST_KEPT {
            self.finished.left_out += outcome.packets.len();
            outcome.packets = Vec::new();
        } else if !self.keeps_records {
            outcome.packets = Vec::new();
        }
        self.finished.outcomes.push(outcome);
    }
}
