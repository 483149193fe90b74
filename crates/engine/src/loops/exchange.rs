//! A request and its response, and functions that send or receive all of one.

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
    /// Whether the next request is sent after a response timed out by the socket's timeout. If not,
    /// a timeout ends the test.
    pub(crate) can_retry: bool,
}

/// Sends all of a buffer; a stop ends it early. A pass includes one call; more calls are counted
/// here.
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

/// Continues after a partial send, an interruption or an error.
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
    // The pass is incomplete, but these bytes were sent.
    counters.count_sent(sent, calls);
    Err(end)
}

/// Fills a buffer; a stop ends it early. A pass includes one call; more calls are counted here.
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

/// Continues after a partial receive, an interruption or an error.
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
    counters.count_received(received, calls);
    Err(end)
}
