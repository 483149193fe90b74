//! The document of a test: that of `-J`, and the events of `--json-stream`.

use model::{PathSample, Sample, Series};

use super::figures::{self, DiskFile, Figures};
use super::{congestion, gmt};
use crate::json::{Json, Object, object};
use crate::result::{StreamRun, TestRun};
use crate::streams::{IntervalEnd, Stream};
use crate::wire::{Direction, Protocol, ServerOutput};

/// The document of a test that failed before it was agreed on.
pub(crate) fn failed(error: &str) -> Json {
    let start = object! {
        "connected": Vec::<Json>::new(),
        "version": version(),
        "system_info": crate::system_info(),
    };
    Json::from(object! {
        "start": start,
        "intervals": Vec::<Json>::new(),
        "end": Object::new(),
        "error": error,
    })
}

/// The whole document.
pub(crate) fn document(run: &TestRun) -> Json {
    let mut document = object! {
        "start": start(run),
        "intervals": intervals(run),
        "end": end(run),
    };
    let mut put = |key: &'static str, value: Option<Json>| {
        document.extend(value.map(|value| (key.into(), value)));
    };
    let text = |text: &Option<String>| text.clone().map(Json::from);
    put("title", text(&run.parameters.title));
    put("extra_data", text(&run.parameters.extra_data));
    match run
        .results
        .as_ref()
        .and_then(|results| results.output.clone())
    {
        Some(ServerOutput::Text(text)) if !run.is_server => {
            put("server_output_text", Some(text.into()));
        }
        Some(ServerOutput::Document(json)) if !run.is_server => {
            put("server_output_json", Some(json));
        }
        _ => {}
    }
    put("error", text(&run.error));
    Json::from(document)
}

fn version() -> String {
    format!("iperf {}", crate::VERSION)
}

/// `start`.
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
        "version": version(),
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
    let time = object! { "time": gmt(run.started), "timesecs": crate::unix(run.started) };
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
    if let Some(rate) = parameters.fq_rate {
        start.push(("fq_rate".into(), rate.into()));
    }
    if !(run.is_server && is_tcp) {
        start.extend(buffers);
    }
    let test_start = object! {
        "protocol": parameters.protocol.name(),
        "num_streams": parameters.parallel,
        "blksize": parameters.block(),
        "omit": parameters.omit,
        "duration": parameters.time,
        "bytes": parameters.bytes,
        "blocks": parameters.blocks,
        "reverse": i32::from(parameters.direction == Direction::Reverse),
        "tos": parameters.type_of_service.unwrap_or(0),
        "target_bitrate": parameters.rate,
    };
    start.push(("test_start".into(), test_start.into()));
    start.into()
}

fn intervals(run: &TestRun) -> Vec<Json> {
    let samples = run
        .streams
        .first()
        .map_or(0, |stream| stream.samples().len());
    let of = |at: usize| {
        let pair = |stream: &StreamRun| {
            let samples = stream.samples();
            Some((
                stream.label,
                stream.sends,
                [*samples.get(at - 1)?, *samples.get(at)?],
            ))
        };
        let all: Vec<_> = run.streams.iter().filter_map(pair).collect();
        let origin = run
            .streams
            .first()
            .and_then(|stream| stream.samples().get(run.begin));
        interval_at(
            run,
            &all,
            origin.filter(|_| at > run.begin).copied(),
            at <= run.begin,
        )
    };
    (1..samples).map(of).collect()
}

/// One element of `intervals`, while the test runs.
pub(crate) fn interval(run: &TestRun, end: IntervalEnd<'_>) -> Json {
    let pair = |(stream, series): (&Stream, &Series)| {
        let [.., before, now] = series.samples[..] else {
            return None;
        };
        Some((stream.label, stream.sends, [before, now]))
    };
    let all: Vec<_> = end
        .streams
        .iter()
        .zip(end.series)
        .filter_map(pair)
        .collect();
    let origin = end
        .begin
        .and_then(|begin| end.series.first()?.samples.get(begin));
    interval_at(run, &all, origin.copied(), end.begin.is_none())
}

