//! What an Outcome's own figures give reason to doubt.

use std::time::Duration;

use crate::{
    Ended, FlowPlan, Half, Limit, Outcome, Paced, Pacing, Side, SocketBuffer, SocketFacts,
    SocketOptions, Transport, Warning, Workload, warning::End,
};

/// A CPU with less idle time than this is what may have been measured.
const SATURATED_PERCENT: f64 = 95.0;

/// Less stolen time than this is not worth a line.
const STEAL_PERCENT: f64 = 2.0;

/// A thread that worked for this much of its time never waited for anything else.
const NEVER_WAITED_PERCENT: f64 = 97.0;

impl Outcome {
    /// The doubts that lie in the figures of both ends. What only who ran the test can know (a port
    /// that was replaced, a peer that served others) is not among them.
    pub fn doubts(&self) -> Vec<Warning> {
        let Some(plan) = self.plan.flow() else {
            return Vec::new();
        };
        let mut doubts = Vec::new();
        let transport = plan.transport;
        doubts.extend(of_end(End::Here, &self.here, &plan.here, transport));
        if let Some(there) = &self.there {
            doubts.extend(of_end(End::There, there, &plan.there, transport));
            let datagrams = there.counts.receive_calls_late;
            doubts.extend((datagrams > 0).then_some(Warning::LateDatagrams { datagrams }));
        }
        let failed_sends = self.here.counts.failed_sends;
        doubts.extend((failed_sends > 0).then_some(Warning::SenderOverflow { failed_sends }));
        doubts.extend(self.sender_limited(plan));
        doubts.extend((self.here.socket.multipath == Some(false)).then_some(Warning::FellBack));
        let no_data = self.here.socket.data_in_syn == Some(false);
        doubts.extend(no_data.then_some(Warning::NoDataInSyn));
        let there = self.there.as_ref().and_then(|there| there.elapsed);
        let after = ended_early(&self.ended, plan.limit, self.here.elapsed, there);
        doubts.extend(after.map(|after| Warning::EndedEarly { after }));
        doubts
    }

    fn sender_limited(&self, plan: &FlowPlan) -> Option<Warning> {
        let one_way = plan.workload == Workload::send();
        let (thread, elapsed) = (self.here.thread_cpu?, self.here.elapsed?);
        let thread_percent = 100.0 * thread.as_secs_f64() / elapsed.as_secs_f64();
        (one_way && thread_percent > NEVER_WAITED_PERCENT)
            .then_some(Warning::SenderLimited { thread_percent })
    }
}

/// How long the test ran `here`, if the user or the peer ended it before its time.
fn ended_early(
    ended: &Ended,
    limit: Limit,
    here: Option<Duration>,
    there: Option<Duration>,
) -> Option<Duration> {
    let after = here?;
    match (ended, limit) {
        (Ended::Cancelled, _) => Some(after),
        // A peer that sends goes by its own clock, which may begin a little earlier or later.
        (Ended::PeerClosed, Limit::Time(length)) => {
            let longest = after.max(there.unwrap_or_default());
            (longest < length * 99 / 100).then_some(after)
        }
        _ => None,
    }
}

fn of_end(end: End, side: &Side, asked: &Half, transport: Transport) -> Vec<Warning> {
    let mut doubts = Vec::new();
    if let Some(cpu) = &side.cpu {
        if let Some((_, busy_percent)) = cpu.peak.filter(|(_, busy)| *busy > SATURATED_PERCENT) {
            doubts.push(Warning::CpuSaturated { end, busy_percent });
        }
        if let Some(steal_percent) = cpu.steal_percent.filter(|steal| *steal > STEAL_PERCENT) {
            doubts.push(Warning::StealTime { end, steal_percent });
        }
    }
    doubts.extend(clipped(end, &side.socket, &asked.socket));
    doubts.extend(not_in_force(end, side, &asked.socket, transport));
    if let (Some(pacing), Some(paced)) = (&asked.pacing, &side.paced) {
        doubts.extend(unpaced(end, pacing, paced));
    }
    doubts
}

/// A rate of more than this is not meant as one: `-b 10G` is how people say "as fast as it goes".
const MOST_PASSES_A_SECOND: f64 = 1e9;

/// A schedule is held to this share of what was due, or to one pass, whichever is more.
const PACE_TOLERANCE: f64 = 0.001;

/// Fewer late intervals than this are a machine that has other things to do now and then.
const LATE_PERCENT: f64 = 1.0;

