//! What the parameters of a test mean for one end: a model's flow per direction.

use std::path::PathBuf;
use std::time::Duration;

use model::{
    BufferPlan, ByteOrder, DatagramFormat, FlowPlan, Half, IoMethod, Limit, Pacing, SizeRule,
    SocketOptions, Stamp, StampClock, StampUnit, Transport, WidthRule, Workload,
};

use crate::options::Common;
use crate::wire::{Parameters, Protocol};

/// What an end adds to the parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    /// The interface of all sockets.
    pub(crate) device: Option<String>,
    /// TCP_USER_TIMEOUT.
    pub(crate) send_timeout_ms: Option<u32>,
    /// The CPU of the end's threads.
    pub(crate) cpu: Option<u32>,
    /// What is sent, or written.
    pub(crate) file: Option<PathBuf>,
}

impl Own {
    /// What the options say.
    pub(crate) fn of(common: &Common) -> Self {
        Self {
            device: common.device.clone(),
            send_timeout_ms: common.send_timeout_ms,
            cpu: common.cpu,
            file: common.file.clone(),
        }
    }
}

/// Returns what carries the data.
pub(crate) fn transport(parameters: &Parameters) -> Transport {
    match parameters.protocol {
        Protocol::Tcp if parameters.multipath => Transport::Mptcp,
        Protocol::Tcp => Transport::Tcp,
        Protocol::Udp => Transport::Udp,
        Protocol::Sctp => Transport::Sctp,
    }
}

/// Returns the flow of one stream, as the end that `sends` or receives sees it.
pub(crate) fn flow(parameters: &Parameters, sends: bool, own: &Own) -> FlowPlan {
    let workload = if sends {
        Workload::send()
    } else {
        Workload::receive()
    };
    let block = parameters.block();
    let udp = parameters.protocol == Protocol::Udp;
    let buffers = BufferPlan {
        size: SizeRule::Bytes(block),
        width: WidthRule::Buffers(1),
        alignment: 4096,
        offset: 0,
    };
    let burst = parameters.burst.unwrap_or(1).into();
    let pacing = Pacing::of_bits(parameters.rate, block, burst);
    let sender = Half {
        send_from_file: (parameters.zero_copy && !udp) || own.file.is_some(),
        send_file_once: own.file.is_some(),
        fill: own.file.clone(),
        pacing,
        ..Half::default()
    };
    let here = Half {
        socket: socket(parameters, own),
        send: buffers,
        receive: buffers,
        io: match (parameters.offload && udp, parameters.skip_copy && !sends) {
            (true, _) => IoMethod::Gso,
            (_, true) => IoMethod::Trunc,
            _ => IoMethod::Plain,
        },
        cpu: own.cpu,
        measure_cpu: true,
        ..if sends { sender } else { Half::default() }
    };
    let wide = DatagramFormat {
        number_at: 12,
        high_word_at: Some(8),
        first: 1,
        stamp: Some(Stamp {
            at: 0,
            clock: StampClock::Monotonic,
            unit: StampUnit::SecondsAndMicros,
        }),
        ends_negative: false,
        order: ByteOrder::BigEndian,
    };
    let narrow = DatagramFormat {
        number_at: 8,
        high_word_at: None,
        ..wide
    };
    FlowPlan {
        limit: limit(parameters),
        datagrams: udp.then_some(if parameters.wide_counters {
            wide
        } else {
            narrow
        }),
        here,
        ..FlowPlan::of(transport(parameters), workload)
    }
}

fn limit(parameters: &Parameters) -> Limit {
    match (parameters.time, parameters.bytes, parameters.blocks) {
        (0, 0, 0) => Limit::Unlimited,
        (0, 0, blocks) => Limit::Bytes(blocks.saturating_mul(parameters.block().into())),
        (0, bytes, _) => Limit::Bytes(bytes),
        (seconds, ..) => Limit::Time(Duration::from_secs(seconds.into())),
    }
}

fn socket(parameters: &Parameters, own: &Own) -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: parameters.window,
        receive_buffer_bytes: parameters.window,
        no_delay: parameters.no_delay,
        max_segment_bytes: parameters.max_segment,
        type_of_service: parameters.type_of_service,
        congestion_control: parameters.congestion.clone(),
        connect_datagrams: true,
        max_pacing_bytes_per_second: parameters.fq_rate.map(|bits| bits / 8),
        device: own.device.clone(),
        do_not_fragment: parameters.do_not_fragment && parameters.protocol == Protocol::Udp,
        user_timeout_ms: own.send_timeout_ms,
        ..SocketOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_paces_and_numbers_what_it_sends() {
        let parameters = Parameters {
            protocol: Protocol::Udp,
            rate: 1_000_000,
            block_bytes: Some(1000),
            zero_copy: true,
            ..Parameters::default()
        };
        let flow = flow(&parameters, true, &Own::default());
        let pacing = flow.here.pacing.unwrap();
        assert_eq!(
            (pacing.burst, pacing.interval),
            (1, Duration::from_millis(8))
        );
        assert!(!flow.here.send_from_file && flow.datagrams.unwrap().number_at == 8);
        let receiver = super::flow(&parameters, false, &Own::default());
        assert_eq!(receiver.here.pacing, None);
        let sized = Parameters {
            time: 0,
            blocks: 3,
            ..Parameters::default()
        };
        assert_eq!(limit(&sized), Limit::Bytes(3 * 131_072));
    }
}
