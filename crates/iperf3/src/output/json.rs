//! Formats a test as JSON: the document of `-J` and the events of `--json-stream`.

use std::time::SystemTime;

use model::{PathSample, Sample, Series};

use super::figures::{self, DiskFile, Figures};
use super::{congestion_names, gmt_date};
use crate::Version;
use crate::json::{Json, Object, object};
use crate::result::{StreamRun, TestRun};
use crate::streams::{IntervalEnd, Stream};
use crate::wire::{Direction, Protocol, ServerOutput};

/// Returns the complete document, with this object `end`. `run` is `None` if the test failed before its
/// parameters were accepted.
///
/// Like stock's, a document with several errors has several members of that name.
pub(crate) fn document(
    version: Version,
    run: Option<&TestRun>,
    end: Json,
    errors: &[String],
) -> Json {
    let (start, intervals) = match run {
        Some(run) => (start(run), intervals(run)),
        None => (start_without_test(version, 0), Vec::new()),
    };
    let mut document = object! { "start": start, "intervals": intervals, "end": end };
    document.extend(run.map_or_else(Object::new, texts));
    let error = |error: &String| ("error".into(), error.as_str().into());
    document.extend(errors.iter().map(error));
    Json::from(document)
}

/// Returns the document of a test that a server refuses, of this rate in bits per second; 0 if none is
/// known.
pub(crate) fn refusal(version: Version, rate: u64, error: &str) -> Json {
    Json::from(object! {
        "start": start_without_test(version, rate),
        "intervals": Vec::<Json>::new(),
        "end": Object::new(),
        "error": error,
    })
}

fn start_without_test(version: Version, rate: u64) -> Json {
    let mut start = object! {
        "connected": Vec::<Json>::new(),
        "version": version_text(version),
        "system_info": crate::system_info(),
    };
    if rate > 0 {
        start.push(("target_bitrate".into(), rate.into()));
    }
    start.into()
}

/// Returns the members with the texts of the client and the server.
fn texts(run: &TestRun) -> Object {
    let mut members = Object::new();
    let mut add = |key: &'static str, value: Option<Json>| {
        members.extend(value.map(|value| (key.into(), value)));
    };
    let text = |text: &Option<String>| text.clone().map(Json::from);
    add("title", text(&run.parameters.title));
    add("extra_data", text(&run.parameters.extra_data));
    match run
        .results
        .as_ref()
        .and_then(|results| results.output.clone())
    {
        Some(ServerOutput::Text(text)) if !run.is_server => {
            add("server_output_text", Some(text.into()));
        }
        Some(ServerOutput::Document(json)) if !run.is_server => {
            add("server_output_json", Some(json));
        }
        _ => {}
    }
    members
}

fn version_text(version: Version) -> String {
    format!("iperf {}", version.name())
}

/// Returns the object `start`.
pub(crate) fn start(run: &TestRun) -> Json {
    let parameters = &run.parameters;
    let connected = run.streams.iter().map(|stream| {
        let (local, remote) = (
            super::host_and_port(&stream.local),
            super::host_and_port(&stream.remote),
        );
        Json::from(object! {
            "socket": stream.label,
            "local_host": local.0,
            "local_port": local.1,
            "remote_host": remote.0,
            "remote_port": remote.1,
        })
    });
    let mut start = object! {
        "connected": connected.collect::<Vec<_>>(),
        "version": version_text(run.version),
        "system_info": crate::system_info(),
    };
    let buffers = object! {
        "sock_bufsize": parameters.window.unwrap_or(0),
        "sndbuf_actual": run.buffers.0,
        "rcvbuf_actual": run.buffers.1,
    };
    let is_tcp = parameters.protocol == Protocol::Tcp;
    if run.is_server {
        if parameters.rate > 0 {
            start.push(("target_bitrate".into(), parameters.rate.into()));
        }
        if is_tcp {
            start.extend(buffers.clone());
        }
    }
    let since_epoch = run.started.duration_since(SystemTime::UNIX_EPOCH);
    let since_epoch = since_epoch.unwrap_or_default();
    let time = object! {
        "time": gmt_date(run.started),
        "timesecs": since_epoch.as_secs(),
        "timemillisecs": since_epoch.as_millis() as u64,
    };
    start.push(("timestamp".into(), time.into()));
    let (host, port) = &run.peer;
    let peer = object! { "host": host.as_str(), "port": *port };
    let name = if run.is_server {
        "accepted_connection"
    } else {
        "connecting_to"
    };
    start.push((name.into(), peer.into()));
    start.push(("cookie".into(), run.cookie.text().into()));
    if is_tcp {
        let (name, bytes) = match parameters.max_segment {
            Some(bytes) => ("tcp_mss", bytes),
            None => ("tcp_mss_default", run.control_segment),
        };
        start.push((name.into(), bytes.into()));
    }
    start.push(("target_bitrate".into(), parameters.rate.into()));
    start.push(("fq_rate".into(), parameters.fq_rate.unwrap_or(0).into()));
    if run.streams.is_empty() {
        return run.version.restrict("start", start.into());
    }
    if !(run.is_server && is_tcp) {
        start.extend(buffers);
    }
    if !run.has_started {
        return run.version.restrict("start", start.into());
    }
    let test_start = object! {
        "protocol": parameters.protocol.name(),
        "num_streams": parameters.parallel,
        "blksize": parameters.block_size(),
        "omit": parameters.omit,
        "duration": parameters.time,
        "bytes": parameters.bytes,
        "blocks": parameters.blocks,
        "reverse": i32::from(parameters.direction == Direction::Reverse),
        "tos": parameters.type_of_service.unwrap_or(0),
        "target_bitrate": parameters.rate,
        "bidir": i32::from(parameters.direction == Direction::Both),
        "fqrate": parameters.fq_rate.unwrap_or(0),
        "interval": run.interval.unwrap_or_default().as_secs_f64(),
        "gso": i32::from(parameters.offload),
        "gro": i32::from(parameters.offload),
    };
    start.push(("test_start".into(), test_start.into()));
    run.version.restrict("start", start.into())
}

