//! The flow that a client's header requests a server to send.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use engine::ResourceAmounts;
use model::{FlowPlan, Limit, SocketOptions, Transport};
use server::ClientTest;

use crate::flow::flow_plan;
use crate::options::{PeriodicBursts, SendMode, Settings};
use crate::udp::MAX_PAYLOAD_BYTES;
use crate::wire::flags::{self, upper};
use crate::wire::{DatagramHeader, Hello, SendAmount};

/// The maximum size of a send call or bounceback message that a client may request, in bytes.
pub(super) const MAX_SEND_LENGTH: u32 = 16 << 20;

/// The longest pause between two send calls at a low rate. A call sends less if necessary, so that
/// the flow moves data within its idle timeout.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The longest time and the highest rate, in bits per second, that a UDP client may request.
///
/// The source address of the request may be forged.
const MAX_TIME: Duration = Duration::from_secs(3600);
const MAX_RATE: f64 = 10e9;

/// The default time and rate of stock's UDP clients.
const DEFAULT_TIME: Duration = Duration::from_secs(10);
const DEFAULT_RATE: f64 = 1_048_576.0;

/// The socket options of a server's sender, for a test that the client requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderOptions {
    /// `--tos-override`.
    pub(crate) tos_override: Option<u8>,
}

impl SenderOptions {
    /// Returns the plan of the flow that a client requests this end to send.
    pub(crate) fn requested_plan(
        self,
        transport: Transport,
        settings: &Settings,
        hello: &Hello,
    ) -> FlowPlan {
        let is_udp = transport == Transport::Udp;
        let length = match hello.length {
            0 => settings.length,
            length if is_udp => length.clamp(DatagramHeader::WIDE_LEN as u32, MAX_PAYLOAD_BYTES),
            length => length.min(MAX_SEND_LENGTH),
        };
        let rate = (hello.extension).and_then(|extension| extension.requested_rate(length));
        let rate = if is_udp {
            Some(rate.unwrap_or(DEFAULT_RATE).min(MAX_RATE))
        } else {
            rate
        };
        let length = match rate {
            Some(rate) if !is_udp => {
                length.min(((rate / 8.0 * MAX_PAUSE.as_secs_f64()) as u32).max(1))
            }
            _ => length,
        };
        let limit = match hello.amount {
            SendAmount::Bytes(0) if is_udp => Limit::Time(DEFAULT_TIME),
            SendAmount::Bytes(0) => Limit::Unlimited,
            SendAmount::Bytes(bytes) => Limit::Bytes(bytes.into()),
            SendAmount::Time(time) if is_udp => Limit::Time(time.min(MAX_TIME)),
            SendAmount::Time(time) => Limit::Time(time),
        };
        let requested_tos = hello.extension.map(|extension| extension.type_of_service);
        let socket = self.socket_options(&settings.socket, requested_tos);
        flow_plan(transport, length, rate, limit, &socket)
    }

    /// Returns the options of a sender's socket.
    ///
    /// The type of service is the first of `--tos-override`, the server's `-S`, and the client's
    /// request. A request of 0 counts as none.
    fn socket_options(self, options: &SocketOptions, requested_tos: Option<u8>) -> SocketOptions {
        let requested_tos = requested_tos.filter(|service| *service != 0);
        SocketOptions {
            type_of_service: self
                .tos_override
                .or(options.type_of_service)
                .or(requested_tos),
            ..options.clone()
        }
    }

    /// Sets the type of service of an established connection.
    pub(crate) fn set_type_of_service(
        socket: BorrowedFd<'_>,
        options: &SocketOptions,
        is_ipv6: bool,
    ) {
        if let Some(service) = options.type_of_service {
            // A failure is not fatal: the test runs without the option.
            let _ = sys::option::set_type_of_service(socket, is_ipv6, service);
        }
    }
}

