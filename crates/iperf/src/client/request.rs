//! The test header, with which a client requests a test from the server.

use std::sync::Arc;
use std::time::Duration;

use model::Limit;

use super::ClientRun;
use crate::event::ConnectionInfo;
use crate::options::{Direction, PeriodicBursts, PermitKey};
use crate::timing::{FlowTimings, TimingKind};
use crate::wire::{
    Extension, Hello, MAX_CONGESTION_CONTROL_BYTES, MAX_TRANSFER_ID, SendAmount, TestStart,
    WallTime, flags,
};

impl ClientRun<'_> {
    /// Adds the requested features to the connection facts.
    pub(crate) fn add_requested_features(&self, connection: &mut ConnectionInfo) {
        let client = self.client;
        connection.congestion_control = self.requested_congestion_control();
        connection.has_trip_times = client.trip_times;
        connection.upper_flags = self.upper_flags() & !flags::upper::BURSTS;
        if self.client.start_time.at.is_some() {
            connection.upper_flags |= flags::upper::EPOCH_START;
        }
        connection.prefetch = client.send_mode.prefetch;
        connection.type_of_service = self.settings.socket.type_of_service;
    }

    /// Returns the test header of flow `number`.
    pub(crate) fn hello(&self, number: u32) -> Hello {
        use flags::upper;
        let (settings, client) = (self.settings, self.client);
        let is_udp = settings.is_udp();
        let mut bits = flags::EXTEND;
        let upper_bits = self.upper_flags();
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
        let server_sends = client.direction.sends_from_server();
        // The header describes isochronous frames only if the server sends them.
        let bursts = client.send_mode.periodic_bursts;
        let requested_bursts = bursts.filter(|bursts| server_sends || !bursts.is_isochronous);
        let start_bits = upper_bits
            & (upper::TRIP_TIMES | upper::FQ_RATE | upper::ISOCHRONOUS | upper::EPOCH_START);
        let scheduled_start = client.start_time.at.map(WallTime::after_epoch);
        if is_udp {
            bits |= flags::WIDE_NUMBERS;
            bits |= if upper_bits != 0 || scheduled_start.is_some() {
                flags::UDP_TESTS
            } else {
                0
            };
        }
        let key = match &settings.permit_key {
            Some(PermitKey::Key(key)) => Some(key.clone().into_bytes()),
            _ => None,
        };
        bits |= if key.is_some() { flags::KEY } else { 0 };
        let limit = client.plan.flow().map(|flow| flow.limit);
        let congestion_control = self.requested_congestion_control();
        let has_start =
            start_bits != 0 || congestion_control.is_some() || scheduled_start.is_some();
        Hello {
            flags: bits,
            flows: client.plan.flows(),
            transfer_id: Some(number)
                .filter(|number| client.syncs_transfer_id && *number <= MAX_TRANSFER_ID),
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
                    SendAmount::Bytes(u32::try_from(bytes).unwrap_or(u32::MAX))
                }
                Some(Limit::Time(time)) => SendAmount::Time(time),
                _ => SendAmount::Time(Duration::MAX),
            },
            extension: Some(Extension {
                upper: upper_bits,
                version: settings.output.version.wire_version(),
                type_of_service: settings.socket.type_of_service.unwrap_or(0),
                rate: client.requested_rate,
                prefetch: client
                    .send_mode
                    .prefetch
                    .filter(|_| server_sends)
                    .unwrap_or(0),
            }),
            start: has_start.then(|| TestStart {
                at: scheduled_start.unwrap_or_else(WallTime::now),
                fq_rate: fq_rate.unwrap_or(0),
            }),
            bursts: requested_bursts
                .as_ref()
                .map(PeriodicBursts::burst_parameters),
            congestion_control,
            key,
        }
    }

    /// Returns the congestion control that the header requests; `None` if it requests none.
    fn requested_congestion_control(&self) -> Option<String> {
        let layout = self.settings.output.version.layout();
        let name = self.settings.socket.congestion_control.clone();
        name.filter(|name| {
            let length = name.len();
            let is_sent = layout.sends_congestion_control && !self.settings.is_udp();
            is_sent && length <= MAX_CONGESTION_CONTROL_BYTES
        })
    }

    /// Returns the header's upper flags.
    fn upper_flags(&self) -> u16 {
        use flags::upper;
        let (client, is_udp) = (self.client, self.settings.is_udp());
        let socket = &self.settings.socket;
        let flags_scheduled_start = self.settings.output.version.layout().flags_scheduled_start;
        let server_sends = client.direction.sends_from_server();
        let is_isochronous = client
            .send_mode
            .periodic_bursts
            .map(|bursts| bursts.is_isochronous);
        let is_duplex = client.direction == Direction::FullDuplex;
        let mut bits = client.request_flags;
        for (is_set, bit) in [
            (client.direction == Direction::Reverse, upper::REVERSE),
            (is_duplex, upper::FULL_DUPLEX),
            (client.no_udp_fin || (is_duplex && is_udp), upper::NO_FIN),
            (client.trip_times, upper::TRIP_TIMES),
            (socket.max_pacing_bytes_per_second.is_some(), upper::FQ_RATE),
            (is_isochronous == Some(true), upper::ISOCHRONOUS),
            (
                is_isochronous == Some(true) && is_udp && server_sends,
                upper::SETTINGS,
            ),
            (is_isochronous == Some(false), upper::BURSTS),
            (
                client.send_mode.prefetch.is_some() && server_sends,
                upper::PREFETCH,
            ),
            (
                client.start_time.at.is_some() && flags_scheduled_start,
                upper::EPOCH_START,
            ),
        ] {
            bits |= if is_set { bit } else { 0 };
        }
        bits
    }

    /// Returns whether the client reads the burst records in the server's stream.
    pub(super) fn receives_bursts(&self) -> bool {
        let has_records = |bursts: PeriodicBursts| !bursts.is_isochronous;
        self.client.trip_times
            || self
                .client
                .send_mode
                .periodic_bursts
                .is_some_and(has_records)
    }

    /// Returns new timings for a flow; `None` if the test does not time its events.
    pub(crate) fn new_timings(&self, inbound: bool) -> Option<Arc<FlowTimings>> {
        let (send_mode, is_udp) = (&self.client.send_mode, self.settings.is_udp());
        let period = send_mode
            .periodic_bursts
            .map(|bursts| (bursts.is_isochronous, bursts.period));
        let kind = match (inbound, period) {
            (false, Some((true, _))) => TimingKind::Frames,
            (false, _) if send_mode.times_writes => TimingKind::Writes,
            (true, Some((false, period))) if !is_udp => TimingKind::Bursts { period },
            (true, Some((true, _))) if self.client.trip_times => TimingKind::Frames,
            (true, _) if self.client.trip_times && !is_udp => TimingKind::TripTimes,
            (true, _) if is_udp && self.settings.output.bins.is_some() => TimingKind::Datagrams,
            _ => return None,
        };
        Some(Arc::new(FlowTimings::new(kind, self.settings.output.bins)))
    }
}