fn unpaced(end: End, pacing: &Pacing, paced: &Paced) -> Option<Warning> {
    if pacing.rate() > MOST_PASSES_A_SECOND {
        return None;
    }
    let behind = paced.behind(pacing);
    let due = paced.passes + behind;
    if behind > 1 && behind as f64 > PACE_TOLERANCE * due as f64 {
        return Some(Warning::PacingNotHeld {
            end,
            asked_per_second: pacing.rate(),
            reached_per_second: paced.rate()?,
        });
    }
    let late_percent = 100.0 * paced.late_intervals as f64 / paced.intervals.max(1) as f64;
    (late_percent > LATE_PERCENT).then_some(Warning::PacingUneven {
        end,
        late_percent,
        worst: paced.worst_lag,
    })
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

/// Settings that the system refused, and those that it took and changed.
fn not_in_force(
    end: End,
    side: &Side,
    asked: &SocketOptions,
    transport: Transport,
) -> Vec<Warning> {
    let facts = &side.socket;
    let algorithm = asked.congestion_control.clone();
    let algorithm = algorithm.filter(|_| transport.has_tcp_options());
    let number = |number: i32| number.to_string();
    // In hexadecimal, as -Y takes it. TCP keeps the two bits of ECN for itself.
    let byte = |byte: i32| format!("{byte:#04x}");
    let settings = [
        (
            "SO_PRIORITY",
            asked.priority.map(number),
            facts.priority.map(number),
        ),
        (
            "IP_TOS",
            asked.type_of_service.map(i32::from).map(byte),
            facts.type_of_service.map(byte),
        ),
        (
            "TCP_CONGESTION",
            algorithm,
            facts.congestion_control.clone(),
        ),
    ];
    let changed = settings.into_iter().filter_map(|(name, asked, in_force)| {
        let (asked, in_force) = (asked?, in_force?);
        let is_refused = side.refused.iter().any(|refused| refused.setting == name);
        (asked != in_force && !is_refused).then(|| Warning::NotInForce {
            end,
            setting: name.to_owned(),
            asked,
            // A stock server reports a refusal as a negative value.
            in_force: Some(in_force).filter(|value| !value.starts_with('-')),
            why: None,
        })
    });
    let refused = side.refused.iter().cloned();
    let refused = refused.map(|refused| Warning::NotInForce {
        end,
        setting: refused.setting,
        asked: refused.asked,
        in_force: None,
        why: Some(refused.why),
    });
    refused.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refused;

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
    fn a_peer_that_took_its_time_did_not_end_early() {
        let time = |milliseconds| Some(Duration::from_millis(milliseconds));
        let limit = Limit::Time(Duration::from_secs(1));
        for (here, there, is_early) in [
            (time(960), None, true),
            (time(960), time(500), true),
            (time(960), time(1001), false),
            (time(995), time(500), false),
        ] {
            let early = ended_early(&Ended::PeerClosed, limit, here, there);
            assert_eq!(early, here.filter(|_| is_early), "{here:?} {there:?}");
        }
    }

    #[test]
    fn a_setting_that_is_not_in_force_is_named_with_the_reason() {
        let asked = SocketOptions {
            priority: Some(7),
            type_of_service: Some(0xff),
            congestion_control: Some("reno".to_owned()),
            ..SocketOptions::default()
        };
        let side = |priority, tos, congestion_control: &str, refused: &[&str]| Side {
            socket: SocketFacts {
                priority: Some(priority),
                type_of_service: Some(tos),
                congestion_control: Some(congestion_control.to_owned()),
                ..SocketFacts::default()
            },
            refused: (refused.iter())
                .map(|setting| Refused {
                    setting: (*setting).to_owned(),
                    asked: "7".to_owned(),
                    why: "Operation not permitted".to_owned(),
                })
                .collect(),
            ..Side::default()
        };
        for (side, transport, said) in [
            (side(7, 0xff, "reno", &[]), Transport::Tcp, &[][..]),
            (
                side(0, 0xff, "reno", &["SO_PRIORITY"]),
                Transport::Tcp,
                &["the peer did not take SO_PRIORITY 7: Operation not permitted"],
            ),
            (
                side(-2, 0xfc, "cubic", &[]),
                Transport::Tcp,
                &[
                    "the peer did not take SO_PRIORITY 7",
                    "the peer did not take IP_TOS 0xff (in force: 0xfc)",
                    "the peer did not take TCP_CONGESTION reno (in force: cubic)",
                ],
            ),
            (side(7, 0xff, "TCP Only", &[]), Transport::Udp, &[]),
        ] {
            let doubts = not_in_force(End::There, &side, &asked, transport);
            let doubts: Vec<String> = doubts.iter().map(Warning::to_string).collect();
            assert_eq!(doubts, said);
        }
    }

    #[test]
    fn a_schedule_is_held_to_a_thousandth_or_to_one_pass() {
        use crate::Wait;
        let pacing = |burst, micros| Pacing {
            burst,
            interval: Duration::from_micros(micros),
            wait: Wait::Sleep,
        };
        // Over one second: what was asked, passes, late of them, what is said.
        for (pacing, passes, late, said) in [
            (pacing(1, 1000), 1000, 0, ""),
            (pacing(1, 1000), 999, 9, ""),
            (pacing(1, 1000), 998, 10, "not held"),
            (pacing(1, 10), 99_901, 0, ""),
            (pacing(1, 10), 99_899, 0, "not held"),
            (pacing(1, 10), 100_000, 2_000, "uneven"),
            // The last interval is not over.
            (pacing(10, 300_000), 31, 0, ""),
            (pacing(10, 300_000), 28, 0, "not held"),
            (pacing(10 << 30, 1000), 5_000, 0, ""),
        ] {
            let paced = Paced {
                passes,
                elapsed: Duration::from_secs(1),
                intervals: passes,
                late_intervals: late,
                ..Paced::default()
            };
            let warning =
                unpaced(End::Here, &pacing, &paced).map_or(String::new(), |doubt| doubt.gist());
            assert!(
                warning.contains(said) && warning.is_empty() == said.is_empty(),
                "{passes} of {pacing:?}: {warning}"
            );
        }
    }

    #[test]
    fn a_doubt_says_its_figure() {
        for (doubt, text) in [
            (
                Warning::SameHost,
                "both ends run on one machine: each CPU figure contains both",
            ),
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