/// Returns the description of a test for the registry of running tests.
pub(crate) fn describe_test(protocol: &str, hello: Option<&Hello>) -> ClientTest {
    let has = |bits| hello.is_some_and(|hello| hello.has_any_flag(bits));
    let (name, directions) = match hello {
        _ if has(upper::REVERSE) => (" reverse", 1),
        _ if has(upper::FULL_DUPLEX) => (" full duplex", 2),
        Some(hello) if hello.flags & flags::VERSION1 != 0 => (" both ways", 2),
        _ => ("", 1),
    };
    let duration = hello.and_then(|hello| match hello.amount {
        SendAmount::Time(time) => Some(time),
        SendAmount::Bytes(_) => None,
    });
    ClientTest {
        name: format!("{protocol}{name}"),
        duration,
        resources: ResourceAmounts {
            // The session's thread runs one direction.
            threads: directions - 1,
            streams: directions,
            // One for the data, and a copy for the statistics.
            descriptors: 2 * directions,
            memory_bytes: 0,
        },
        ..ClientTest::default()
    }
}

/// Returns the frames or bursts that a header announces or requests.
pub(super) fn requested_bursts(hello: &Hello) -> Option<PeriodicBursts> {
    let is_isochronous = hello.has_any_flag(upper::ISOCHRONOUS);
    PeriodicBursts::from_request(hello.bursts.as_ref()?, is_isochronous)
}

/// Returns the send mode that a client requests of a TCP sender.
pub(super) fn tcp_send_mode(hello: &Hello, bursts: Option<PeriodicBursts>) -> SendMode {
    let extension = hello.extension.unwrap_or_default();
    let prefetch = hello.has_any_flag(upper::PREFETCH) && extension.prefetch > 0;
    SendMode {
        periodic_bursts: bursts,
        prefetch: prefetch.then_some(extension.prefetch),
        has_burst_records: bursts.is_some() || hello.has_any_flag(upper::TRIP_TIMES),
        ..SendMode::default()
    }
}

/// Returns the send mode that a client requests of a UDP sender.
pub(crate) fn udp_send_mode(hello: &Hello) -> SendMode {
    let bursts = hello
        .bursts
        .filter(|_| hello.has_any_flag(upper::ISOCHRONOUS));
    let bursts = bursts.and_then(|request| PeriodicBursts::from_request(&request, true));
    let is_within_max_rate =
        |bursts: &PeriodicBursts| bursts.mean * 8.0 / bursts.period.as_secs_f64() <= MAX_RATE;
    SendMode {
        periodic_bursts: bursts.filter(is_within_max_rate),
        ..SendMode::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Extension;

    #[test]
    fn a_flow_at_a_low_rate_sends_small_parts() {
        let words = ["-s"].map(Into::into);
        let settings = crate::options::parse_iperf("iperf", words, |_| None).unwrap();
        for (bits_per_second, length, expected) in [
            (1, 0, 1),
            (8_000, 0, 10_000),
            (8_000, 1_000, 1_000),
            (1_000_000, 1 << 20, 1 << 20),
            (0, 1 << 20, 1 << 20),
        ] {
            let hello = Hello {
                length,
                extension: Some(Extension {
                    rate: bits_per_second,
                    ..Extension::default()
                }),
                ..Hello::default()
            };
            let options = SenderOptions { tos_override: None };
            let plan = options.requested_plan(Transport::Tcp, &settings, &hello);
            assert_eq!(
                crate::flow::send_length(&plan),
                expected,
                "{bits_per_second}"
            );
            let interval = plan.local.pacing.map(|pacing| pacing.interval);
            assert!(interval.unwrap_or_default() <= MAX_PAUSE, "{interval:?}");
        }
    }

    #[test]
    fn rates_are_in_bits_or_in_datagrams() {
        for (rate, upper, expected) in [
            (0, 0, None),
            (0, upper::RATE_IN_DATAGRAMS, None),
            (8_000, 0, Some(8_000.0)),
            (50, upper::RATE_IN_DATAGRAMS, Some(50.0 * 8.0 * 1470.0)),
        ] {
            let extension = Extension {
                upper,
                rate,
                ..Extension::default()
            };
            assert_eq!(
                extension.requested_rate(1470),
                expected,
                "{rate} {upper:#x}"
            );
        }
    }
}
