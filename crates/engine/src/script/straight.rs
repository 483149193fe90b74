//! What is mostly run, as loops that know what they do: streams, and requests with their answers.

use std::os::fd::BorrowedFd;

use sys::call::{self, Error};

use super::plain::{Call, Hands, Next, Place, Way};
use super::{Connection, Watch};
use crate::counters::Counter;

/// A transfer that is one call.
pub(super) trait Plain {
    /// Makes the call, and counts what it moved, if that was all.
    fn execute(&self, hands: &mut Hands<'_>) -> Result<(), Result<usize, Error>>;
}

/// Sends so many bytes.
pub(super) struct Sending<'a>(BorrowedFd<'a>, usize);

/// Receives so many bytes. Few wait in the kernel until all are there; of many each piece is counted as it comes.
pub(super) struct Receiving<'a>(BorrowedFd<'a>, usize);

/// How many bytes are few.
const FEW: usize = 64 << 10;

impl<'a> Sending<'a> {
    /// Over a connection that is a socket.
    #[inline]
    pub(super) fn over(connection: &'a Connection, bytes: u32) -> Option<Self> {
        Some(Self(connection.plain_socket()?, bytes as usize))
    }
}

impl<'a> Receiving<'a> {
    /// Over a connection that is a socket.
    #[inline]
    pub(super) fn over(connection: &'a Connection, bytes: u32) -> Option<Self> {
        Some(Self(connection.plain_socket()?, bytes as usize))
    }
}

impl Plain for Sending<'_> {
    #[inline]
    fn execute(&self, hands: &mut Hands<'_>) -> Result<(), Result<usize, Error>> {
        let came = call::send(self.0, &hands.buffer[..self.1]);
        if came != Ok(self.1) {
            return Err(came);
        }
        hands.counters.add(Counter::Sent, self.1 as u64);
        hands.counters.add(Counter::Operations, 1);
        Ok(())
    }
}

impl Plain for Receiving<'_> {
    #[inline]
    fn execute(&self, hands: &mut Hands<'_>) -> Result<(), Result<usize, Error>> {
        let room = &mut hands.buffer[..self.1];
        let came = if self.1 <= FEW {
            call::receive_all(self.0, room)
        } else {
            call::receive(self.0, room)
        };
        if came != Ok(self.1) {
            return Err(came);
        }
        hands.counters.add(Counter::Received, self.1 as u64);
        hands.counters.add(Counter::Operations, 1);
        Ok(())
    }
}

/// Runs a list from `place` on, if it is of such a form.
pub(super) fn run(
    calls: &[Call],
    place: &mut Place,
    hands: &mut Hands<'_>,
    watch: &mut impl Watch,
) -> Option<Next> {
    let ways = match calls {
        [only] => (&only.way, None, only.count),
        [first, second] if first.count == 1 && second.count == 1 => {
            (&first.way, Some(&second.way), 1)
        }
        _ => return None,
    };
    let next = match ways {
        (Way::Send(connection, bytes), None, count) => one(
            &Sending::over(connection, *bytes)?,
            count,
            place,
            hands,
            watch,
        ),
        (Way::Receive(connection, bytes), None, count) => one(
            &Receiving::over(connection, *bytes)?,
            count,
            place,
            hands,
            watch,
        ),
        (Way::Send(out, request), Some(Way::Receive(back, response)), _) => {
            let (ask, hear) = (
                Sending::over(out, *request)?,
                Receiving::over(back, *response)?,
            );
            two(&ask, &hear, place, hands, watch)
        }
        (Way::Receive(out, request), Some(Way::Send(back, response)), _) => {
            let (hear, answer) = (
                Receiving::over(out, *request)?,
                Sending::over(back, *response)?,
            );
            two(&hear, &answer, place, hands, watch)
        }
        _ => return None,
    };
    Some(next)
}

/// The same transfer, a pass of so many a round.
#[inline(never)]
fn one(
    transfer: &impl Plain,
    count: u64,
    place: &mut Place,
    hands: &mut Hands<'_>,
    watch: &mut impl Watch,
) -> Next {
    let mut left = place.left;
    loop {
        if hands.stop.is_set() {
            return place.leave(0, left, Next::Stopped);
        }
        if let Err(came) = transfer.execute(hands) {
            return place.leave(0, left, Next::Execute(Some(came)));
        }
        left -= 1;
        if left > 0 {
            continue;
        }
        left = count;
        watch.step(0, count);
        watch.round();
        place.rounds -= 1;
        if place.rounds == 0 {
            return Next::Done;
        }
    }
}

/// One transfer and the other, by turns.
#[inline(never)]
fn two(
    first: &impl Plain,
    second: &impl Plain,
    place: &mut Place,
    hands: &mut Hands<'_>,
    watch: &mut impl Watch,
) -> Next {
    let mut first_is_done = place.at == 1;
    loop {
        if hands.stop.is_set() {
            return place.leave(usize::from(first_is_done), 1, Next::Stopped);
        }
        if !first_is_done {
            if let Err(came) = first.execute(hands) {
                return place.leave(0, 1, Next::Execute(Some(came)));
            }
            watch.step(0, 1);
        }
        first_is_done = false;
        if let Err(came) = second.execute(hands) {
            return place.leave(1, 1, Next::Execute(Some(came)));
        }
        watch.step(1, 1);
        watch.round();
        place.rounds -= 1;
        if place.rounds == 0 {
            return Next::Done;
        }
    }
}