fn intervals(run: &TestRun) -> Vec<Json> {
    let samples = run
        .streams
        .first()
        .map_or(0, |stream| stream.samples().len());
    let interval_json = |index: usize| {
        let stream_interval = |stream: &StreamRun| {
            let samples = stream.samples();
            Some((
                stream.label,
                stream.sends,
                [*samples.get(index - 1)?, *samples.get(index)?],
            ))
        };
        let stream_intervals: Vec<_> = run.streams.iter().filter_map(stream_interval).collect();
        let origin = run
            .streams
            .first()
            .and_then(|stream| stream.samples().get(run.omit_end_index));
        interval_at(
            run,
            &stream_intervals,
            origin.filter(|_| index > run.omit_end_index),
            index <= run.omit_end_index,
        )
    };
    (1..samples).map(interval_json).collect()
}

/// Returns the last element of `intervals` while the test runs.
pub(crate) fn interval(run: &TestRun, end: IntervalEnd<'_>) -> Json {
    let stream_interval = |(stream, series): (&Stream, &Series)| {
        let [.., start, end] = series.samples[..] else {
            return None;
        };
        Some((stream.label, stream.sends, [start, end]))
    };
    let stream_intervals: Vec<_> = end
        .streams
        .iter()
        .zip(end.series)
        .filter_map(stream_interval)
        .collect();
    let origin = end
        .omit_end_index
        .and_then(|index| end.series.first()?.samples.get(index));
    interval_at(run, &stream_intervals, origin, end.omit_end_index.is_none())
}

/// A stream's label, whether it sends, and its samples at the start and end of an interval.
type StreamInterval = (i32, bool, [Sample; 2]);

fn interval_at(
    run: &TestRun,
    stream_intervals: &[StreamInterval],
    origin: Option<&Sample>,
    is_omitted: bool,
) -> Json {
    let origin = origin.map(|sample| sample.at).unwrap_or_default();
    let figures = |interval: &StreamInterval| {
        let (_, sends, [start, end]) = interval;
        figures::interval_figures(run, *sends, (start, end), origin)
    };
    let mut streams = Vec::new();
    for interval in stream_intervals {
        let mut json = object! { "socket": interval.0 };
        json.extend(interval_members(
            run,
            interval.1,
            &figures(interval),
            is_omitted,
        ));
        streams.push(Json::from(json));
    }
    let mut json = object! { "streams": streams };
    // At both ends, `sum` is the client's data and `sum_bidir_reverse` the server's data.
    for (name, from_client) in [("sum", true), ("sum_bidir_reverse", false)] {
        let is_both = run.parameters.direction == Direction::Both;
        let sends = from_client != run.is_server;
        let selected: Vec<_> = stream_intervals
            .iter()
            .filter(|interval| !is_both || interval.1 == sends)
            .collect();
        if let Some(first) = selected.first().filter(|_| is_both || from_client) {
            let sends = first.1;
            let stream_figures: Vec<_> =
                selected.iter().map(|interval| figures(interval)).collect();
            let members = interval_members(run, sends, &Figures::sum(&stream_figures), is_omitted);
            json.push((name.into(), members.into()));
        }
    }
    run.version.restrict("interval", json.into())
}

