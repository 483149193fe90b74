//! The buffers of both directions of a flow.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use model::{BuffersUsed, Half, SocketFacts, Transport, Workload};

use crate::memory::Memory;
use crate::ring::{Contents, Ring, RingError, SendFile};

/// What moves slower, 1 Mbit/s, need not be waited for in one call that sends much.
const SLOWEST_BYTES_PER_SECOND: u64 = 125_000;

/// What one end sends from and receives into.
#[derive(Debug)]
pub struct Buffers {
    pub(crate) send: Option<Ring>,
    pub(crate) send_file: Option<SendFile>,
    pub(crate) receive: Option<Ring>,
}

impl Buffers {
    /// Makes what the workload needs of what the half plans, for a socket with these facts.
    /// Send buffers are filled from `fill`, the open file that the half names, or else with `pattern`, repeated.
    pub fn new(
        half: &Half,
        workload: &Workload,
        transport: Transport,
        facts: &SocketFacts,
        fill: Option<File>,
        pattern: &[u8],
        memory: &Memory,
    ) -> Result<Self, RingError> {
        let mut buffers = Self {
            send: None,
            send_file: None,
            receive: None,
        };
        let fill = fill.map(|file| (file, half.fill.as_deref().unwrap_or(Path::new(""))));
        if workload.sends() && half.send_from_file {
            buffers.send_file = Some(SendFile::new(&half.send, facts.send_buffer_bytes, fill)?);
        } else if workload.sends() {
            let largest = transport.largest_send();
            let contents = fill.map_or(Contents::Pattern(pattern), |(file, name)| {
                Contents::File(file, name)
            });
            let ring = Ring::new(
                &half.send,
                largest,
                facts.send_buffer_bytes,
                contents,
                memory,
            )?;
            buffers.send = Some(ring);
        }
        if workload.receives() {
            let (plan, socket_buffer) = (&half.receive, facts.receive_buffer_bytes);
            buffers.receive = Some(Ring::new(
                plan,
                None,
                socket_buffer,
                Contents::Nothing,
                memory,
            )?);
        }
        Ok(buffers)
    }

    /// How long nothing may be counted while all is well, where a silence of `idle` is one too many: an
    /// interval of a paced half has its pause, and a call that sends much counts when it returns.
    pub fn patience(&self, idle: Duration, half: &Half) -> Duration {
        let pause = half.pacing.map_or(Duration::ZERO, |pacing| pacing.interval);
        let longest = u64::from(self.used().send_bytes.unwrap_or(0));
        idle + pause + Duration::from_secs(longest / SLOWEST_BYTES_PER_SECOND)
    }

    /// What the plan's rules came to.
    pub fn used(&self) -> BuffersUsed {
        let (send, file, receive) = (&self.send, &self.send_file, &self.receive);
        BuffersUsed {
            send_bytes: send
                .as_ref()
                .map(|ring| ring.size())
                .or(file.as_ref().map(SendFile::size)),
            send_width: send
                .as_ref()
                .map(|ring| ring.width())
                .or(file.as_ref().map(SendFile::width)),
            receive_bytes: receive.as_ref().map(|ring| ring.size()),
            receive_width: receive.as_ref().map(|ring| ring.width()),
        }
    }
}
