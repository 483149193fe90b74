//! The runs of the five programs. A run prints each test when the test ends.

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ::server::{ErrorLog, Service};
use engine::Stop;
use model::{Counts, EndCause, Outcome, Side, SpacingMethod};
use units::Bytes;

use crate::calibration::calibrate;
use crate::client::{LoadSender, Requester};
use crate::options::{
    BwMonSettings, CommonSettings, DocumentOptions, RecvSettings, ReqSettings, RespSettings,
    SearchSettings, SendSettings, TestLoad, TestSequence, gap_for_rate,
};
use crate::output::{self, ClockCost, Program, csv, remarks};
use crate::receiver::{self, ReceiverEvent};
use crate::result::{EndpointInfo, RecordRows, Records, Snapshot, ThroughputResult};
use crate::sequence::{PathEvidence, SearchResult, Searcher, SweepPosition};
use crate::{endpoint, server};

/// The name of this host in warnings.
const LOCAL_HOST: &str = "this host";

/// The maximum number of packet records in the documents, for all tests together; about 150 MB.
const MAX_KEPT_RECORDS: usize = 1 << 21;

/// The result of a run.
#[derive(Debug, Default)]
pub struct RunResult {
    /// Each test's figures.
    pub outcomes: Vec<Outcome>,
    /// The peer's address; `None` if the name was not resolved.
    pub peer: Option<IpAddr>,
    /// The error that ended the run, in one line.
    pub error: Option<String>,
    /// The number of packet records that exceed the limit. The documents omit them.
    pub omitted_records: usize,
    /// The line with the result of a search.
    pub search_line: Option<String>,
}

/// Runs `udpmon_bw_mon`.
pub fn bw_mon(settings: &BwMonSettings, stop: &Stop, out: &mut dyn Write) -> RunResult {
    let mut run = Run::new(&settings.common, &settings.documents, out);
    let requester = Requester::open(&settings.common, &settings.host, settings.local_port);
    let Some(mut requester) = run.begin_if_open(Program::BwMon, requester, Requester::endpoint)
    else {
        return run.result;
    };
    let mut run_test = |run: &mut Run, load: &TestLoad| {
        run.print_size(load.bytes);
        let test = requester.run_throughput_test(settings, load, stop);
        let test = run.record_error(test.map_err(|error| control::describe_error(&error)))?;
        run.print_throughput(settings, &test);
        let evidence = PathEvidence::from_test(&test);
        run.keep_outcome(test.outcome);
        (run.result.error.is_none() && !stop.is_set()).then_some(evidence)
    };
    match &settings.sequence {
        TestSequence::Sweep(sweep) => {
            let mut position = SweepPosition::new(sweep);
            while let Some((bytes, gap)) = position.advance() {
                let Some(evidence) =
                    run_test(&mut run, &settings.load.with_size_and_gap(bytes, gap))
                else {
                    break;
                };
                let skipped = position.record_evidence(&evidence);
                if skipped > 0 {
                    run.print_remark(&remarks::skipped_tests_line(bytes, skipped));
                }
            }
        }
        TestSequence::Search(search) => {
            let result = run_search(&mut run, *search, &settings.load, run_test);
            if let Some(result) = result {
                let line = remarks::search_result_line(
                    &result,
                    settings.load.bytes,
                    settings.common.is_v6,
                );
                run.result.search_line = Some(line);
            }
        }
    }
    run.finish(stop)
}

