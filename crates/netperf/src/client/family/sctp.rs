//! SCTP_STREAM, SCTP_RR and their forms with many associations.

use super::super::request::{stream, transaction};
use super::super::{Endpoints, Told};
use super::{Location, size};
use crate::options::{Settings, Test};
use crate::wire::{
    Frame, RemoteError, Request, Sctp, StreamRequest, StreamResponse, StreamResults,
    TransactionRequest, TransactionResponse, TransactionResults,
};

pub(super) fn request(settings: &Settings, ends: &Endpoints) -> Option<Request> {
    Some(match settings.test {
        Test::SctpStream => Request::SctpStream(sctp_stream(settings, ends)),
        Test::SctpStreamMany => Request::SctpStreamMany(sctp_stream(settings, ends)),
        Test::SctpRr => Request::SctpRr(sctp_transaction(settings, ends)),
        Test::SctpRrMany => Request::SctpRrMany(sctp_transaction(settings, ends)),
        _ => return None,
    })
}

pub(super) fn response(
    asked: &Request,
    answer: &Frame,
) -> Option<Result<(Told, Location), RemoteError>> {
    Some(match asked {
        Request::SctpStream(_) | Request::SctpStreamMany(_) => {
            Sctp::<StreamResponse>::decode(answer).map(|said| {
                let port = Location::Port(said.tcp.data_port as u32);
                (Told::from(&said.tcp), port)
            })
        }
        Request::SctpRr(_) | Request::SctpRrMany(_) => Sctp::<TransactionResponse>::decode(answer)
            .map(|said| {
                let port = Location::Port(said.tcp.data_port as u32);
                (Told::from(&said.tcp), port)
            }),
        _ => return None,
    })
}

pub(super) fn results(
    asked: &Request,
    told: &mut Told,
    answer: &Frame,
) -> Option<Result<(), RemoteError>> {
    Some(match asked {
        Request::SctpStream(_) | Request::SctpStreamMany(_) => {
            StreamResults::decode(answer).map(|said| told.add_stream(&said))
        }
        Request::SctpRr(asked) | Request::SctpRrMany(asked) => TransactionResults::decode(answer)
            .map(|said| {
                told.add_transactions(&said, asked.tcp.request_size, asked.tcp.response_size);
            }),
        _ => return None,
    })
}

fn sctp_stream(settings: &Settings, ends: &Endpoints) -> Sctp<StreamRequest> {
    Sctp {
        tcp: stream(settings, ends),
        non_blocking: settings.plan.there.socket.non_blocking,
    }
}

fn sctp_transaction(settings: &Settings, ends: &Endpoints) -> Sctp<TransactionRequest> {
    let there = &settings.plan.there;
    Sctp {
        tcp: TransactionRequest {
            request_size: size(there.receive.size),
            response_size: size(there.send.size),
            ..transaction(settings, ends)
        },
        non_blocking: there.socket.non_blocking,
    }
}