fn interval_members(run: &TestRun, sends: bool, figures: &Figures, is_omitted: bool) -> Object {
    let mut json = span(figures);
    let microseconds =
        |time: Option<std::time::Duration>| time.map_or(0, |time| time.as_micros() as u64);
    match (run.is_udp(), sends) {
        (true, true) => json.push(("packets".into(), figures.datagrams.packets.into())),
        (true, false) => json.extend(losses(figures)),
        (false, _) => {
            if let Some(retransmits) = figures.retransmits {
                json.push(("retransmits".into(), retransmits.into()));
            }
            if let Some(path) = figures.path {
                json.extend(object! {
                    "snd_cwnd": path.congestion_window_bytes.unwrap_or(0),
                    "snd_wnd": path.send_window_bytes.unwrap_or(0),
                    "rtt": microseconds(path.smoothed_rtt),
                    "rttvar": microseconds(path.rtt_deviation),
                    "pmtu": path.path_mtu_bytes.unwrap_or(0),
                    "reorder": path.reorder_events.unwrap_or(0),
                });
            }
        }
    }
    json.extend(object! { "omitted": is_omitted, "sender": sends });
    json
}

fn span(figures: &Figures) -> Object {
    object! {
        "start": figures.start,
        "end": figures.end,
        "seconds": figures.seconds,
        "bytes": figures.bytes,
        "bits_per_second": figures.bits_per_second(),
    }
}

fn losses(figures: &Figures) -> Object {
    let datagrams = &figures.datagrams;
    object! {
        "jitter_ms": datagrams.jitter_ms,
        "lost_packets": datagrams.lost,
        "packets": datagrams.packets,
        "lost_percent": datagrams.lost_percent(),
    }
}

/// Returns the object `end`.
pub(crate) fn end(run: &TestRun) -> Json {
    let streams = run.streams.iter().map(|stream| stream_end(run, stream));
    let mut json = object! { "streams": streams.collect::<Vec<_>>() };
    let directions = super::directions(run);
    for &sends in directions {
        let streams = run.streams.iter().filter(|stream| stream.sends == sends);
        let is_of_client = sends != run.is_server || directions.len() == 1;
        let suffix = if is_of_client { "" } else { "_bidir_reverse" };
        json.extend(sums(run, &streams.collect::<Vec<_>>(), suffix, sends));
    }
    let zeros = [0.0; 3];
    let remote = run.results.as_ref().map_or(zeros, |results| results.cpu);
    let cpu = cpu_percents(run.cpu, remote);
    json.push(("cpu_utilization_percent".into(), cpu.into()));
    let last_sends = directions.last().copied().unwrap_or_default();
    for ((_, name), key) in congestion_names(run, last_sends)
        .into_iter()
        .zip(["sender_tcp_congestion", "receiver_tcp_congestion"])
    {
        if let Some(name) = name {
            json.push((key.into(), name.into()));
        }
    }
    if run.overlapping_tests > 0 {
        json.push(("overlapping_tests".into(), run.overlapping_tests.into()));
    }
    run.version.restrict("end", json.into())
}

/// Returns the object `cpu_utilization_percent` from total, user and system time of both ends.
fn cpu_percents([total, user, system]: [f64; 3], remote: [f64; 3]) -> Object {
    let [remote_total, remote_user, remote_system] = remote;
    object! {
        "host_total": total,
        "host_user": user,
        "host_system": system,
        "remote_total": remote_total,
        "remote_user": remote_user,
        "remote_system": remote_system,
    }
}

/// Returns the sums of one direction. As with stock, values that a server lacks are 0.
fn sums(run: &TestRun, streams: &[&StreamRun], suffix: &str, sends: bool) -> Object {
    let [sent, received] =
        [true, false].map(|is_sender| figures::end_sum(run, streams, sends, is_sender));
    let mut json = Object::new();
    let mut add = |name: &str, mut members: Object, is_sender: bool| {
        members.push(("sender".into(), is_sender.into()));
        json.push((format!("{name}{suffix}").into(), members.into()));
    };
    if run.is_udp() {
        let combined = Figures {
            bytes: sent.bytes,
            ..combine_ends(&sent, &received)
        };
        let mut members = span(&Figures {
            end: received.end,
            seconds: received.seconds,
            ..combined
        });
        members.extend(losses(&combined));
        add("sum", members, sends);
        let mut members = span(&sent);
        members.extend(losses(&sent));
        add("sum_sent", members, true);
        let mut members = span(&received);
        members.extend(losses(&received));
        add("sum_received", members, false);
    } else {
        let mut members = span(&sent);
        members.extend(
            sent.retransmits
                .map(|count| ("retransmits".into(), count.into())),
        );
        add("sum_sent", members, sends);
        add("sum_received", span(&received), sends);
    }
    json
}

