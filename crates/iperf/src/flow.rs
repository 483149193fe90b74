//! The plan of a flow, which both ends make alike.

use model::{
    BufferPlan, ByteOrder, DatagramFormat, FlowPlan, Limit, Pacing, SizeRule, SocketOptions, Stamp,
    StampClock, StampUnit, Transport, Workload,
};

/// The layout of a UDP test's datagrams, with numbers of 64 bits if `wide`.
pub(crate) fn numbering(wide: bool) -> DatagramFormat {
    let clock = StampClock::Wall;
    DatagramFormat {
        number_at: 0,
        high_word_at: wide.then_some(12),
        first: 1,
        stamp: Some(Stamp {
            at: 4,
            clock,
            unit: StampUnit::SecondsAndMicros,
        }),
        ends_negative: true,
        order: ByteOrder::BigEndian,
    }
}

/// A flow of such a length and rate, whose sender ends it. Both ends do the same in their directions.
pub(crate) fn flow(
    transport: Transport,
    length: u32,
    rate: Option<f64>,
    limit: Limit,
    socket: &SocketOptions,
) -> FlowPlan {
    let mut flow =
        FlowPlan::of(transport, Workload::send()).with_buffers(BufferPlan::message(length));
    flow.limit = limit;
    flow.here.socket = socket.clone();
    flow.here.pacing = rate.and_then(|bits| Pacing::of_bits(bits as u64, length, 1));
    if transport == Transport::Udp {
        flow.datagrams = Some(numbering(true));
    }
    flow
}

/// Bytes of a send call of such a flow.
pub(crate) fn length_of(flow: &FlowPlan) -> u32 {
    match flow.here.send.size {
        SizeRule::Bytes(length) => length,
        SizeRule::SocketBuffer => 0,
    }
}

/// The rate that a plan's schedule keeps.
pub(crate) fn bits_per_second(flow: &FlowPlan) -> Option<f64> {
    let pacing = flow.here.pacing?;
    let bits = 8.0 * f64::from(length_of(flow)) * pacing.burst as f64;
    Some(bits / pacing.interval.as_secs_f64())
}

pub(crate) fn receive_length(flow: &FlowPlan) -> usize {
    match flow.here.receive.size {
        SizeRule::Bytes(bytes) => bytes as usize,
        SizeRule::SocketBuffer => 128 << 10,
    }
}
