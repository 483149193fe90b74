//! SCTP_STREAM, SCTP_RR and their forms with many associations.

use model::{Transport, Workload};

use super::super::assignment::{Assignment, Refusal, stream, transaction};
use super::super::reply::{Figures, Ready};
use crate::options::Limits;
use crate::wire::{Frame, Request, Sctp};

pub(super) fn assignment(
    request: &Request,
    limits: &Limits,
) -> Option<Result<Assignment, Refusal>> {
    Some(match request {
        Request::SctpStream(asked) => stream(&asked.tcp, Workload::receive(), limits)
            .map(|test| sctp(test, Transport::Sctp, asked.non_blocking)),
        Request::SctpStreamMany(asked) => stream(&asked.tcp, Workload::receive(), limits)
            .map(|test| sctp(test, Transport::SctpMany, asked.non_blocking)),
        Request::SctpRr(asked) => transaction(&asked.tcp, Transport::Sctp, Workload::answer())
            .map(|test| sctp(test, Transport::Sctp, asked.non_blocking)),
        Request::SctpRrMany(asked) => {
            transaction(&asked.tcp, Transport::SctpMany, Workload::answer())
                .map(|test| sctp(test, Transport::SctpMany, asked.non_blocking))
        }
        _ => return None,
    })
}

pub(super) fn response(request: &Request, ready: &Ready) -> Option<Frame> {
    Some(match request {
        Request::SctpStream(asked) | Request::SctpStreamMany(asked) => Sctp {
            tcp: ready.stream(&asked.tcp),
            non_blocking: asked.non_blocking,
        }
        .encode(request.kind()),
        Request::SctpRr(asked) | Request::SctpRrMany(asked) => Sctp {
            tcp: ready.transaction(&asked.tcp),
            non_blocking: asked.non_blocking,
        }
        .encode(request.kind()),
        _ => return None,
    })
}

pub(super) fn results(request: &Request, figures: &Figures) -> Option<Frame> {
    Some(match request {
        Request::SctpStream(_) | Request::SctpStreamMany(_) => {
            figures.received().encode(request.kind())
        }
        Request::SctpRr(_) | Request::SctpRrMany(_) => {
            figures.transactions().encode(request.kind())
        }
        _ => return None,
    })
}

fn sctp(mut test: Assignment, transport: Transport, non_blocking: bool) -> Assignment {
    test.transport = transport;
    test.half.socket.non_blocking = non_blocking;
    test
}
