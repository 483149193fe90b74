//! The messages of the Unix domain, SCTP and DLPI tests at this end: request → assignment, what came of
//! it → replies.

mod dlpi;
mod sctp;
mod unix;

use std::path::PathBuf;
use std::time::Duration;

use model::{BufferPlan, Half, Limit, SizeRule, SocketOptions, Transport, WidthRule, Workload};
use sys::Address;
use sys::call::Error;

use super::assignment::{Assignment, EndMark, Refusal, alignment, at_most, exactly, limit};
use super::reply::{Figures, Ready};
use super::test::Prepared;
use crate::options::Limits;
use crate::wire::{Frame, Request, UNSET};

/// No datagram that a test may ask for is longer: a host's largest socket buffer is mostly less.
const LARGEST_MESSAGE: i32 = 1 << 20;

/// The assignment in a request, `None` if it is of no such family.
pub(super) fn assignment(
    request: &Request,
    limits: &Limits,
) -> Option<Result<Assignment, Refusal>> {
    unix::assignment(request, limits)
        .or_else(|| sctp::assignment(request, limits))
        .or_else(|| dlpi::assignment(request, limits))
}

/// The response, `None` if the request is of no such family.
pub(super) fn response(request: &Request, test: &Prepared, ready: &Ready) -> Option<Frame> {
    unix::response(request, test, ready)
        .or_else(|| sctp::response(request, ready))
        .or_else(|| dlpi::response(request, test, ready))
}

/// The results, `None` if the request is of no such family.
pub(super) fn results(request: &Request, figures: &Figures) -> Option<Frame> {
    unix::results(request, figures)
        .or_else(|| sctp::results(request, figures))
        .or_else(|| dlpi::results(request, figures))
}

/// Alignment and offset of buffers.
#[derive(Clone, Copy)]
struct Memory(i32, i32);

impl Memory {
    fn plan(self, size: SizeRule, width: WidthRule) -> Result<BufferPlan, Refusal> {
        Ok(BufferPlan {
            size,
            width,
            alignment: alignment(self.0 as u32)?,
            offset: u32::try_from(self.1).map_err(|_| Error::INVAL)?,
        })
    }
}

/// What the requests of all these tests have.
struct Asked {
    transport: Transport,
    bind: Address,
    socket: SocketOptions,
    receive: Memory,
    send: Memory,
    measure_cpu: bool,
    test_length: i32,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            transport: Transport::UnixStream,
            // Where that is the server alone decides: no path of a client's is ever used.
            bind: Address::Unix(PathBuf::new()),
            socket: SocketOptions::default(),
            receive: Memory(8, 0),
            send: Memory(8, 0),
            measure_cpu: false,
            test_length: 0,
        }
    }
}

impl Asked {
    fn stream(self, size: i32, limits: &Limits) -> Result<Assignment, Refusal> {
        // In classic messages 0 is the default.
        let size = at_most(if size == 0 { UNSET } else { size })?;
        let receive = self.receive.plan(size, WidthRule::CoverSocketBuffer)?;
        let limit = not_beyond(limit(self.test_length, false), limits);
        Ok(self.assignment(
            Workload::receive(),
            limit,
            BufferPlan::default(),
            receive,
            EndMark::Empty,
        ))
    }

    fn datagrams(self, size: i32, limits: &Limits) -> Result<Assignment, Refusal> {
        if !(1..=LARGEST_MESSAGE).contains(&size) {
            return Err(Error::INVAL.into());
        }
        let bytes = size as u32;
        let rule = SizeRule::Bytes(bytes);
        let receive = self.receive.plan(rule, WidthRule::Buffers(1))?;
        let limit = not_beyond(limit(self.test_length, false), limits);
        let end_mark = EndMark::OtherSizeThan(bytes);
        Ok(self.assignment(
            Workload::receive(),
            limit,
            BufferPlan::default(),
            receive,
            end_mark,
        ))
    }

    fn transactions(self, request: i32, response: i32) -> Result<Assignment, Refusal> {
        let one = WidthRule::Buffers(1);
        let receive = self.receive.plan(exactly(request)?, one)?;
        let send = self.send.plan(exactly(response)?, one)?;
        let limit = limit(self.test_length, true);
        Ok(self.assignment(Workload::answer(), limit, send, receive, EndMark::Empty))
    }

    fn assignment(
        self,
        workload: Workload,
        limit: Limit,
        send: BufferPlan,
        receive: BufferPlan,
        end_mark: EndMark,
    ) -> Assignment {
        Assignment {
            transport: self.transport,
            workload,
            limit,
            half: Half {
                socket: self.socket,
                send,
                receive,
                measure_cpu: self.measure_cpu,
                ..Half::default()
            },
            bind: self.bind,
            client: None,
            named: None,
            tells_congestion: false,
            tells_interface: false,
            end_mark,
        }
    }
}

/// A byte limit comes as a positive number too, and may read as centuries.
fn not_beyond(limit: Limit, limits: &Limits) -> Limit {
    match limit {
        Limit::Time(length) => {
            Limit::Time(length.min(limits.max_length).max(Duration::from_secs(1)))
        }
        other => other,
    }
}

fn positive(word: i32) -> Option<u32> {
    u32::try_from(word).ok().filter(|number| *number > 0)
}