/// Searches for the highest rate that the path carries; `None` if a test failed or the run was
/// stopped.
fn run_search(
    run: &mut Run,
    search: SearchSettings,
    load: &TestLoad,
    mut run_test: impl FnMut(&mut Run, &TestLoad) -> Option<PathEvidence>,
) -> Option<SearchResult> {
    let mut searcher = Searcher::new(search, load.bytes);
    for step_number in 1.. {
        let rate = match searcher.advance() {
            Ok(rate) => rate,
            Err(result) => return Some(*result),
        };
        let mut load = match rate {
            Some(rate) => load.with_size_and_gap(load.bytes, gap_for_rate(load.bytes, rate)),
            None => load.with_size_and_gap(load.bytes, Duration::ZERO),
        };
        if rate.is_none() {
            load.spacing.method = SpacingMethod::Spin;
        }
        let evidence = run_test(run, &load)?;
        let is_carried = searcher.record_evidence(rate, &evidence);
        run.print_remark(&remarks::search_step_line(
            step_number,
            rate,
            &evidence,
            is_carried,
        ));
    }
    None
}

/// Runs `udpmon_req`.
pub fn req(settings: &ReqSettings, stop: &Stop, out: &mut dyn Write) -> RunResult {
    let mut run = Run::new(&settings.common, &settings.documents, out);
    let requester = Requester::open(&settings.common, &settings.host, None);
    let Some(mut requester) = run.begin_if_open(Program::Req, requester, Requester::endpoint)
    else {
        return run.result;
    };
    for bytes in &settings.response_bytes {
        let test = requester.run_latency_test(settings, *bytes, stop);
        let Some(test) = run.record_error(test.map_err(|error| control::describe_error(&error)))
        else {
            break;
        };
        run.print_titles(output::req_titles, || csv::latency_row(&test));
        run.print(|_| output::req_line(&test));
        if settings.histograms {
            run.print(|_| output::format_latency_histogram(&test.times));
        }
        run.keep_outcome(test.outcome);
        if stop.is_set() {
            break;
        }
    }
    run.finish(stop)
}

/// Runs `udpmon_send`.
pub fn send(settings: &SendSettings, stop: &Stop, out: &mut dyn Write) -> RunResult {
    let mut run = Run::new(&settings.common, &settings.documents, out);
    let sender = LoadSender::open(settings);
    let Some(sender) = run.begin_if_open(Program::Send, sender, LoadSender::endpoint) else {
        return run.result;
    };
    let mut position = SweepPosition::new(&settings.sweep);
    while let Some((bytes, gap)) = position.advance() {
        run.print_size(bytes);
        let load = settings.load.with_size_and_gap(bytes, gap);
        let test = sender.send(settings, &load, stop);
        let Some(test) = run.record_error(test.map_err(|error| control::describe_error(&error)))
        else {
            break;
        };
        let (cpus, is_v6) = (test.local_host.cpus.len(), test.local_host.counters.is_v6);
        run.print_titles(|| output::send_titles(cpus, is_v6), || csv::send_row(&test));
        run.print(|_| output::send_line(&test));
        run.print_remark(&remarks::spacing_remark(
            gap,
            test.outcome.local.spacing_result.as_ref(),
        ));
        run.print_remark(&remarks::unavailable_facts(
            LOCAL_HOST,
            &test.local_host,
            true,
        ));
        run.keep_outcome(test.outcome);
        if stop.is_set() || run.result.error.is_some() {
            break;
        }
    }
    run.finish(stop)
}

/// Runs `udpmon_recv`.
pub fn recv(settings: &RecvSettings, stop: &Stop, out: &mut dyn Write) -> RunResult {
    let mut run = Run::new(&settings.common, &settings.documents, out);
    let (mut snapshot_number, mut first_taken_at) = (0, None);
    let result = receiver::run(settings, stop, &mut |event| match event {
        ReceiverEvent::Opened(endpoint) => {
            run.begin(Program::Recv, endpoint, settings.printing_cpus.unwrap_or(0));
        }
        ReceiverEvent::Snapshot(snapshot) => {
            let since_first = snapshot
                .taken_at
                .duration_since(*first_taken_at.get_or_insert(snapshot.taken_at));
            run.print_snapshot(
                settings,
                &snapshot,
                snapshot_number,
                since_first.unwrap_or_default(),
                stop.is_set(),
            );
            snapshot_number += 1;
            if !snapshot.histograms.is_empty() {
                run.keep_outcome(receiver_outcome(settings, &snapshot));
            }
        }
    });
    run.record_error(result.map_err(|error| control::describe_error(&error)));
    match settings.time {
        Some(_) => run.finish(stop),
        // Without -t, only a stop ends the run, so the stop is no error.
        None => run.result,
    }
}

