//! SCTP_STREAM, SCTP_RR and their forms with many associations.

use model::{Transport, Workload};

use super::super::assignment::{Assignment, Refusal, stream, transaction};
use super::super::test::Prepared;
use super::{Figures, Ready};
use crate::options::Limits;
use crate::wire::{
    Frame, Request, Sctp, StreamResponse, StreamResults, TransactionResponse, TransactionResults,
};

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

pub(super) fn response(request: &Request, test: &Prepared, ready: &Ready) -> Option<Frame> {
    let facts = &test.data.facts;
    Some(match request {
        Request::SctpStream(asked) | Request::SctpStreamMany(asked) => Sctp {
            tcp: StreamResponse {
                receive_buffer: ready.receive_buffer,
                size: ready.receive_size,
                no_delay: facts.no_delay.unwrap_or(false),
                measure_cpu: ready.measure_cpu,
                send_buffer: ready.send_buffer,
                data_port: test.port as i32,
                cpu_rate: ready.cpu_rate,
                receive_copy_avoidance: asked.tcp.receive_copy_avoidance,
                send_copy_avoidance: asked.tcp.send_copy_avoidance,
            },
            non_blocking: asked.non_blocking,
        }
        .encode(request.kind()),
        Request::SctpRr(asked) | Request::SctpRrMany(asked) => Sctp {
            tcp: TransactionResponse {
                receive_buffer: ready.receive_buffer,
                no_delay: facts.no_delay.unwrap_or(false),
                measure_cpu: ready.measure_cpu,
                test_length: asked.tcp.test_length,
                send_buffer: ready.send_buffer,
                data_port: test.port as i32,
                cpu_rate: ready.cpu_rate,
                receive_copy_avoidance: asked.tcp.receive_copy_avoidance,
                send_copy_avoidance: asked.tcp.send_copy_avoidance,
            },
            non_blocking: asked.non_blocking,
        }
        .encode(request.kind()),
        _ => return None,
    })
}

pub(super) fn results(request: &Request, figures: &Figures) -> Option<Frame> {
    Some(match request {
        Request::SctpStream(_) | Request::SctpStreamMany(_) => StreamResults {
            bytes: figures.received as f64,
            calls: figures.receive_calls,
            elapsed: figures.elapsed,
            cpu_utilisation: figures.busy,
            cpu_method: figures.method,
            cpus: figures.cpus,
        }
        .encode(request.kind()),
        Request::SctpRr(_) | Request::SctpRrMany(_) => TransactionResults {
            bytes: figures.both_word,
            transactions: figures.transactions,
            elapsed: figures.elapsed,
            cpu_utilisation: figures.busy,
            cpu_method: figures.method,
            cpus: figures.cpus,
        }
        .encode(request.kind()),
        _ => return None,
    })
}

fn sctp(mut test: Assignment, transport: Transport, non_blocking: bool) -> Assignment {
    test.transport = transport;
    test.half.socket.non_blocking = non_blocking;
    test
}
