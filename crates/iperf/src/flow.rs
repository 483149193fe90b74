//! The plan of a flow, which client and server build in the same way.

use model::{
    BufferPlan, ByteOrder, DatagramFormat, FlowPlan, Limit, Pacing, SizeRule, SocketOptions, Stamp,
    StampClock, StampUnit, Transport, Workload,
};

/// Returns the layout of a UDP test's datagrams, with numbers of 64 or 32 bits.
pub(crate) fn datagram_format(has_wide_numbers: bool) -> DatagramFormat {
    let clock = StampClock::Wall;
    DatagramFormat {
        number_offset: 0,
        high_word_offset: has_wide_numbers.then_some(12),
        first_number: 1,
        stamp: Some(Stamp {
            offset: 4,
            clock,
            unit: StampUnit::SecondsAndMicros,
        }),
        ends_negative: true,
        byte_order: ByteOrder::BigEndian,
    }
}

/// Returns the plan of a flow that this end sends.
///
/// `length` is the size of a send call in bytes. `rate` is in bits per second.
pub(crate) fn flow_plan(
    transport: Transport,
    length: u32,
    rate: Option<f64>,
    limit: Limit,
    socket: &SocketOptions,
) -> FlowPlan {
    let mut flow =
        FlowPlan::new(transport, Workload::send()).with_buffers(BufferPlan::message(length));
    flow.limit = limit;
    flow.local.socket = socket.clone();
    flow.local.pacing = rate.and_then(|bits| Pacing::from_bit_rate(bits as u64, length, 1));
    if transport == Transport::Udp {
        flow.datagrams = Some(datagram_format(true));
    }
    flow
}

/// Returns the size of a send call in bytes.
pub(crate) fn send_length(flow: &FlowPlan) -> u32 {
    match flow.local.send.size {
        SizeRule::Bytes(length) => length,
        SizeRule::SocketBuffer => 0,
    }
}

/// Returns the rate of the plan's pacing; `None` without pacing.
pub(crate) fn bits_per_second(flow: &FlowPlan) -> Option<f64> {
    let pacing = flow.local.pacing?;
    let bits = 8.0 * f64::from(send_length(flow)) * pacing.burst as f64;
    Some(bits / pacing.interval.as_secs_f64())
}

pub(crate) fn receive_length(flow: &FlowPlan) -> usize {
    match flow.local.receive.size {
        SizeRule::Bytes(bytes) => bytes as usize,
        SizeRule::SocketBuffer => 128 << 10,
    }
}
