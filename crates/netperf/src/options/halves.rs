//! What each end does: sockets, buffers, CPU.

use std::path::PathBuf;

use model::{
    BufferPlan, Half, IdleLoop, SizeRule, SocketOptions, Touch, Transport, Wait, WidthRule,
};

use super::global::Global;
use super::test::TestOptions;
use super::value::Pair;
use super::{Direction, Test};
use crate::conventions::{DEFER_ACCEPT_SECONDS, pacing};

/// This end's half and the peer's.
pub(super) fn halves(
    test: Test,
    transport: Transport,
    direction: Direction,
    global: &Global,
    options: &TestOptions,
) -> (Half, Half) {
    let routing = options
        .routing
        .unwrap_or(transport != Transport::Udp || direction.is_transactional());
    let messages = messages(test, direction, options);
    let asks = options.output.as_ref();
    let mut here = Half {
        count_retransmits: direction.connection
            && transport.has_tcp_options()
            && asks.is_some_and(|(_, selected)| selected.needs.retransmits),
        ..here(test, routing, &messages, global, options)
    };
    // Else each datagram would have its path looked up.
    here.socket.connect_datagrams |= transport == Transport::UnixDatagram;
    let there = there(test, routing, &messages, global, options);
    (here, there)
}

/// Bytes of a request and of a response, where sizes are those. As in the stock tool, `-r` outranks
/// `-m` and `-M` on a stream, too, and TCP_CC carries the sizes though it moves no data.
fn messages(test: Test, direction: Direction, options: &TestOptions) -> Pair<Option<u32>> {
    let typed = options.sizes.clone();
    if (direction.transmit && direction.receive) || test == Test::TcpCc {
        return Pair {
            first: typed.first.or(Some(1)),
            second: typed.second.or(Some(1)),
        };
    }
    match test {
        Test::TcpSendfile | Test::TcpMss => Pair::of(None),
        _ => typed,
    }
}

fn here(
    test: Test,
    routing: bool,
    messages: &Pair<Option<u32>>,
    global: &Global,
    options: &TestOptions,
) -> Half {
    Half {
        socket: SocketOptions {
            send_buffer_bytes: options.local_buffers.first,
            receive_buffer_bytes: options.local_buffers.second,
            no_delay: options.no_delay,
            cork: options.cork,
            max_segment_bytes: options.max_segment,
            defer_accept_seconds: None,
            fast_open: options.fast_open,
            keep_alive: global.keep_alive,
            dont_route: !routing,
            priority: global.priority.first.map(u32::cast_signed),
            type_of_service: global.type_of_service.first,
            congestion_control: options.congestion_control.first.clone(),
            connect_datagrams: options.connect_datagrams,
            answer_from_destination: false,
            receive_timeout: options.receive_timeout,
            debug: options.debug,
            multicast_ttl: options.multicast_ttl,
            non_blocking: options.of_family.non_blocking,
            send_window_frames: options.of_family.local_window.first,
            receive_window_frames: options.of_family.local_window.second,
        },
        send: BufferPlan {
            size: size(messages.first, options.send_size.first),
            width: width(messages.first, send_width(global, options)),
            alignment: global.local_alignment.first,
            offset: global.local_offset.first,
        },
        receive: BufferPlan {
            size: size(messages.second, options.receive_size.second),
            width: width(messages.second, global.width.second),
            alignment: global.local_alignment.second,
            offset: global.local_offset.second,
        },
        fill: global.fill.first.as_ref().map(PathBuf::from),
        send_from_file: test == Test::TcpSendfile,
        discard_in_kernel: options.copy_avoidance,
        io: global.io,
        write_instead_of_send: options.write_instead_of_send,
        pacing: pacing(
            global.pace_burst.first,
            global.pace_interval_us.first,
            wait(global.spin.first),
        ),
        touch: touch(&global.touch.first),
        cpu: global.cpu.first,
        measure_cpu: global.measure_cpu.first,
        // Settled in `halves`.
        count_retransmits: false,
        idle_loop: idle_loop(global, global.cpu_rate.local),
    }
}

