//! The clients: the requesters of `udpmon_bw_mon` and `udpmon_req`, and the sender of
//! `udpmon_send`.

mod channel;
mod departures;
mod plausible;
mod responder_records;
mod test;

use std::io;
use std::os::fd::AsFd;
use std::time::{Instant, SystemTime};

use engine::{Stop, StopReason};
use model::{EndCause, Outcome, Side};
use sys::clock::monotonic_ns;
use sys::{Address, Socket};
use units::Bytes;

use self::channel::Channel;
use self::departures::Departures;
use self::test::ThroughputTest;
use crate::endpoint;
use crate::options::{BwMonSettings, CommonSettings, ReqSettings, SendSettings, TestLoad};
use crate::result::{EndpointInfo, LatencyResult, SendResult, ThroughputResult};
use crate::wire::{LinearHistogram, MessageBlock};

/// The maximum number of consecutive requests without a response. The next one fails the test.
const MAX_UNANSWERED: u32 = 30;

/// A client of a responder.
#[derive(Debug)]
pub struct Requester {
    channel: Channel,
    endpoint: EndpointInfo,
}

impl Requester {
    /// Opens the socket. Sends nothing yet.
    pub fn open(common: &CommonSettings, host: &str, local_port: Option<u16>) -> io::Result<Self> {
        let (socket, peer, endpoint) = connect(common, host, local_port)?;
        let channel = Channel::new(socket, peer, common.socket_options(), common.verbose);
        Ok(Self { channel, endpoint })
    }

    /// Returns facts about this end, for the lines before the first result.
    pub fn endpoint(&self) -> &EndpointInfo {
        &self.endpoint
    }

    /// Runs one test with this load, which replaces the load of the settings. A stop ends the
    /// sending.
    pub fn run_throughput_test(
        &mut self,
        settings: &BwMonSettings,
        load: &TestLoad,
        stop: &Stop,
    ) -> io::Result<ThroughputResult> {
        let timeouts = self.channel.timeouts;
        let admission = self.channel.begin(&test::start_request(settings, 0), stop);
        let result = admission
            .and_then(|()| ThroughputTest::new(&mut self.channel, settings, load).run(stop));
        self.end_test(result.is_err(), stop);
        result.map(|result| ThroughputResult {
            timeouts: self.channel.timeouts - timeouts,
            ..result
        })
    }

    /// Measures round-trip times: requests with responses of one length.
    pub fn run_latency_test(
        &mut self,
        settings: &ReqSettings,
        response_bytes: u32,
        stop: &Stop,
    ) -> io::Result<LatencyResult> {
        let test_settings = MessageBlock {
            width: 1,
            ..MessageBlock::default()
        };
        let admission = self.channel.begin(&test_settings, stop);
        let result = admission.and_then(|()| self.run_requests(settings, response_bytes, stop));
        self.end_test(result.is_err(), stop);
        result
    }

    /// Ends a test at the responder. After a failure or a stop, waits only briefly for the reply.
    /// Ignores errors: the caller already has the error of the test.
    fn end_test(&mut self, has_failed: bool, stop: &Stop) {
        let cleanup_stop = Stop::new();
        if has_failed || stop.is_set() {
            cleanup_stop.set(StopReason::Cancelled);
        }
        let _ = self.channel.end(&cleanup_stop);
    }

    fn run_requests(
        &mut self,
        settings: &ReqSettings,
        response_bytes: u32,
        stop: &Stop,
    ) -> io::Result<LatencyResult> {
        let (started, start, zero_ns) = (SystemTime::now(), Instant::now(), monotonic_ns());
        let bins = settings.bins;
        let mut times = LinearHistogram::new(0, "Time per req-resp us", bins.low, bins.width, 150);
        let mut side = Side::default();
        let mut latency = stats::Histogram::default();
        let (mut requests, mut timeouts, mut unanswered) = (0, 0, 0);
        let mut number = 0;
        while requests < settings.requests && !stop.is_set() {
            let lengths = (number, settings.request_bytes as usize, response_bytes);
            number += 1;
            let (exchange, length) = match self.channel.request_response(lengths, zero_ns, stop) {
                Ok(response) => response,
                Err(_) if stop.is_set() => break,
                Err(error)
                    if error.kind() == io::ErrorKind::TimedOut && unanswered < MAX_UNANSWERED =>
                {
                    (timeouts, unanswered) = (timeouts + 1, unanswered + 1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if length != response_bytes as usize {
                let peer = self.channel.peer();
                let reason = format!(
                    "{peer}: responses have {length} bytes instead of the requested {response_bytes}"
                );
                return Err(io::Error::other(reason));
            }
            let round_trip_ns = (exchange.received_ns - exchange.sent_ns).unsigned_abs();
            times.record((round_trip_ns / 1_000) as i64);
            latency.record(round_trip_ns);
            (requests, unanswered) = (requests + 1, 0);
            if !settings.pause.is_zero() {
                let _ = self.channel.pause(settings.pause, stop);
            }
        }
        side.counts.transactions = requests.into();
        side.counts.sent = Bytes(number as u64 * u64::from(settings.request_bytes));
        side.counts.received = Bytes(u64::from(requests) * u64::from(response_bytes));
        side.elapsed = Some(start.elapsed());
        side.latency = Some(latency);
        let ended = if requests < settings.requests {
            EndCause::Cancelled
        } else {
            EndCause::Count
        };
        Ok(LatencyResult {
            request_bytes: settings.request_bytes,
            response_bytes,
            outcome: Outcome::for_flow(settings.plan(response_bytes), started, side, None, ended),
            requests,
            timeouts,
            elapsed: start.elapsed(),
            times,
        })
    }
}

/// A sender that exchanges no control messages.
#[derive(Debug)]
pub struct LoadSender {
    socket: Socket,
    is_v6: bool,
    endpoint: EndpointInfo,
}

impl LoadSender {
    /// Opens the socket. Sends nothing yet.
    pub fn open(settings: &SendSettings) -> io::Result<Self> {
        let (socket, peer, endpoint) =
            connect(&settings.common, &settings.host, settings.local_port)?;
        let is_v6 = peer.is_ipv6();
        Ok(Self {
            socket,
            is_v6,
            endpoint,
        })
    }

    /// Returns facts about this end, for the lines before the first result.
    pub fn endpoint(&self) -> &EndpointInfo {
        &self.endpoint
    }

    /// Sends the datagrams of one test.
    pub fn send(
        &self,
        settings: &SendSettings,
        load: &TestLoad,
        stop: &Stop,
    ) -> io::Result<SendResult> {
        let departures = Departures::run(
            self.socket.as_fd(),
            load,
            monotonic_ns(),
            0,
            self.is_v6,
            stop,
        )?;
        let spacing = &departures.spacing;
        Ok(SendResult {
            load: *load,
            sent: spacing.sent,
            send_time: spacing.elapsed,
            local_host: departures.host.clone(),
            outcome: departures.outcome(settings.plan(load), None),
        })
    }
}

fn connect(
    common: &CommonSettings,
    host: &str,
    local_port: Option<u16>,
) -> io::Result<(Socket, Address, EndpointInfo)> {
    let peer = endpoint::resolve_address(host, common.port, common.is_v6)?;
    let bind = peer.with_any_host().with_any_port();
    let bind = bind
        .with_port(local_port.unwrap_or(0).into())
        .unwrap_or(bind);
    let (socket, endpoint) = endpoint::open(common, &bind, Some(&peer))?;
    let endpoint = EndpointInfo {
        peer_name: host.to_owned(),
        bound_port: local_port,
        ..endpoint
    };
    Ok((socket, peer, endpoint))
}