/// Returns the outcome of a receiver. The outcome has no figures of the sender.
fn receiver_outcome(settings: &RecvSettings, snapshot: &Snapshot) -> Outcome {
    let total = &snapshot.total;
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
    let started = snapshot
        .taken_at
        .checked_sub(total.received.elapsed)
        .unwrap_or(snapshot.taken_at);
    let mut outcome = Outcome::for_flow(settings.plan(), started, side, None, EndCause::Deadline);
    if let Some(Records {
        skip,
        rows: RecordRows::All(rows),
        ..
    }) = &snapshot.records
    {
        let bytes = (total.bytes / total.received.received.max(1)) as u32;
        let from_tenths = |tenths: i64| {
            let tenths = u64::try_from(tenths).ok()?;
            Some(Duration::from_nanos(tenths.checked_mul(100)?))
        };
        let rows = rows.iter().zip(u64::from(*skip)..);
        outcome.packets = rows
            .filter(|(row, _)| row.arrival != 0)
            .map(|(row, number)| model::PacketRecord {
                number,
                bytes,
                sent: from_tenths(row.sent),
                received: from_tenths(row.arrival),
                one_way_delay_ns: None,
            })
            .collect();
    }
    outcome
}

/// Runs `udpmon_resp` until a stop. Calls `begin` after opening the sockets and before starting a
/// thread. `begin` may fork; it returns whether this process serves.
pub fn resp(
    settings: &RespSettings,
    stop: &Stop,
    begin: impl FnOnce() -> Result<bool, String>,
) -> Result<(), String> {
    let describe = |error: io::Error| sys::describe(&error);
    let without_cpus = CommonSettings {
        cpus: None,
        ..settings.common.clone()
    };
    let (listeners, mut endpoint) = server::listen(&without_cpus).map_err(describe)?;
    endpoint.cpus.1 = settings.common.cpus.unwrap_or(endpoint.cpus.1);
    let documents = DocumentOptions::default();
    Run::new(&settings.common, &documents, &mut getopt::stdout()).begin(Program::Resp, endpoint, 0);
    if !begin()? {
        return Ok(());
    }
    // Bind to the CPUs only now: this starts a thread, and a daemon loses threads that were started
    // before its fork.
    endpoint::bind_to_cpus(settings.common.cpus).map_err(describe)?;
    if settings.common.verbose {
        let resources = engine::ResourceBudget::process();
        sys::write_error_line(format_args!("udpmon_resp: resources: {resources}"));
    }
    let service = Service::new(settings.limits.server.clone(), stop.clone());
    let errors = ErrorLog::new("udpmon_resp");
    server::serve(listeners, settings, &service, &|line| {
        errors.write(line, ErrorLog::MAX_WARNINGS);
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
    /// `--json`: no text.
    Nothing,
}

/// A run in progress.
struct Run<'a> {
    common: &'a CommonSettings,
    style: Style,
    keeps_records: bool,
    /// The file of `--packets`; `None` before [`Run::begin`].
    packets: Option<File>,
    packets_path: Option<PathBuf>,
    out: &'a mut dyn Write,
    endpoint: EndpointInfo,
    /// The datagram size of the last printed size line.
    printed_size: Option<u32>,
    has_printed_titles: bool,
    result: RunResult,
}

impl<'a> Run<'a> {
    fn new(
        common: &'a CommonSettings,
        documents: &DocumentOptions,
        out: &'a mut dyn Write,
    ) -> Self {
        let style = match (documents.json, documents.csv, common.quiet) {
            (true, ..) => Style::Nothing,
            (_, true, _) => Style::Csv,
            (_, _, true) => Style::Lines,
            _ => Style::Text,
        };
        Self {
            common,
            style,
            packets: None,
            packets_path: documents.packets.clone(),
            keeps_records: documents.json || documents.html.is_some() || documents.plot.is_some(),
            out,
            endpoint: EndpointInfo::default(),
            printed_size: None,
            has_printed_titles: false,
            result: RunResult::default(),
        }
    }

    /// Prints the lines before the first test. Returns `None` if the socket failed to open.
    fn begin_if_open<T>(
        &mut self,
        program: Program,
        endpoint: io::Result<T>,
        info_of: impl Fn(&T) -> &EndpointInfo,
    ) -> Option<T> {
        let endpoint = self.record_error(endpoint.map_err(|error| sys::describe(&error)))?;
        self.begin(program, info_of(&endpoint).clone(), 0);
        self.result.error.is_none().then_some(endpoint)
    }

    /// Stores the endpoint, and prints the lines before the first test.
    fn begin(&mut self, program: Program, endpoint: EndpointInfo, printing_cpus: u64) {
        self.write_packets(None);
        self.result.peer = endpoint.peer_address.parse().ok();
        self.endpoint = endpoint;
        if self.style == Style::Text {
            let clock_cost = match program {
                Program::Recv | Program::Resp => ClockCost::default(),
                _ => calibrate(),
            };
            let now = SystemTime::now();
            let text = output::preamble(
                program,
                self.common,
                now,
                &self.endpoint,
                &clock_cost,
                printing_cpus,
            );
            self.write(&text);
        }
    }

    /// Returns the value of a result. Records an error, which ends the run.
    fn record_error<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|error| self.result.error = Some(error)).ok()
    }

    /// Ends the run. A stop leaves it incomplete, which is an error.
    fn finish(mut self, stop: &Stop) -> RunResult {
        if stop.is_set() {
            let interrupted = || "interrupted".to_owned();
            self.result.error.get_or_insert_with(interrupted);
        }
        self.result
    }

    /// Prints the size of the following datagrams, if it has changed.
    fn print_size(&mut self, bytes: u32) {
        if self.style == Style::Text && self.printed_size.replace(bytes) != Some(bytes) {
            self.write(&format!(" {bytes} bytes\n"));
        }
    }

    fn print_throughput(&mut self, settings: &BwMonSettings, test: &ThroughputResult) {
        let extended = settings
            .extended
            .then_some((&test.local_host, &test.remote_host));
        self.print_titles(
            || output::bw_mon_titles(extended),
            || csv::throughput_row(test),
        );
        self.print(|run| {
            let line = output::bw_mon_line(test, settings.extended);
            match run.style {
                Style::Lines => output::quiet_prefix(test.outcome.started, &run.endpoint) + &line,
                _ => line,
            }
        });
        if settings.histograms {
            self.print(|_| {
                test.histograms
                    .iter()
                    .map(output::format_histogram)
                    .collect()
            });
        }
        if let Some(records) = &test.records {
            self.print(|_| output::arrival_records(records));
        }
        if self.style == Style::Text {
            let figures = test.outcome.packet_figures();
            self.write(&remarks::test_remarks(test, figures.as_ref()));
            // Without `-x`, the line has only the counters of the remote host.
            if settings.extended {
                self.write(&remarks::unavailable_facts(
                    LOCAL_HOST,
                    &test.local_host,
                    true,
                ));
            }
            self.write(&remarks::unavailable_facts(
                "the responder's host",
                &test.remote_host,
                settings.extended,
            ));
        }
    }

    /// Prints the counts since the previous snapshot; with `is_interrupted`, also the counts since
    /// the start.
    fn print_snapshot(
        &mut self,
        settings: &RecvSettings,
        snapshot: &Snapshot,
        number: u64,
        since_first: Duration,
        is_interrupted: bool,
    ) {
        let host = &snapshot.delta.host;
        let (cpus, is_v6) = (host.cpus.len(), host.counters.is_v6);
        self.print_titles(
            || output::recv_titles(cpus, is_v6),
            || csv::snapshot_row(snapshot),
        );
        if is_interrupted {
            self.print(|_| output::recv_table(snapshot));
        }
        self.print(|_| output::recv_line(number, since_first, snapshot));
        self.print_remark(&remarks::unavailable_facts(LOCAL_HOST, host, true));
        if snapshot.histograms.is_empty() {
            return;
        }
        if settings.histograms {
            let count = if settings.records_kernel_and_nic_stamps {
                5
            } else {
                3
            };
            let histograms = snapshot.histograms.iter().take(count);
            self.print(|_| histograms.map(output::format_histogram).collect());
        }
        if let Some(records) = &snapshot.records {
            self.print(|_| output::recv_records(records));
        }
        self.print_remark(&remarks::receiver_remark(&snapshot.total.counts));
    }

    /// Prints titles before the first result. In CSV, also prints the result.
    fn print_titles<T: AsRef<str>>(
        &mut self,
        titles: impl Fn() -> T,
        row: impl Fn() -> csv::CsvRow,
    ) {
        let is_first = !std::mem::replace(&mut self.has_printed_titles, true);
        match self.style {
            Style::Text if is_first => self.write(titles().as_ref()),
            Style::Csv => {
                let row = row();
                let titles = if is_first {
                    csv::title_line(&row)
                } else {
                    String::new()
                };
                self.write(&(titles + &csv::value_line(&row)));
            }
            _ => {}
        }
    }

    /// Prints text in the styles that have text.
    fn print(&mut self, text: impl FnOnce(&Self) -> String) {
        if matches!(self.style, Style::Text | Style::Lines) {
            let text = text(self);
            self.write(&text);
        }
    }

    /// Prints a line in addition to stock's text.
    fn print_remark(&mut self, line: &str) {
        if self.style == Style::Text {
            self.write(line);
        }
    }

    /// Writes to the output. Ignores errors such as a closed pipe.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }

    /// Appends the records of a test to the file of `--packets`. Without a test, creates the file
    /// with its title line.
    fn write_packets(&mut self, outcome: Option<&Outcome>) {
        let Some(path) = &self.packets_path else {
            return;
        };
        let text = match outcome {
            None => csv::PACKET_TITLE_LINE.to_owned(),
            Some(outcome) => csv::packet_rows(self.result.outcomes.len(), outcome),
        };
        let file = match self.packets.take() {
            Some(file) => Ok(file),
            None => create_packets_file(path),
        };
        let written = file.and_then(|mut file| {
            let written = file.write_all(text.as_bytes());
            self.packets = Some(file);
            written
        });
        if let Err(error) = written {
            let reason = sys::describe(&error);
            self.result.error = Some(format!("cannot write {}: {reason}", path.display()));
        }
    }

    /// Stores the outcome of a test. Drops its packet records if no document shows them or if they
    /// exceed the limit.
    fn keep_outcome(&mut self, mut outcome: Outcome) {
        if let EndCause::Failed(reason) = &outcome.ended {
            self.result.error = Some(reason.clone());
        }
        self.write_packets(Some(&outcome));
        let kept: usize = self
            .result
            .outcomes
            .iter()
            .map(|outcome| outcome.packets.len())
            .sum();
        if self.keeps_records && kept + outcome.packets.len() > MAX_KEPT_RECORDS {
            self.result.omitted_records += outcome.packets.len();
            outcome.packets = Vec::new();
        } else if !self.keeps_records {
            outcome.packets = Vec::new();
        }
        self.result.outcomes.push(outcome);
    }
}

/// Creates or empties the file of `--packets`.
fn create_packets_file(path: &Path) -> io::Result<File> {
    let file = sys::open_output(File::options().create(true).append(true), path)?;
    sys::truncate(&file, path)?;
    Ok(file)
}
