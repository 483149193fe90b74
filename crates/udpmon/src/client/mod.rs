//! The requesters: one test of `udpmon_bw_mon`, one response length of `udpmon_req`, one run of `udpmon_send`.

mod channel;
mod departures;
mod recorded;
mod test;

use std::io;
use std::os::fd::AsFd;
use std::time::{Instant, SystemTime};

use engine::{Reason, Stop};
use model::{Ended, Outcome, Side};
use sys::clock::monotonic_ns;
use sys::{Address, Socket};
use units::Bytes;

use self::channel::Channel;
use self::departures::Departures;
use self::test::Test;
use crate::endpoint;
use crate::options::{BwMon, Common, Load, Req, Send};
use crate::result::{Latency, Opened, Sending, Throughput};
use crate::wire::{Block, Histogram};

/// Consecutive requests for a response that may remain unanswered.
const MOST_UNANSWERED: u32 = 30;

/// A client of a responder.
#[derive(Debug)]
pub struct Requester {
    channel: Channel,
    opened: Opened,
}

impl Requester {
    /// Opens the socket. Nothing is sent yet.
    pub fn open(common: &Common, host: &str, local_port: Option<u16>) -> io::Result<Self> {
        let (socket, peer, opened) = connect(common, host, local_port)?;
        let channel = Channel::new(socket, peer, common.socket(), common.verbose);
        Ok(Self { channel, opened })
    }

    /// The socket and the process, for the lines before the first result.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Runs one test with this load instead of the load of the settings. A stop ends the sending.
    pub fn throughput(
        &mut self,
        settings: &BwMon,
        load: &Load,
        stop: &Stop,
    ) -> io::Result<Throughput> {
        let timeouts = self.channel.timeouts;
        let begun = self.channel.begin(&test::request(settings, 0), stop);
        let result = begun.and_then(|()| Test::new(&mut self.channel, settings, load).run(stop));
        self.close(result.is_err(), stop);
        result.map(|result| Throughput {
            timeouts: self.channel.timeouts - timeouts,
            ..result
        })
    }

    /// Measures the time from requests to responses of one length.
    pub fn latency(
        &mut self,
        settings: &Req,
        response_bytes: u32,
        stop: &Stop,
    ) -> io::Result<Latency> {
        let begun = self.channel.begin(
            &Block {
                width: 1,
                ..Block::default()
            },
            stop,
        );
        let result = begun.and_then(|()| self.request_and_wait(settings, response_bytes, stop));
        self.close(result.is_err(), stop);
        result
    }

    /// Ends a test at the responder. The error of a lost responder is already reported.
    fn close(&mut self, failed: bool, stop: &Stop) {
        let hurry = Stop::new();
        if failed || stop.is_set() {
            hurry.pull(Reason::Cancelled);
        }
        let _ = self.channel.end(&hurry);
    }

    fn request_and_wait(
        &mut self,
        settings: &Req,
        response_bytes: u32,
        stop: &Stop,
    ) -> io::Result<Latency> {
        let (started, begun, zero_ns) = (SystemTime::now(), Instant::now(), monotonic_ns());
        let bins = settings.bins;
        let mut times = Histogram::new(0, "Time per req-resp us", bins.low, bins.width, 150);
        let mut side = Side::default();
        let mut latency = stats::Histogram::default();
        let (mut requests, mut timeouts, mut unanswered) = (0, 0, 0);
        let mut number = 0;
        while requests < settings.requests && !stop.is_set() {
            let lengths = (number, settings.request_bytes as usize, response_bytes);
            number += 1;
            let (exchange, length) = match self.channel.response(lengths, zero_ns, stop) {
                Ok(response) => response,
                Err(_) if stop.is_set() => break,
                Err(error)
                    if error.kind() == io::ErrorKind::TimedOut && unanswered < MOST_UNANSWERED =>
                {
                    (timeouts, unanswered) = (timeouts + 1, unanswered + 1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if length != response_bytes as usize {
                let peer = self.channel.peer();
                let why = format!(
                    "{peer}: responses have {length} bytes, {response_bytes} were asked for"
                );
                return Err(io::Error::other(why));
            }
            let took_ns = (exchange.received_ns - exchange.sent_ns).unsigned_abs();
            times.record((took_ns / 1_000) as i64);
            latency.record(took_ns);
            (requests, unanswered) = (requests + 1, 0);
            if !settings.pause.is_zero() {
                let _ = self.channel.pause(settings.pause, stop);
            }
        }
        side.counts.transactions = requests.into();
        side.counts.sent = Bytes(number as u64 * u64::from(settings.request_bytes));
        side.counts.received = Bytes(u64::from(requests) * u64::from(response_bytes));
        side.elapsed = Some(begun.elapsed());
        side.latency = Some(latency);
        let ended = if requests < settings.requests {
            Ended::Cancelled
        } else {
            Ended::Count
        };
        Ok(Latency {
            request_bytes: settings.request_bytes,
            response_bytes,
            outcome: Outcome::of_flow(settings.plan(response_bytes), started, side, None, ended),
            requests,
            timeouts,
            elapsed: begun.elapsed(),
            times,
        })
    }
}

/// A sender without a control exchange.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    is_v6: bool,
    opened: Opened,
}

impl Sender {
    /// Opens the socket. Nothing is sent yet.
    pub fn open(settings: &Send) -> io::Result<Self> {
        let (socket, peer, opened) =
            connect(&settings.common, &settings.host, settings.local_port)?;
        let is_v6 = peer.is_ipv6();
        Ok(Self {
            socket,
            is_v6,
            opened,
        })
    }

    /// The socket and the process, for the lines before the first result.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Sends the datagrams of one test.
    pub fn send(&self, settings: &Send, load: &Load, stop: &Stop) -> io::Result<Sending> {
        let departures = Departures::run(
            self.socket.as_fd(),
            load,
            monotonic_ns(),
            0,
            self.is_v6,
            stop,
        )?;
        let spaced = &departures.spaced;
        Ok(Sending {
            load: *load,
            sent: spaced.sent,
            send_time: spaced.elapsed,
            here: departures.host.clone(),
            outcome: departures.outcome(settings.plan(load), None),
        })
    }
}

fn connect(
    common: &Common,
    host: &str,
    local_port: Option<u16>,
) -> io::Result<(Socket, Address, Opened)> {
    let peer = endpoint::find(host, common.port, common.v6)?;
    let bind = peer.anywhere().with_any_port();
    let bind = bind
        .with_port(local_port.unwrap_or(0).into())
        .unwrap_or(bind);
    let (socket, opened) = endpoint::open(common, &bind, Some(&peer))?;
    let opened = Opened {
        peer_name: host.to_owned(),
        bound_port: local_port,
        ..opened
    };
    Ok((socket, peer, opened))
}
