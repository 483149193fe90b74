//! The header, by which a client asks the server for a test.

use std::sync::Arc;
use std::time::Duration;

use model::Limit;

use super::Run;
use crate::event::Connection;
use crate::options::{Direction, Frames, PermitKey};
use crate::tally::{Kind, Tallies};
use crate::wire::{Amount, Extension, Hello, Start, WallTime, flags};

impl Run<'_> {
    /// Adds the requested features to a connection line.
    pub(crate) fn note(&self, connection: &mut Connection) {
        let client = self.client;
        connection.has_trip_times = client.trip_times;
        connection.upper = self.upper() & !flags::upper::BURSTS;
        connection.prefetch = client.shape.prefetch;
        let service = self.settings.socket.type_of_service.unwrap_or(0);
        // Stock prints it in this place.
        connection.service = Some(if client.direction == Direction::Reverse {
            (0, service)
        } else {
            (service, 0)
        });
    }

    /// Returns the header of this client.
    pub(crate) fn hello(&self) -> Hello {
        use flags::upper;
        let (settings, client) = (self.settings, self.client);
        let is_udp = settings.is_udp();
        let mut bits = flags::EXTEND;
        let upper_bits = self.upper();
        bits |= match client.direction {
            Direction::Forward => 0,
            Direction::Reverse | Direction::FullDuplex => flags::VERSION2,
            Direction::Dual => flags::VERSION1 | flags::RUN_NOW,
            Direction::TradeOff => flags::VERSION1,
        };
        if client.peer_detect {
            bits |= flags::VERSION2 | flags::PEER_DETECT;
        }
        let fq_rate = settings.socket.max_pacing_bytes_per_second;
        let is_asked = client.direction.sends_from_server();
        let frames = client.shape.frames;
        let bursts = frames.filter(|frames| is_asked || !frames.is_isochronous);
        let has_start = upper_bits
            & (upper::TRIP_TIMES | upper::FQ_RATE | upper::ISOCHRONOUS | upper::EPOCH_START);
        let scheduled = client.begin.at.map(WallTime::after_epoch);
        if is_udp {
            bits |= flags::WIDE_NUMBERS;
            bits |= if upper_bits != 0 { flags::UDP_TESTS } else { 0 };
        }
        let key = match &settings.permit_key {
            Some(PermitKey::This(key)) => Some(key.clone().into_bytes()),
            _ => None,
        };
        bits |= if key.is_some() { flags::KEY } else { 0 };
        let limit = client.plan.flow().map(|flow| flow.limit);
        Hello {
            flags: bits,
            flows: client.plan.flows(),
            port: if client.direction.has_connection_back() {
                client.listen_port.into()
            } else {
                settings.ports.0.into()
            },
            length: if client.has_length {
                settings.length
            } else {
                0
            },
            window: 0,
            amount: match limit {
                Some(Limit::Bytes(bytes)) => {
                    Amount::Bytes(u32::try_from(bytes).unwrap_or(u32::MAX))
                }
                Some(Limit::Time(time)) => Amount::Time(time),
                _ => Amount::Time(Duration::MAX),
            },
            extension: Some(Extension {
                upper: upper_bits,
                type_of_service: settings.socket.type_of_service.unwrap_or(0),
                rate: client.asked_rate,
                prefetch: client.shape.prefetch.filter(|_| is_asked).unwrap_or(0),
                ..Extension::default()
            }),
            start: (has_start != 0).then(|| Start {
                at: scheduled.unwrap_or_else(WallTime::now),
                fq_rate: fq_rate.unwrap_or(0),
            }),
            bursts: bursts.as_ref().map(Frames::ask),
            key,
        }
    }

    /// Returns the header's upper flags.
    fn upper(&self) -> u16 {
        use flags::upper;
        let (client, is_udp) = (self.client, self.settings.is_udp());
        let socket = &self.settings.socket;
        let is_asked = client.direction.sends_from_server();
        let isochronous = client.shape.frames.map(|frames| frames.is_isochronous);
        let is_duplex = client.direction == Direction::FullDuplex;
        let mut bits = client.asks;
        for (is_set, bit) in [
            (client.direction == Direction::Reverse, upper::REVERSE),
            (is_duplex, upper::FULL_DUPLEX),
            (client.no_udp_fin || (is_duplex && is_udp), upper::NO_FIN),
            (client.trip_times, upper::TRIP_TIMES),
            (socket.max_pacing_bytes_per_second.is_some(), upper::FQ_RATE),
            (isochronous == Some(true), upper::ISOCHRONOUS),
            (
                isochronous == Some(true) && is_udp && is_asked,
                upper::SETTINGS,
            ),
            (isochronous == Some(false), upper::BURSTS),
            (client.shape.prefetch.is_some() && is_asked, upper::PREFETCH),
            (client.begin.at.is_some(), upper::EPOCH_START),
        ] {
            bits |= if is_set { bit } else { 0 };
        }
        bits
    }

    /// Whether this end times the records in the bursts of the server's stream.
    pub(super) fn receives_bursts(&self) -> bool {
        let bursts = |frames: Frames| !frames.is_isochronous;
        self.client.trip_times || self.client.shape.frames.is_some_and(bursts)
    }

    /// Returns new tallies of bursts, frames or calls; `None` if the test has none.
    pub(crate) fn tallies(&self, inbound: bool) -> Option<Arc<Tallies>> {
        let (shape, is_udp) = (&self.client.shape, self.settings.is_udp());
        let period = shape
            .frames
            .map(|frames| (frames.is_isochronous, frames.period));
        let kind = match (inbound, period) {
            (false, Some((true, _))) => Kind::Frames,
            (false, _) if shape.times_writes => Kind::Writes,
            (true, Some((false, period))) if !is_udp => Kind::Bursts { period },
            (true, Some((true, _))) if self.client.trip_times => Kind::Frames,
            (true, _) if self.client.trip_times && !is_udp => Kind::TripTimes,
            (true, _) if is_udp && self.settings.print.bins.is_some() => Kind::Datagrams,
            _ => return None,
        };
        let width = self.settings.print.bins.map(|bins| bins.width);
        Some(Arc::new(Tallies::new(kind, width)))
    }
}