fn there(
    test: Test,
    routing: bool,
    messages: &Pair<Option<u32>>,
    global: &Global,
    options: &TestOptions,
) -> Half {
    // The protocol has one bit for "may route" and "tell the congestion control algorithm".
    let routing = routing
        || options
            .output
            .as_ref()
            .is_some_and(|(_, selected)| selected.needs.peer_congestion_control);
    Half {
        socket: SocketOptions {
            send_buffer_bytes: options.remote_buffers.first,
            receive_buffer_bytes: options.remote_buffers.second,
            no_delay: options.no_delay,
            defer_accept_seconds: options.defer_accept.then_some(DEFER_ACCEPT_SECONDS),
            fast_open: options.fast_open,
            // The classic requests have no word for it.
            keep_alive: global.keep_alive && !test.is_classic(),
            dont_route: !routing,
            priority: global.priority.second.map(u32::cast_signed),
            type_of_service: global.type_of_service.second,
            congestion_control: options.congestion_control.second.clone(),
            answer_from_destination: options.answer_from_destination,
            non_blocking: options.of_family.non_blocking,
            send_window_frames: options.of_family.remote_window.first,
            receive_window_frames: options.of_family.remote_window.second,
            ..SocketOptions::default()
        },
        send: BufferPlan {
            size: size(messages.second, options.send_size.second),
            width: width(messages.second, send_width(global, options)),
            alignment: global.remote_alignment.first,
            offset: global.remote_offset.first,
        },
        receive: BufferPlan {
            size: size(messages.first, options.receive_size.first),
            width: width(messages.first, global.width.second),
            alignment: global.remote_alignment.second,
            offset: global.remote_offset.second,
        },
        fill: global.fill.second.as_ref().map(PathBuf::from),
        send_from_file: false,
        discard_in_kernel: options.copy_avoidance,
        io: global.io,
        write_instead_of_send: false,
        pacing: pacing(
            global.pace_burst.second,
            global.pace_interval_us.second,
            wait(global.spin.second),
        ),
        touch: touch(&global.touch.second),
        cpu: global.cpu.second,
        measure_cpu: global.measure_cpu.second,
        // The accepting end closes first, when it cannot know yet.
        count_retransmits: false,
        idle_loop: idle_loop(global, global.cpu_rate.remote),
    }
}

fn wait(spin: bool) -> Wait {
    if spin { Wait::Spin } else { Wait::Sleep }
}

/// `-k` or `-K`: the same for both directions, but that nothing is read before it is sent.
fn touch(counts: &Pair<Option<u32>>) -> Touch {
    Touch {
        send_dirty_bytes: counts.first,
        receive_dirty_bytes: counts.first,
        receive_clean_bytes: counts.second,
    }
}

/// A calibration value that was given is not found out again.
fn idle_loop(global: &Global, rate: f32) -> Option<IdleLoop> {
    let given = Some(f64::from(rate)).filter(|rate| *rate > 0.0);
    global.by_looper.then_some(IdleLoop { rate: given })
}

/// A message's size, or else the one of `-m` or `-M`, where 0 is the default.
fn size(message: Option<u32>, bulk: Option<u32>) -> SizeRule {
    match message.or(bulk) {
        None | Some(0) => SizeRule::SocketBuffer,
        Some(bytes) => SizeRule::Bytes(bytes),
    }
}

/// The width asked for; where that is 0, one buffer holds a message.
fn width(message: Option<u32>, asked: u32) -> WidthRule {
    match (asked, message) {
        (0, None) => WidthRule::CoverSocketBuffer,
        (0, Some(_)) => WidthRule::Buffers(1),
        (width, _) => WidthRule::Buffers(width),
    }
}

/// Test option `-W`, or else global `-W`. The client tells its own widths to the peer.
fn send_width(global: &Global, options: &TestOptions) -> u32 {
    if options.width > 0 {
        options.width
    } else {
        global.width.first
    }
}
