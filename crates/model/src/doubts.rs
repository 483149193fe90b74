//! What an Outcome's own figures give reason to doubt.

use crate::{
    Ended, Outcome, Side, SocketBuffer, SocketFacts, SocketOptions, Warning, Workload, warning::End,
};

/// A CPU with less idle time than this is what may have been measured.
const SATURATED_PERCENT: f64 = 95.0;

/// Less stolen time than this is not worth a line.
const STEAL_PERCENT: f64 = 2.0;

/// A thread that worked for this much of its time never waited for anything else.
const NEVER_WAITED_PERCENT: f64 = 97.0;

impl Outcome {
    /// The doubts that lie in the figures of both ends. What only who ran the test can know (a port that
    /// was replaced, a peer that served others) is not among them.
    pub fn doubts(&self) -> Vec<Warning> {
        let mut doubts = Vec::new();
        doubts.extend(of_end(End::Here, &self.here, &self.plan.here.socket));
        if let Some(there) = &self.there {
            doubts.extend(of_end(End::There, there, &self.plan.there.socket));
            let datagrams = there.counts.receive_calls_late;
            doubts.extend((datagrams > 0).then_some(Warning::LateDatagrams { datagrams }));
        }
        let failed_sends = self.here.counts.failed_sends;
        doubts.extend((failed_sends > 0).then_some(Warning::SenderOverflow { failed_sends }));
        doubts.extend(self.sender_limited());
        if let (Ended::Cancelled, Some(after)) = (&self.ended, self.here.elapsed) {
            doubts.push(Warning::EndedEarly { after });
        }
        doubts
    }

    fn sender_limited(&self) -> Option<Warning> {
        let one_way = self.plan.workload == Workload::send();
        let (thread, elapsed) = (self.here.thread_cpu?, self.here.elapsed?);
        let thread_percent = 100.0 * thread.as_secs_f64() / elapsed.as_secs_f64();
        (one_way && thread_percent > NEVER_WAITED_PERCENT)
            .then_some(Warning::SenderLimited { thread_percent })
    }
}

fn of_end(end: End, side: &Side, asked: &SocketOptions) -> Vec<Warning> {
    let mut doubts = Vec::new();
    if let Some(cpu) = &side.cpu {
        if let Some((_, busy_percent)) = cpu.peak.filter(|(_, busy)| *busy > SATURATED_PERCENT) {
            doubts.push(Warning::CpuSaturated { end, busy_percent });
        }
        if let Some(steal_percent) = cpu.steal_percent.filter(|steal| *steal > STEAL_PERCENT) {
            doubts.push(Warning::StealTime { end, steal_percent });
        }
    }
    doubts.extend(clipped(end, &side.socket, asked));
    doubts
}

/// Linux doubles what is asked for, for its own bookkeeping: socket(7).
fn clipped(end: End, socket: &SocketFacts, asked: &SocketOptions) -> Vec<Warning> {
    let buffers = [
        (
            SocketBuffer::Send,
            asked.send_buffer_bytes,
            socket.send_buffer_bytes,
        ),
        (
            SocketBuffer::Receive,
            asked.receive_buffer_bytes,
            socket.receive_buffer_bytes,
        ),
    ];
    let clipped = |(buffer, asked, given): (SocketBuffer, Option<u32>, Option<u32>)| {
        let (asked_bytes, given_bytes) = (asked?, given?);
        (u64::from(given_bytes) < 2 * u64::from(asked_bytes)).then_some(Warning::BufferClipped {
            end,
            buffer,
            asked_bytes,
            given_bytes,
        })
    };
    buffers.into_iter().filter_map(clipped).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_buffer_is_clipped_when_it_is_not_the_double() {
        let asked = SocketOptions {
            send_buffer_bytes: Some(1000),
            receive_buffer_bytes: Some(1 << 30),
            ..SocketOptions::default()
        };
        let given = |send, receive| SocketFacts {
            send_buffer_bytes: Some(send),
            receive_buffer_bytes: Some(receive),
            ..SocketFacts::default()
        };
        assert_eq!(clipped(End::Here, &given(4608, 1 << 31), &asked), []);
        assert_eq!(
            clipped(End::There, &given(4608, 425_984), &asked),
            [Warning::BufferClipped {
                end: End::There,
                buffer: SocketBuffer::Receive,
                asked_bytes: 1 << 30,
                given_bytes: 425_984,
            }]
        );
    }

    #[test]
    fn a_doubt_says_its_figure() {
        for (doubt, text) in [
            (
                Warning::SenderOverflow { failed_sends: 3 },
                "the sender's own queue overflowed (ENOBUFS): not all loss is the path's (3 times)",
            ),
            (
                Warning::EndedEarly {
                    after: Duration::from_millis(1250),
                },
                "ended early: the figures are of the time until then (1.25 s)",
            ),
        ] {
            assert_eq!(doubt.to_string(), text);
        }
    }
}