/// The label and the direction of a stream, and its samples around an interval.
type Pair = (i32, bool, [Sample; 2]);

fn interval_at(run: &TestRun, all: &[Pair], origin: Option<Sample>, is_omitted: bool) -> Json {
    let origin = origin.unwrap_or_default().at;
    let figures = |pair: &Pair| {
        let (_, sends, [before, now]) = pair;
        figures::interval(run, *sends, (before, now), origin)
    };
    let mut streams = Vec::new();
    for pair in all {
        let mut json = object! { "socket": pair.0 };
        json.extend(interval_members(run, pair.1, &figures(pair), is_omitted));
        streams.push(Json::from(json));
    }
    let mut json = object! { "streams": streams };
    // The client's data first: the server's sum has the same name at both ends.
    for (name, from_client) in [("sum", true), ("sum_bidir_reverse", false)] {
        let is_both = run.parameters.direction == Direction::Both;
        let sends = from_client != run.is_server;
        let of_it: Vec<_> = all
            .iter()
            .filter(|pair| !is_both || pair.1 == sends)
            .collect();
        if let Some(first) = of_it.first().filter(|_| is_both || from_client) {
            let sends = first.1;
            let parts: Vec<_> = of_it.iter().map(|pair| figures(pair)).collect();
            let members = interval_members(run, sends, &Figures::sum(&parts), is_omitted);
            json.push((name.into(), members.into()));
        }
    }
    json.into()
}

