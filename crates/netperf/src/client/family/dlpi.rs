//! DLCO_STREAM, DLCO_RR, DLCL_STREAM and DLCL_RR.

use model::Counts;
use sys::{Address, Llc};

use super::super::Told;
use super::super::request::test_length;
use super::{Location, place_of, size, widened};
use crate::options::{Settings, Special, Test};
use crate::wire::{
    DlResponse, DlTransactionResults, DlclRrRequest, DlclRrResponse, DlclStreamRequest,
    DlclStreamResults, DlcoRrRequest, DlcoStreamRequest, DlcoStreamResponse, DlcoStreamResults,
    Frame, RemoteError, Request, Text, UNSET,
};

pub(super) fn request(settings: &Settings, send_size: u32) -> Option<Request> {
    let Special::Dlpi { sap, remote, .. } = &settings.special else {
        return None;
    };
    let sap = i32::from(*sap);
    let ppa = remote.ppa.map_or(UNSET, |ppa| ppa as i32);
    let device = Text::new(remote.device.as_deref().unwrap_or_default());
    let device_len = device.raw_bytes().len() as i32;
    let there = &settings.plan.there;
    let (receive_alignment, receive_offset) = place_of(&there.receive);
    let (send_alignment, send_offset) = place_of(&there.send);
    let (request_size, response_size) = (size(there.receive.size), size(there.send.size));
    let (measure_cpu, cpu_rate) = (there.measure_cpu, settings.cpu_rate.remote);
    let test_length = test_length(settings.plan.limit);
    // A byte limit goes as its positive number, as the stock client sends it.
    let bulk_length = test_length.saturating_abs();
    let (receive_window, send_window) = (
        there.socket.receive_window_frames.unwrap_or(0) as i32,
        there.socket.send_window_frames.unwrap_or(0) as i32,
    );
    Some(match settings.test {
        Test::DlcoStream => Request::DlcoStream(DlcoStreamRequest {
            receive_window,
            send_window,
            receive_size: size(there.receive.size),
            receive_alignment,
            receive_offset,
            measure_cpu,
            cpu_rate,
            test_length: bulk_length,
            sap,
            ppa,
            device_len,
            device,
            ..DlcoStreamRequest::default()
        }),
        Test::DlcoRr => Request::DlcoRr(DlcoRrRequest {
            receive_window,
            send_window,
            receive_alignment,
            receive_offset,
            send_alignment,
            send_offset,
            request_size,
            response_size,
            measure_cpu,
            cpu_rate,
            test_length,
            ppa,
            sap,
            device_len,
            device,
            ..DlcoRrRequest::default()
        }),
        Test::DlclStream => Request::DlclStream(DlclStreamRequest {
            message_size: send_size as i32,
            receive_alignment,
            receive_offset,
            measure_cpu,
            cpu_rate,
            test_length: bulk_length,
            ppa,
            sap,
            device_len,
            device,
            ..DlclStreamRequest::default()
        }),
        Test::DlclRr => Request::DlclRr(DlclRrRequest {
            receive_alignment,
            receive_offset,
            send_alignment,
            send_offset,
            request_size,
            response_size,
            measure_cpu,
            cpu_rate,
            test_length,
            ppa,
            sap,
            device_len,
            device,
            ..DlclRrRequest::default()
        }),
        _ => return None,
    })
}

pub(super) fn response(
    asked: &Request,
    answer: &Frame,
) -> Option<Result<(Told, Location), RemoteError>> {
    Some(match asked {
        Request::DlcoStream(_) => DlcoStreamResponse::decode(answer).map(|said| {
            let told = Told {
                receive_size: said.receive_size,
                ..Told::classic(said.receive_window, said.send_window, said.measure_cpu)
            };
            (told, station(said.station, said.sap))
        }),
        Request::DlcoRr(_) | Request::DlclStream(_) => DlResponse::decode(answer).map(|said| {
            let told = Told::classic(said.receive_window, said.send_window, said.measure_cpu);
            (told, station(said.station, said.sap))
        }),
        Request::DlclRr(_) => DlclRrResponse::decode(answer).map(|said| {
            let told = Told::classic(said.receive_window, said.send_window, said.measure_cpu);
            (told, station(said.station, said.sap))
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
        Request::DlcoStream(_) => DlcoStreamResults::decode(answer).map(|said| {
            told.add_bulk(said.receive_calls, widened(said.bytes, counts.sent.0));
            let (busy, method) = (said.cpu_utilisation, said.cpu_method);
            told.add_classic(said.elapsed, busy, method, said.cpus);
        }),
        Request::DlcoRr(DlcoRrRequest {
            request_size: request,
            response_size: response,
            ..
        })
        | Request::DlclRr(DlclRrRequest {
            request_size: request,
            response_size: response,
            ..
        }) => DlTransactionResults::decode(answer).map(|said| {
            told.add_messages(said.transactions, *request, *response);
            let (busy, method) = (said.cpu_utilisation, said.cpu_method);
            told.add_classic(said.elapsed, busy, method, said.cpus);
        }),
        Request::DlclStream(asked) => DlclStreamResults::decode(answer).map(|said| {
            told.add_datagrams(said.messages, asked.message_size);
            told.add_classic(said.elapsed, said.cpu_utilisation, 0, said.cpus);
        }),
        _ => return None,
    })
}

/// The first six bytes are the address.
fn station(address: [u8; 8], sap: i32) -> Location {
    let mut mac = [0; 6];
    mac.copy_from_slice(&address[..6]);
    let sap = sap as u8;
    Location::At(Address::Llc(Llc { mac, sap }))
}
