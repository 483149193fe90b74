//! Converts the parameters of a test to the flow plan of one end and direction.

use std::path::PathBuf;
use std::time::Duration;

use model::{
    BufferPlan, ByteOrder, DatagramFormat, EndpointPlan, FlowPlan, IoMethod, Limit, Pacing,
    SizeRule, SocketOptions, Stamp, StampClock, StampUnit, Transport, WidthRule, Workload,
};

use crate::options::CommonSettings;
use crate::wire::{Parameters, Protocol};

/// Settings of this end that are not part of the exchanged parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalSettings {
    /// The network interface of all sockets.
    pub(crate) device: Option<String>,
    /// TCP_USER_TIMEOUT, in milliseconds.
    pub(crate) send_timeout_ms: Option<u32>,
    /// The CPU to which this end's threads are bound.
    pub(crate) cpu: Option<u32>,
    /// The file to send, or to write received data to.
    pub(crate) file: Option<PathBuf>,
}

impl LocalSettings {
    /// Takes the local settings from the command line's settings.
    pub(crate) fn from_settings(common: &CommonSettings) -> Self {
        Self {
            device: common.device.clone(),
            send_timeout_ms: common.send_timeout_ms,
            cpu: common.cpu,
            file: common.file.clone(),
        }
    }
}

/// Returns the transport of the data streams.
pub(crate) fn transport(parameters: &Parameters) -> Transport {
    match parameters.protocol {
        Protocol::Tcp if parameters.multipath => Transport::Mptcp,
        Protocol::Tcp => Transport::Tcp,
        Protocol::Udp => Transport::Udp,
        Protocol::Sctp => Transport::Sctp,
    }
}

/// Returns this end's flow plan of one stream. `sends` is whether this end sends.
pub(crate) fn flow(parameters: &Parameters, sends: bool, local: &LocalSettings) -> FlowPlan {
    let workload = if sends {
        Workload::send()
    } else {
        Workload::receive()
    };
    let block = parameters.block_size();
    let is_udp = parameters.protocol == Protocol::Udp;
    let buffers = BufferPlan {
        size: SizeRule::Bytes(block),
        width: WidthRule::Buffers(1),
        alignment: 4096,
        offset: 0,
    };
    let burst = parameters.burst.unwrap_or(1).into();
    let pacing = Pacing::from_bit_rate(parameters.rate, block, burst);
    let sender = EndpointPlan {
        send_from_file: (parameters.zero_copy && !is_udp) || local.file.is_some(),
        send_file_once: local.file.is_some(),
        fill: local.file.clone(),
        pacing,
        ..EndpointPlan::default()
    };
    let endpoint = EndpointPlan {
        socket: socket(parameters, local),
        send: buffers,
        receive: buffers,
        io: match (parameters.offload && is_udp, parameters.skip_copy && !sends) {
            (true, _) => IoMethod::Gso,
            (_, true) => IoMethod::Trunc,
            _ => IoMethod::OnePerCall,
        },
        cpu: local.cpu,
        measure_cpu: true,
        ..if sends {
            sender
        } else {
            EndpointPlan::default()
        }
    };
    let with_64_bit_number = DatagramFormat {
        number_offset: 12,
        high_word_offset: Some(8),
        first_number: 1,
        stamp: Some(Stamp {
            offset: 0,
            clock: StampClock::Monotonic,
            unit: StampUnit::SecondsAndMicros,
        }),
        ends_negative: false,
        byte_order: ByteOrder::BigEndian,
    };
    let with_32_bit_number = DatagramFormat {
        number_offset: 8,
        high_word_offset: None,
        ..with_64_bit_number
    };
    FlowPlan {
        limit: limit(parameters),
        datagrams: is_udp.then_some(if parameters.udp_counters_64bit {
            with_64_bit_number
        } else {
            with_32_bit_number
        }),
        local: endpoint,
        ..FlowPlan::new(transport(parameters), workload)
    }
}

fn limit(parameters: &Parameters) -> Limit {
    match (parameters.time, crate::total_bytes(parameters)) {
        (0, None) => Limit::Unlimited,
        (0, Some(bytes)) => Limit::Bytes(bytes),
        (seconds, _) => Limit::Time(Duration::from_secs(seconds.into())),
    }
}

fn socket(parameters: &Parameters, local: &LocalSettings) -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: parameters.window,
        receive_buffer_bytes: parameters.window,
        no_delay: parameters.no_delay,
        max_segment_bytes: parameters.max_segment,
        type_of_service: parameters.type_of_service,
        congestion_control: parameters.congestion.clone(),
        connect_datagrams: true,
        max_pacing_bytes_per_second: parameters.fq_rate.map(|bits| bits / 8),
        device: local.device.clone(),
        do_not_fragment: parameters.do_not_fragment && parameters.protocol == Protocol::Udp,
        user_timeout_ms: local.send_timeout_ms,
        ..SocketOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sending_end_paces_and_numbers_datagrams() {
        let parameters = Parameters {
            protocol: Protocol::Udp,
            rate: 1_000_000,
            block_bytes: Some(1000),
            zero_copy: true,
            ..Parameters::default()
        };
        let flow = flow(&parameters, true, &LocalSettings::default());
        let pacing = flow.local.pacing.unwrap();
        assert_eq!(
            (pacing.burst, pacing.interval),
            (1, Duration::from_millis(8))
        );
        assert!(!flow.local.send_from_file && flow.datagrams.unwrap().number_offset == 8);
        let receiver = super::flow(&parameters, false, &LocalSettings::default());
        assert_eq!(receiver.local.pacing, None);
        let sized = Parameters {
            time: 0,
            blocks: 3,
            ..Parameters::default()
        };
        assert_eq!(limit(&sized), Limit::Bytes(3 * 131_072));
    }
}
