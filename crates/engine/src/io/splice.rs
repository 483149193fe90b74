//! splice(2) to the null device: the kernel discards received data.

use std::io;
use std::os::fd::BorrowedFd;

use sys::call::{Drain, Error};
use sys::message::MessageTotals;

use crate::end::Budget;

/// Returns the call that discards up to `size` bytes of a socket's stream.
pub(crate) fn discard<H>(
    socket: BorrowedFd<'_>,
    size: u32,
) -> io::Result<impl FnMut(&mut H, Budget) -> Result<MessageTotals, Error>> {
    let pipe = Drain::open()?;
    Ok(move |_: &mut H, _| {
        pipe.receive(socket, size as usize)
            .map(MessageTotals::single)
    })
}