fn interval_members(run: &TestRun, sends: bool, figures: &Figures, is_omitted: bool) -> Object {
    let mut json = span(figures);
    let number = |time: Option<std::time::Duration>| time.map_or(0, |time| time.as_micros() as u64);
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
                    "rtt": number(path.smoothed_rtt),
                    "rttvar": number(path.rtt_deviation),
                    "pmtu": path.path_mtu_bytes.unwrap_or(0),
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

/// `end`.
pub(crate) fn end(run: &TestRun) -> Json {
    if run.streams.iter().all(|stream| stream.samples().len() < 2) {
        return Object::new().into();
    }
    let streams = run.streams.iter().map(|stream| end_of_stream(run, stream));
    let mut json = object! { "streams": streams.collect::<Vec<_>>() };
    let is_both = run.parameters.direction == Direction::Both;
    for (suffix, from_client) in [("", true), ("_bidir_reverse", false)] {
        let sends = from_client != run.is_server;
        let of_it = |stream: &&StreamRun| !is_both || stream.sends == sends;
        let streams: Vec<_> = run.streams.iter().filter(of_it).collect();
        if let Some(first) = streams.first().filter(|_| is_both || from_client) {
            json.extend(sums(run, &streams, suffix, first.sends));
        }
    }
    let zeros = [0.0; 3];
    let remote = run.results.as_ref().map_or(zeros, |results| results.cpu);
    let ([total, user, system], [far_total, far_user, far_system]) = (run.cpu, remote);
    let cpu = object! {
        "host_total": total,
        "host_user": user,
        "host_system": system,
        "remote_total": far_total,
        "remote_user": far_user,
        "remote_system": far_system,
    };
    json.push(("cpu_utilization_percent".into(), cpu.into()));
    let sends = run.streams.iter().any(|stream| stream.sends);
    for ((_, name), key) in congestion(run, sends)
        .into_iter()
        .zip(["sender_tcp_congestion", "receiver_tcp_congestion"])
    {
        if let Some(name) = name {
            json.push((key.into(), name.into()));
        }
    }
    if run.others > 0 {
        json.push(("overlapping_tests".into(), run.others.into()));
    }
    json.into()
}

/// The sums of one direction. What a receiving server does not know is 0 there, as stock has it.
fn sums(run: &TestRun, streams: &[&StreamRun], suffix: &str, sends: bool) -> Object {
    let of = |is_sender: bool| {
        let figures = |stream: &&StreamRun| {
            if is_sender {
                figures::sent(run, stream)
            } else {
                figures::received(stream)
            }
        };
        Figures::sum(&streams.iter().map(figures).collect::<Vec<_>>())
    };
    let (sent, received) = (of(true), of(false));
    let mut json = Object::new();
    let mut put = |name: &str, mut members: Object, is_sender: bool| {
        members.push(("sender".into(), is_sender.into()));
        json.push((format!("{name}{suffix}").into(), members.into()));
    };
    if run.is_udp() {
        let mixed = Figures {
            bytes: sent.bytes,
            ..mixed(&sent, &received)
        };
        let mut members = span(&Figures {
            end: received.end,
            seconds: received.seconds,
            ..mixed
        });
        members.extend(losses(&mixed));
        put("sum", members, sends);
        let mut members = span(&sent);
        members.extend(losses(&sent));
        put("sum_sent", members, true);
        let mut members = span(&received);
        members.extend(losses(&received));
        put("sum_received", members, false);
    } else {
        let mut members = span(&sent);
        members.extend(
            sent.retransmits
                .map(|count| ("retransmits".into(), count.into())),
        );
        put("sum_sent", members, sends);
        put("sum_received", span(&received), sends);
    }
    json
}

/// The sender's bytes and, if known, its count, with the receiver's losses.
fn mixed(sent: &Figures, received: &Figures) -> Figures {
    let mut mixed = *sent;
    mixed.datagrams = received.datagrams;
    if sent.datagrams.packets > 0 {
        mixed.datagrams.packets = sent.datagrams.packets;
    }
    mixed
}

fn end_of_stream(run: &TestRun, stream: &StreamRun) -> Json {
    let (sent, received) = (figures::sent(run, stream), figures::received(stream));
    let socket = |figures: &Figures| {
        let mut json = object! { "socket": stream.label };
        json.extend(span(figures));
        json
    };
    if run.is_udp() {
        let mixed = mixed(&sent, &received);
        let mut json = socket(&mixed);
        json.extend(losses(&mixed));
        json.extend(
            object! { "out_of_order": mixed.datagrams.out_of_order, "sender": stream.sends },
        );
        return Json::from(object! { "udp": json });
    }
    let mut by_sender = socket(&sent);
    if let Some(retransmits) = sent.retransmits {
        by_sender.push(("retransmits".into(), retransmits.into()));
        by_sender.extend(extremes(stream, run.begin));
    }
    by_sender.push(("sender".into(), stream.sends.into()));
    let mut by_receiver = socket(&received);
    by_receiver.push(("sender".into(), stream.sends.into()));
    let mut json = object! { "sender": by_sender };
    if let Some(file) = DiskFile::of(run, stream) {
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

/// The connection over the intervals, as its sender saw it.
fn extremes(stream: &StreamRun, begin: usize) -> Object {
    let paths = stream
        .samples()
        .iter()
        .skip(begin + 1)
        .filter_map(|sample| sample.path);
    let paths: Vec<_> = paths.filter(|_| stream.sends).collect();
    let most = |of: fn(&PathSample) -> u64| paths.iter().map(of).max().unwrap_or(0);
    let rtt = |path: &PathSample| path.smoothed_rtt.map_or(0, |rtt| rtt.as_micros() as u64);
    let sum: u64 = paths.iter().map(rtt).sum();
    object! {
        "max_snd_cwnd": most(|path| path.congestion_window_bytes.unwrap_or(0)),
        "max_snd_wnd": most(|path| path.send_window_bytes.unwrap_or(0).into()),
        "max_rtt": most(|path| path.smoothed_rtt.map_or(0, |rtt| rtt.as_micros() as u64)),
        "min_rtt": paths.iter().map(rtt).min().unwrap_or(0),
        "mean_rtt": sum / (paths.len() as u64).max(1),
    }
}

/// A key of our own: the smoothed round-trip times of TCP_INFO, in microseconds, looked at 100 times per second.
fn round_trips(stream: &StreamRun) -> Object {
    let Some(times) = &stream.outcome.here.smoothed_rtt else {
        return Object::new();
    };
    let at = |percent: f64| {
        times
            .percentile(percent)
            .map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    let json = object! { "samples": times.len(), "p50": at(50.0), "p99": at(99.0) };
    object! { "smoothed_rtt_us": json }
}
