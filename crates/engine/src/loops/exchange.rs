//! A request and its response, and the calls that move all of one.

use sys::buffer::BufferRing;
use sys::call::Error;

use crate::counters::{Counter, CounterWriter};
use crate::end::LoopEnd;
use crate::io::Io;
use crate::stop::Stop;

/// A request and its response, with their buffers.
pub(crate) struct Exchange<'a> {
    pub(crate) requests: &'a mut BufferRing,
    pub(crate) responses: &'a mut BufferRing,
    /// Whether a response that does not come within the socket's timeout is given up, and the next
    /// request sent; else that is the end.
    pub(crate) asks_again: bool,
}

/// Sends a whole buffer, which the pass counts as one call; a stop ends it in the middle.
#[inline]
pub(crate) fn send_all<I: Io>(
    io: &I,
    data: &[u8],
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    match io.send(data) {
        Ok(sent) if sent == data.len() => Ok(()),
        other => send_rest(io, data, other, stop, counters),
    }
}

/// What seldom happens: a call that did not take all, an interruption, an error.
#[cold]
pub(super) fn send_rest<I: Io>(
    io: &I,
    data: &[u8],
    mut last: Result<usize, Error>,
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    let (mut sent, mut calls) = (0, 0);
    let end = loop {
        match last {
            Ok(more) => {
                sent += more;
                calls += 1;
            }
            Err(Error::INTR) => {}
            Err(Error::NOBUFS) => {
                counters.add(Counter::FailedSends, 1);
                break LoopEnd::Dropped;
            }
            Err(error) => break LoopEnd::from_call("send", error),
        }
        if sent == data.len() {
            counters.add(Counter::SendCalls, calls - 1);
            return Ok(());
        }
        if stop.is_set() {
            break LoopEnd::Stopped;
        }
        last = io.send(&data[sent..]);
    };
    // Not a pass, but it left all the same.
    counters.sent(sent, calls);
    Err(end)
}

/// Receives a whole buffer, which the pass counts as one call; a stop ends it in the middle.
#[inline]
pub(crate) fn receive_all<I: Io>(
    io: &I,
    buffer: &mut [u8],
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    match io.receive(buffer) {
        Ok(received) if received == buffer.len() => Ok(()),
        other => receive_rest(io, buffer, other, stop, counters),
    }
}

#[cold]
pub(super) fn receive_rest<I: Io>(
    io: &I,
    buffer: &mut [u8],
    mut last: Result<usize, Error>,
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    let (mut received, mut calls) = (0, 0);
    let end = loop {
        match last {
            Ok(0) => break LoopEnd::PeerClosed,
            Ok(more) => {
                received += more;
                calls += 1;
            }
            Err(Error::INTR) => {}
            Err(error) => break LoopEnd::from_call("receive", error),
        }
        if received == buffer.len() {
            counters.add(Counter::ReceiveCalls, calls - 1);
            return Ok(());
        }
        if stop.is_set() {
            break LoopEnd::Stopped;
        }
        last = io.receive(&mut buffer[received..]);
    };
    counters.received(received, calls);
    Err(end)
}
