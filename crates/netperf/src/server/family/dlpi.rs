//! DLCO_STREAM, DLCO_RR, DLCL_STREAM and DLCL_RR.

use model::{SocketOptions, Transport};
use sys::call::Error;
use sys::{Address, Llc};

use super::super::assignment::{Assignment, Refusal};
use super::super::reply::{Figures, Ready, word};
use super::super::test::Prepared;
use super::{Asked, Memory, positive};
use crate::attachment::Attachment;
use crate::options::Limits;
use crate::wire::{
    DlResponse, DlTransactionResults, DlclRrResponse, DlclStreamResults, DlcoStreamResponse,
    DlcoStreamResults, Frame, Request, Text,
};

pub(super) fn assignment(
    request: &Request,
    limits: &Limits,
) -> Option<Result<Assignment, Refusal>> {
    attached_assignment(request, limits).transpose()
}

fn attached_assignment(request: &Request, limits: &Limits) -> Result<Option<Assignment>, Refusal> {
    let assignment = match request {
        Request::DlcoStream(asked) => Asked {
            transport: Transport::LlcStream,
            bind: attached(&asked.device, asked.ppa, asked.sap)?,
            socket: windows(asked.receive_window, asked.send_window),
            receive: Memory(asked.receive_alignment, asked.receive_offset),
            measure_cpu: asked.measure_cpu,
            test_length: asked.test_length,
            ..Asked::default()
        }
        .stream(asked.receive_size, limits),
        Request::DlcoRr(asked) => Asked {
            transport: Transport::LlcStream,
            bind: attached(&asked.device, asked.ppa, asked.sap)?,
            socket: windows(asked.receive_window, asked.send_window),
            receive: Memory(asked.receive_alignment, asked.receive_offset),
            send: Memory(asked.send_alignment, asked.send_offset),
            measure_cpu: asked.measure_cpu,
            test_length: asked.test_length,
        }
        .transactions(asked.request_size, asked.response_size),
        Request::DlclStream(asked) => Asked {
            transport: Transport::LlcDatagram,
            bind: attached(&asked.device, asked.ppa, asked.sap)?,
            receive: Memory(asked.receive_alignment, asked.receive_offset),
            measure_cpu: asked.measure_cpu,
            test_length: asked.test_length,
            ..Asked::default()
        }
        .datagrams(asked.message_size, limits),
        Request::DlclRr(asked) => Asked {
            transport: Transport::LlcDatagram,
            bind: attached(&asked.device, asked.ppa, asked.sap)?,
            receive: Memory(asked.receive_alignment, asked.receive_offset),
            send: Memory(asked.send_alignment, asked.send_offset),
            measure_cpu: asked.measure_cpu,
            test_length: asked.test_length,
            ..Asked::default()
        }
        .transactions(asked.request_size, asked.response_size),
        _ => return Ok(None),
    };
    assignment.map(Some)
}

pub(super) fn response(request: &Request, test: &Prepared, ready: &Ready) -> Option<Frame> {
    let facts = &test.data.facts;
    let (receive_window, send_window) = match test.assignment.transport {
        Transport::LlcStream => (
            word(facts.receive_window_frames),
            word(facts.send_window_frames),
        ),
        _ => (ready.receive_buffer, ready.send_buffer),
    };
    let mut station = [0; 8];
    let mut sap = 0;
    if let Ok(Address::Llc(bound)) = Address::of(&test.data.socket) {
        station[..bound.mac.len()].copy_from_slice(&bound.mac);
        sap = i32::from(bound.sap);
    }
    let station_len = 6;
    Some(match request {
        Request::DlcoStream(asked) => DlcoStreamResponse {
            receive_window,
            send_window,
            receive_size: ready.size,
            measure_cpu: ready.measure_cpu,
            test_length: asked.test_length,
            sap,
            cpu_rate: ready.cpu_rate,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
            station_len,
            station,
        }
        .encode(request.kind()),
        Request::DlcoRr(_) | Request::DlclStream(_) => DlResponse {
            receive_window,
            send_window,
            measure_cpu: ready.measure_cpu,
            test_length: 0,
            sap,
            cpu_rate: ready.cpu_rate,
            receive_copy_avoidance: 0,
            send_copy_avoidance: 0,
            station_len,
            station,
        }
        .encode(request.kind()),
        Request::DlclRr(_) => DlclRrResponse {
            receive_window,
            send_window,
            no_delay: false,
            measure_cpu: ready.measure_cpu,
            test_length: 0,
            sap,
            cpu_rate: ready.cpu_rate,
            receive_copy_avoidance: 0,
            send_copy_avoidance: 0,
            station_len,
            station,
        }
        .encode(request.kind()),
        _ => return None,
    })
}

pub(super) fn results(request: &Request, figures: &Figures) -> Option<Frame> {
    Some(match request {
        Request::DlcoStream(_) => DlcoStreamResults {
            bytes: figures.received_word,
            receive_calls: figures.receive_calls,
            elapsed: figures.elapsed,
            cpu_utilisation: figures.busy,
            cpu_method: figures.method,
            cpus: figures.cpus,
        }
        .encode(request.kind()),
        Request::DlcoRr(_) | Request::DlclRr(_) => DlTransactionResults {
            bytes: figures.both_word,
            receive_calls: figures.receive_calls,
            transactions: figures.transactions,
            elapsed: figures.elapsed,
            cpu_utilisation: figures.busy,
            cpu_method: figures.method,
            cpus: figures.cpus,
        }
        .encode(request.kind()),
        Request::DlclStream(_) => DlclStreamResults {
            messages: figures.receive_calls,
            bytes: figures.received_word,
            elapsed: figures.elapsed,
            cpu_utilisation: figures.busy_or_none,
            cpus: figures.cpus,
        }
        .encode(request.kind()),
        _ => return None,
    })
}

fn windows(receive: i32, send: i32) -> SocketOptions {
    SocketOptions {
        receive_window_frames: positive(receive),
        send_window_frames: positive(send),
        ..SocketOptions::default()
    }
}

/// The address of the interface that a request names, at its service access point.
fn attached(device: &Text<32>, ppa: i32, sap: i32) -> Result<Address, Refusal> {
    let sap = u8::try_from(sap)
        .ok()
        .filter(|sap| sap.is_multiple_of(2))
        .ok_or(Error::INVAL)?;
    let attachment = Attachment {
        device: Some(device.to_string()),
        ppa: u32::try_from(ppa).ok(),
    };
    let interface = attachment.find();
    let mac = interface.ok().and_then(|link| link.mac);
    let mac = mac.ok_or(Error::NODEV)?;
    Ok(Address::Llc(Llc { mac, sap }))
}
