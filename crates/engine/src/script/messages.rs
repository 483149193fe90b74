//! Transfers of several messages a call, and of messages of which something is said.

use sys::message::{ControlMessage, Messages, Moved};

use super::executor::{Executor, Left, Way};
use model::Transfer;

use crate::io::Connection;

impl Executor<'_> {
    /// Sends all messages of a batch, which are of one size, or receives as many bytes in whatever
    /// messages they come; where their size is not known, as many messages.
    pub(super) fn batch(
        &mut self,
        connection: &Connection,
        way: Way,
        transfer: Transfer,
        messages: &mut Messages,
        control: Option<&ControlMessage>,
    ) -> Result<(), Left> {
        let (each, whole) = self.wanted(transfer.amount, way);
        let waits = transfer.waits;
        let count = transfer.batch.map_or(1, |batch| batch.count);
        let mut left = count.saturating_mul(each as u64);
        while left > 0 {
            if let Some(patience) = transfer.patience.filter(|_| waits) {
                way.wait(connection, patience, self.stop)?;
            }
            // The last piece may be less than a message.
            let (times, piece) = match left / each as u64 {
                0 => (1, left as usize),
                times => (times, each),
            };
            let piece = &mut self.buffer[..piece];
            let moved = match way {
                Way::Out => connection
                    .with_io(|io| io.send_messages(messages, control, piece, times, waits)),
                Way::In => {
                    connection.with_io(|io| io.receive_messages(messages, piece, times, waits))
                }
            };
            match moved {
                Ok(Moved { bytes: 0, .. }) => return Err(Left::EndOfStream),
                Ok(Moved { bytes, messages }) => {
                    self.moved(way, bytes);
                    left -= match way {
                        // Each is a message, however short it is.
                        Way::In if !whole => (messages * each) as u64,
                        _ => bytes as u64,
                    };
                    if left == 0 {
                        return Ok(());
                    }
                }
                Err(error) => self.recover(error, connection, way, transfer)?,
            }
            if self.stop.is_set() {
                return Err(Left::Stopped);
            }
        }
        Ok(())
    }
}
