//! Sizes of socket buffers, calls and messages, and how many buffers there were.

use model::{BufferPlan, BuffersUsed, SizeRule, WidthRule};

use super::{Figures, known};
use crate::options::Test;

impl Figures<'_> {
    pub(in crate::output) fn send_buffer(&self) -> i64 {
        known(self.socket().send_buffer_bytes)
    }

    /// What a table shows of this end's room to send: the socket's buffer, or where there is one the
    /// window in frames.
    pub(in crate::output) fn send_room(&self) -> i64 {
        let frames = self.socket().send_window_frames;
        frames.map_or_else(|| self.send_buffer(), i64::from)
    }

    /// Likewise, to receive.
    pub(in crate::output) fn receive_room(&self) -> i64 {
        let frames = self.socket().receive_window_frames;
        frames.map_or_else(|| self.receive_buffer(), i64::from)
    }

    pub(in crate::output) fn send_buffer_end(&self) -> i64 {
        let facts = self.socket();
        known(facts.send_buffer_end_bytes.or(facts.send_buffer_bytes))
    }

    pub(in crate::output) fn receive_buffer(&self) -> i64 {
        known(self.socket().receive_buffer_bytes)
    }

    pub(in crate::output) fn receive_buffer_end(&self) -> i64 {
        let facts = self.socket();
        known(
            facts
                .receive_buffer_end_bytes
                .or(facts.receive_buffer_bytes),
        )
    }

    pub(in crate::output) fn send_size(&self) -> i64 {
        let (typed, _) = self.settings.print.call_sizes;
        self.call_size(self.used().send_bytes, &self.here().send, typed)
    }

    pub(in crate::output) fn receive_size(&self) -> i64 {
        let (_, typed) = self.settings.print.call_sizes;
        self.call_size(self.used().receive_bytes, &self.here().receive, typed)
    }

    fn used(&self) -> &BuffersUsed {
        &self.run.outcome.here.buffers
    }

    /// Requests and responses have selectors of their own; in their tests this is what `-m` or `-M`
    /// says, to no effect.
    fn call_size(&self, used: Option<u32>, plan: &BufferPlan, typed: SizeRule) -> i64 {
        let (used, rule) = if self.is_transactional() {
            (None, typed)
        } else {
            (used, plan.size)
        };
        match (used, rule) {
            (Some(bytes), _) | (None, SizeRule::Bytes(bytes)) => bytes.into(),
            (None, SizeRule::SocketBuffer) => 0,
        }
    }

    pub(in crate::output) fn send_width(&self) -> i64 {
        width(self.used().send_width, &self.here().send)
    }

    pub(in crate::output) fn receive_width(&self) -> i64 {
        width(self.used().receive_width, &self.here().receive)
    }

    /// Bytes; −1 in tests without requests. Connect/close has one for show.
    pub(in crate::output) fn request_size(&self) -> i64 {
        self.transaction_size(&self.here().send)
    }

    /// Bytes; −1 in tests without responses. Connect/close has one for show.
    pub(in crate::output) fn response_size(&self) -> i64 {
        self.transaction_size(&self.here().receive)
    }

    fn transaction_size(&self, plan: &BufferPlan) -> i64 {
        match plan.size {
            SizeRule::Bytes(bytes) if self.is_transactional() => bytes.into(),
            _ if self.settings.test == Test::TcpCc => 1,
            _ => -1,
        }
    }
}

fn width(used: Option<u32>, plan: &BufferPlan) -> i64 {
    match (used, plan.width) {
        (Some(buffers), _) | (None, WidthRule::Buffers(buffers)) => buffers.into(),
        (None, WidthRule::CoverSocketBuffer) => 0,
    }
}
