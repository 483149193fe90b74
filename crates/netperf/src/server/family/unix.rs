//! STREAM_STREAM, STREAM_RR, DG_STREAM and DG_RR.

use model::{SocketOptions, Transport};

use super::super::assignment::{Assignment, Refusal};
use super::super::reply::{Figures, Ready};
use super::super::test::Prepared;
use super::{Asked, Memory, positive};
use crate::options::Limits;
use crate::wire::{
    DgRrResponse, DgStreamResponse, DgStreamResults, Frame, Request, StreamRrResponse,
    StreamStreamResponse, StreamStreamResults, SwappedText, Text, UnixTransactionResults,
};

pub(super) fn assignment(
    request: &Request,
    limits: &Limits,
) -> Option<Result<Assignment, Refusal>> {
    Some(match request {
        Request::StreamStream(asked) => Asked {
            transport: Transport::UnixStream,
            socket: buffers(asked.receive_buffer, asked.send_buffer),
            receive: Memory(asked.receive_alignment, asked.receive_offset),
            measure_cpu: asked.measure_cpu,
            test_length: asked.test_length,
            ..Asked::default()
        }
        .stream(asked.receive_size, limits),
        Request::StreamRr(asked) => Asked {
            transport: Transport::UnixStream,
            socket: buffers(asked.receive_buffer, asked.send_buffer),
            receive: Memory(asked.receive_alignment, asked.receive_offset),
            send: Memory(asked.send_alignment, asked.send_offset),
            measure_cpu: asked.measure_cpu,
            test_length: asked.test_length,
            ..Asked::default()
        }
        .transactions(asked.request_size, asked.response_size),
        Request::DgStream(asked) => Asked {
            transport: Transport::UnixDatagram,
            socket: buffers(asked.receive_buffer, 0),
            receive: Memory(asked.receive_alignment, asked.receive_offset),
            measure_cpu: asked.measure_cpu,
            test_length: asked.test_length,
            ..Asked::default()
        }
        .datagrams(asked.message_size, limits),
        Request::DgRr(asked) => Asked {
            transport: Transport::UnixDatagram,
            socket: buffers(asked.receive_buffer, asked.send_buffer),
            receive: Memory(asked.receive_alignment, asked.receive_offset),
            send: Memory(asked.send_alignment, asked.send_offset),
            measure_cpu: asked.measure_cpu,
            test_length: asked.test_length,
            ..Asked::default()
        }
        .transactions(asked.request_size, asked.response_size),
        _ => return None,
    })
}

pub(super) fn response(request: &Request, test: &Prepared, ready: &Ready) -> Option<Frame> {
    let path = SwappedText(Text::new(test.path().as_os_str().as_encoded_bytes()));
    Some(match request {
        Request::StreamStream(asked) => StreamStreamResponse {
            receive_buffer: ready.receive_buffer,
            send_buffer: ready.send_buffer,
            receive_size: ready.size,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
            measure_cpu: ready.measure_cpu,
            test_length: asked.test_length,
            cpu_rate: ready.cpu_rate,
            path,
        }
        .encode(),
        Request::StreamRr(asked) => StreamRrResponse {
            receive_buffer: ready.receive_buffer,
            send_buffer: ready.send_buffer,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
            measure_cpu: ready.measure_cpu,
            test_length: asked.test_length,
            cpu_rate: ready.cpu_rate,
            path,
        }
        .encode(),
        Request::DgStream(asked) => DgStreamResponse {
            receive_buffer: ready.receive_buffer,
            send_buffer: ready.send_buffer,
            measure_cpu: ready.measure_cpu,
            test_length: asked.test_length,
            cpu_rate: ready.cpu_rate,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
            path,
        }
        .encode(),
        Request::DgRr(asked) => DgRrResponse {
            receive_buffer: ready.receive_buffer,
            send_buffer: ready.send_buffer,
            no_delay: false,
            measure_cpu: ready.measure_cpu,
            test_length: asked.test_length,
            cpu_rate: ready.cpu_rate,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
            path,
        }
        .encode(),
        _ => return None,
    })
}

pub(super) fn results(request: &Request, figures: &Figures) -> Option<Frame> {
    Some(match request {
        Request::StreamStream(_) => StreamStreamResults {
            bytes: figures.received_word,
            receive_calls: figures.receive_calls,
            elapsed: figures.elapsed,
            cpu_utilisation: figures.busy,
            cpus: figures.cpus,
        }
        .encode(),
        Request::StreamRr(_) | Request::DgRr(_) => UnixTransactionResults {
            bytes: figures.both_word,
            transactions: figures.transactions,
            elapsed: figures.elapsed,
            cpu_utilisation: figures.busy,
            cpus: figures.cpus,
        }
        .encode(request.kind()),
        Request::DgStream(_) => DgStreamResults {
            messages: figures.receive_calls,
            bytes: figures.received_word,
            elapsed: figures.elapsed,
            cpu_utilisation: figures.busy_or_none,
            cpus: figures.cpus,
        }
        .encode(),
        _ => return None,
    })
}

/// Sizes to set, where 0 leaves the kernel's. The stock server sets 0, and has the least that there is.
fn buffers(receive: i32, send: i32) -> SocketOptions {
    SocketOptions {
        receive_buffer_bytes: positive(receive),
        send_buffer_bytes: positive(send),
        ..SocketOptions::default()
    }
}
