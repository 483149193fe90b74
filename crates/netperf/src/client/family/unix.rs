//! STREAM_STREAM, STREAM_RR, DG_STREAM and DG_RR.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use model::Counts;
use sys::Address;

use super::super::Told;
use super::super::request::test_length;
use super::{Location, place_of, size, widened};
use crate::options::{Settings, Test};
use crate::wire::{
    DgRrRequest, DgRrResponse, DgStreamRequest, DgStreamResponse, DgStreamResults, Frame,
    RemoteError, Request, StreamRrRequest, StreamRrResponse, StreamStreamRequest,
    StreamStreamResponse, StreamStreamResults, SwappedText, UnixTransactionResults,
};

pub(super) fn request(settings: &Settings, send_size: u32) -> Option<Request> {
    let there = &settings.plan.there;
    let (receive_alignment, receive_offset) = place_of(&there.receive);
    let (send_alignment, send_offset) = place_of(&there.send);
    let (request_size, response_size) = (size(there.receive.size), size(there.send.size));
    let (measure_cpu, cpu_rate) = (there.measure_cpu, settings.cpu_rate.remote);
    let test_length = test_length(settings.plan.limit);
    // A byte limit goes as its positive number, as the stock client sends it.
    let bulk_length = test_length.saturating_abs();
    let (receive_buffer, send_buffer) = (
        zero_or(there.socket.receive_buffer_bytes),
        zero_or(there.socket.send_buffer_bytes),
    );
    Some(match settings.test {
        Test::StreamStream => Request::StreamStream(StreamStreamRequest {
            receive_buffer,
            send_buffer,
            receive_size: size(there.receive.size),
            receive_alignment,
            receive_offset,
            measure_cpu,
            cpu_rate,
            test_length: bulk_length,
            ..StreamStreamRequest::default()
        }),
        Test::StreamRr => Request::StreamRr(StreamRrRequest {
            receive_buffer,
            send_buffer,
            receive_alignment,
            receive_offset,
            send_alignment,
            send_offset,
            request_size,
            response_size,
            measure_cpu,
            cpu_rate,
            test_length,
            ..StreamRrRequest::default()
        }),
        Test::DgStream => Request::DgStream(DgStreamRequest {
            receive_buffer,
            message_size: send_size as i32,
            receive_alignment,
            receive_offset,
            measure_cpu,
            cpu_rate,
            test_length: bulk_length,
            ..DgStreamRequest::default()
        }),
        Test::DgRr => Request::DgRr(DgRrRequest {
            receive_buffer,
            send_buffer,
            receive_alignment,
            receive_offset,
            send_alignment,
            send_offset,
            request_size,
            response_size,
            measure_cpu,
            cpu_rate,
            test_length,
            ..DgRrRequest::default()
        }),
        _ => return None,
    })
}

pub(super) fn response(
    asked: &Request,
    answer: &Frame,
) -> Option<Result<(Told, Location), RemoteError>> {
    Some(match asked {
        Request::StreamStream(_) => StreamStreamResponse::decode(answer).map(|said| {
            let told = Told {
                receive_size: said.receive_size,
                ..Told::classic(said.receive_buffer, said.send_buffer, said.measure_cpu)
            };
            (told, path(said.path))
        }),
        Request::StreamRr(_) => StreamRrResponse::decode(answer).map(|said| {
            let told = Told::classic(said.receive_buffer, said.send_buffer, said.measure_cpu);
            (told, path(said.path))
        }),
        Request::DgStream(_) => DgStreamResponse::decode(answer).map(|said| {
            let told = Told::classic(said.receive_buffer, said.send_buffer, said.measure_cpu);
            (told, path(said.path))
        }),
        Request::DgRr(_) => DgRrResponse::decode(answer).map(|said| {
            let told = Told::classic(said.receive_buffer, said.send_buffer, said.measure_cpu);
            (told, path(said.path))
        }),
        _ => return None,
    })
}

pub(super) fn results(
    asked: &Request,
    told: &mut Told,
    counts: &Counts,
    answer: &Frame,
) -> Option<Result<(), RemoteError>> {
    Some(match asked {
        Request::StreamStream(_) => StreamStreamResults::decode(answer).map(|said| {
            told.add_bulk(said.receive_calls, widened(said.bytes, counts.sent.0));
            told.add_classic(said.elapsed, said.cpu_utilisation, 0, own_cpus());
        }),
        Request::StreamRr(StreamRrRequest {
            request_size: request,
            response_size: response,
            ..
        })
        | Request::DgRr(DgRrRequest {
            request_size: request,
            response_size: response,
            ..
        }) => UnixTransactionResults::decode(answer).map(|said| {
            told.add_messages(said.transactions, *request, *response);
            told.add_classic(said.elapsed, said.cpu_utilisation, 0, own_cpus());
        }),
        Request::DgStream(asked) => DgStreamResults::decode(answer).map(|said| {
            told.add_datagrams(said.messages, asked.message_size);
            told.add_classic(said.elapsed, said.cpu_utilisation, 0, own_cpus());
        }),
        _ => return None,
    })
}

/// Here 0 is the default, and the least that the kernel takes is 1.
fn zero_or(bytes: Option<u32>) -> i32 {
    bytes.map_or(0, |bytes| bytes.max(1) as i32)
}

fn path(text: SwappedText<32>) -> Location {
    let path = PathBuf::from(OsStr::from_bytes(text.0.raw_bytes()));
    Location::At(Address::Unix(path))
}

/// The peer of a Unix domain test is on this host, and the stock server does not say how many CPUs that
/// has.
fn own_cpus() -> i32 {
    sys::cpu::online() as i32
}
