//! Sizes of socket buffers, calls and messages, and the numbers of buffers.

use model::{BufferPlan, BufferSizes, SizeRule, WidthRule};

use super::{Figures, or_minus_one};
use crate::options::Test;

impl Figures<'_> {
    pub(in crate::output) fn send_buffer(&self) -> i64 {
        or_minus_one(self.socket().send_buffer_bytes)
    }

    /// Returns the local send capacity for a table: the window in frames if there is one, else the
    /// socket buffer.
    pub(in crate::output) fn send_buffer_or_window(&self) -> i64 {
        let frames = self.socket().send_window_frames;
        frames.map_or_else(|| self.send_buffer(), i64::from)
    }

    /// Returns the local receive capacity; see [`Self::send_buffer_or_window`].
    pub(in crate::output) fn receive_buffer_or_window(&self) -> i64 {
        let frames = self.socket().receive_window_frames;
        frames.map_or_else(|| self.receive_buffer(), i64::from)
    }

    pub(in crate::output) fn send_buffer_end(&self) -> i64 {
        let facts = self.socket();
        or_minus_one(facts.send_buffer_end_bytes.or(facts.send_buffer_bytes))
    }

    pub(in crate::output) fn receive_buffer(&self) -> i64 {
        or_minus_one(self.socket().receive_buffer_bytes)
    }

    pub(in crate::output) fn receive_buffer_end(&self) -> i64 {
        let facts = self.socket();
        or_minus_one(
            facts
                .receive_buffer_end_bytes
                .or(facts.receive_buffer_bytes),
        )
    }

    pub(in crate::output) fn send_size(&self) -> i64 {
        let (from_option, _) = self.settings.print.call_sizes;
        self.call_size(
            self.used_sizes().send_bytes,
            &self.local_plan().send,
            from_option,
        )
    }

    pub(in crate::output) fn receive_size(&self) -> i64 {
        let (_, from_option) = self.settings.print.call_sizes;
        self.call_size(
            self.used_sizes().receive_bytes,
            &self.local_plan().receive,
            from_option,
        )
    }

    fn used_sizes(&self) -> &BufferSizes {
        &self.run.outcome.local.buffers
    }

    /// Returns the bytes per call. In request/response tests, it is the value of `-m` or `-M`,
    /// which has no effect: requests and responses have separate selectors.
    fn call_size(&self, used: Option<u32>, plan: &BufferPlan, from_option: SizeRule) -> i64 {
        let (used, rule) = if self.is_transactional() {
            (None, from_option)
        } else {
            (used, plan.size)
        };
        match (used, rule) {
            (Some(bytes), _) | (None, SizeRule::Bytes(bytes)) => bytes.into(),
            (None, SizeRule::SocketBuffer) => 0,
        }
    }

    pub(in crate::output) fn send_width(&self) -> i64 {
        width(self.used_sizes().send_width, &self.local_plan().send)
    }

    pub(in crate::output) fn receive_width(&self) -> i64 {
        width(self.used_sizes().receive_width, &self.local_plan().receive)
    }

    /// Returns bytes per request; −1 in tests without requests. For TCP_CC, stock prints 1.
    pub(in crate::output) fn request_size(&self) -> i64 {
        self.transaction_size(&self.local_plan().send)
    }

    /// Returns bytes per response; −1 in tests without responses. For TCP_CC, stock prints 1.
    pub(in crate::output) fn response_size(&self) -> i64 {
        self.transaction_size(&self.local_plan().receive)
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
