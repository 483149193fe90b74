//! A request and its response, and functions that send or receive whole messages in spite of
//! partial calls.

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
    /// Whether the next request is sent if a response does not arrive within the socket's timeout.
    /// Otherwise, the timeout ends the test.
    pub(crate) can_retry: bool,
}

/// Sends all of a buffer, unless the stop is set. The count of a pass already includes one call;
/// this function counts only further calls.
#[inline]
pub(crate) fn send_all<I: Io>(
    io: &I,
    data: &[u8],
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    match io.send(data) {
        Ok(sent) if sent == data.len() => Ok(()),
        result => continue_send(io, data, result, stop, counters),
    }
}

/// Continues after a partial send, an interruption or an error.
#[cold]
pub(super) fn continue_send<I: Io>(
    io: &I,
    data: &[u8],
    mut result: Result<usize, Error>,
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    let (mut sent, mut calls) = (0, 0);
    let end = loop {
        match result {
            Ok(bytes) => {
                sent += bytes;
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
        result = io.send(&data[sent..]);
    };
    // The pass is incomplete, but these bytes were sent.
    counters.count_sent(sent, calls);
    Err(end)
}

/// Fills a buffer, unless the stop is set. Counts further calls, as [`send_all`] does.
#[inline]
pub(crate) fn receive_all<I: Io>(
    io: &I,
    buffer: &mut [u8],
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    match io.receive(buffer) {
        Ok(received) if received == buffer.len() => Ok(()),
        result => continue_receive(io, buffer, result, stop, counters),
    }
}

/// Continues after a partial receive, an interruption or an error.
#[cold]
pub(super) fn continue_receive<I: Io>(
    io: &I,
    buffer: &mut [u8],
    mut result: Result<usize, Error>,
    stop: &Stop,
    counters: CounterWriter<'_>,
) -> Result<(), LoopEnd> {
    let (mut received, mut calls) = (0, 0);
    let end = loop {
        match result {
            Ok(0) => break LoopEnd::PeerClosed,
            Ok(bytes) => {
                received += bytes;
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
        result = io.receive(&mut buffer[received..]);
    };
    counters.count_received(received, calls);
    Err(end)
}