/// Combines the sender's bytes and, if known, its datagram count with the receiver's losses.
fn combine_ends(sent: &Figures, received: &Figures) -> Figures {
    let mut combined = *sent;
    combined.datagrams = received.datagrams;
    if sent.datagrams.packets > 0 {
        combined.datagrams.packets = sent.datagrams.packets;
    }
    combined
}

fn stream_end(run: &TestRun, stream: &StreamRun) -> Json {
    let (sent, received) = (
        figures::sender_figures(run, stream),
        figures::receiver_figures(run, stream),
    );
    let socket = |figures: &Figures| {
        let mut json = object! { "socket": stream.label };
        json.extend(span(figures));
        json
    };
    if run.is_udp() {
        let combined = combine_ends(&sent, &received);
        let mut json = socket(&combined);
        json.extend(losses(&combined));
        json.extend(
            object! { "out_of_order": combined.datagrams.out_of_order, "sender": stream.sends },
        );
        return Json::from(object! { "udp": json });
    }
    let mut by_sender = socket(&sent);
    if let Some(retransmits) = sent.retransmits {
        by_sender.push(("retransmits".into(), retransmits.into()));
        by_sender.push(("reorder".into(), reorder_events(stream).into()));
        by_sender.extend(path_extremes(stream, run.omit_end_index));
    }
    by_sender.push(("sender".into(), stream.sends.into()));
    let mut by_receiver = socket(&received);
    by_receiver.push(("sender".into(), stream.sends.into()));
    let mut json = object! { "sender": by_sender };
    if let Some(file) = DiskFile::from_run(run, stream) {
        let members = object! {
            "sent": file.sent,
            "received": file.received,
            "size": file.bytes,
            "percent_sent": file.percent(file.sent),
            "percent_received": file.percent(file.received),
            "filename": file.name,
        };
        json.push(("diskfile".into(), members.into()));
    }
    json.push(("receiver".into(), by_receiver.into()));
    json.extend(round_trips(stream));
    json.into()
}

/// Returns the reordering events that this end's TCP saw; 0 if it does not send.
fn reorder_events(stream: &StreamRun) -> u32 {
    let path = stream.samples().last().and_then(|sample| sample.path);
    let events = path
        .filter(|_| stream.sends)
        .and_then(|path| path.reorder_events);
    events.unwrap_or(0)
}

/// Returns the extremes of the sender's TCP state over all intervals.
fn path_extremes(stream: &StreamRun, omit_end_index: usize) -> Object {
    let paths = stream
        .samples()
        .iter()
        .skip(omit_end_index + 1)
        .filter_map(|sample| sample.path);
    let paths: Vec<_> = paths.filter(|_| stream.sends).collect();
    let max_of = |field: fn(&PathSample) -> u64| paths.iter().map(field).max().unwrap_or(0);
    let rtt = |path: &PathSample| path.smoothed_rtt.map_or(0, |rtt| rtt.as_micros() as u64);
    let sum: u64 = paths.iter().map(rtt).sum();
    object! {
        "max_snd_cwnd": max_of(|path| path.congestion_window_bytes.unwrap_or(0)),
        "max_snd_wnd": max_of(|path| path.send_window_bytes.unwrap_or(0).into()),
        "max_rtt": max_of(|path| path.smoothed_rtt.map_or(0, |rtt| rtt.as_micros() as u64)),
        "min_rtt": paths.iter().map(rtt).min().unwrap_or(0),
        "mean_rtt": sum / (paths.len() as u64).max(1),
    }
}

/// Returns the smoothed round-trip times of TCP_INFO, in microseconds.
///
/// This key is linerate's addition. The times are sampled about 100 times per second.
fn round_trips(stream: &StreamRun) -> Object {
    let Some(times) = &stream.outcome.local.smoothed_rtt else {
        return Object::new();
    };
    let percentile_us = |percent: f64| {
        times
            .percentile(percent)
            .map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    let summary =
        object! { "samples": times.len(), "p50": percentile_us(50.0), "p99": percentile_us(99.0) };
    object! { "smoothed_rtt_us": summary }
}
