//! splice(2) to the null device: the kernel discards received data.

use std::os::fd::BorrowedFd;

use sys::call::{Drain, Error};
use sys::message::Moved;

use super::method::Sink;
use crate::hooks::Hooks;

/// The null device, inside the kernel.
pub(crate) struct IntoNothing<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) pipe: Drain,
    pub(crate) size: usize,
}

impl Sink for IntoNothing<'_> {
    #[inline]
    fn receive(&mut self, _: &mut impl Hooks) -> Result<Moved, Error> {
        self.pipe.receive(self.socket, self.size).map(Moved::one)
    }
}
