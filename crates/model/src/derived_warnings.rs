//! Warnings that follow from the figures of an Outcome.

use std::time::Duration;

use crate::{
    EndCause, EndpointPlan, FlowPlan, Limit, Outcome, Pacing, PacingResult, Side, SocketBuffer,
    SocketFacts, SocketOptions, Transport, Warning, Workload, warning::End,
};

/// A CPU that is busier than this may have limited the result.
const SATURATED_CPU_PERCENT: f64 = 95.0;

/// Stolen time up to this share causes no warning.
const STEAL_PERCENT: f64 = 2.0;

/// A thread that is busier than this practically never waited.
const BUSY_THREAD_PERCENT: f64 = 97.0;

impl Outcome {
    /// Returns the warnings that follow from the figures of both ends. Other warnings, such as a
    /// replaced port, come from the code that ran the test.
    pub fn derive_warnings(&self) -> Vec<Warning> {
        let Some(plan) = self.plan.flow() else {
            return Vec::new();
        };
        let mut warnings = Vec::new();
        let transport = plan.transport;
        warnings.extend(endpoint_warnings(
            End::Local,
            &self.local,
            &plan.local,
            transport,
        ));
        if let Some(remote) = &self.remote {
            warnings.extend(endpoint_warnings(
                End::Remote,
                remote,
                &plan.remote,
                transport,
            ));
            let datagrams = remote.counts.receive_calls_late;
            warnings.extend((datagrams > 0).then_some(Warning::LateDatagrams { datagrams }));
        }
        let failed_sends = self.local.counts.failed_sends;
        warnings.extend((failed_sends > 0).then_some(Warning::SenderOverflow { failed_sends }));
        warnings.extend(self.sender_limited_warning(plan));
        warnings.extend((self.local.socket.multipath == Some(false)).then_some(Warning::FellBack));
        let sent_no_data_in_syn = self.local.socket.data_in_syn == Some(false);
        warnings.extend(sent_no_data_in_syn.then_some(Warning::NoDataInSyn));
        let remote_elapsed = self.remote.as_ref().and_then(|remote| remote.elapsed);
        let local_elapsed = self.local.elapsed;
        let after = duration_if_ended_early(&self.ended, plan.limit, local_elapsed, remote_elapsed);
        warnings.extend(after.map(|after| Warning::EndedEarly { after }));
        warnings
    }

    fn sender_limited_warning(&self, plan: &FlowPlan) -> Option<Warning> {
        let one_way = plan.workload == Workload::send();
        let (thread, elapsed) = (self.local.thread_cpu?, self.local.elapsed?);
        let thread_percent = 100.0 * thread.as_secs_f64() / elapsed.as_secs_f64();
        (one_way && thread_percent > BUSY_THREAD_PERCENT)
            .then_some(Warning::SenderLimited { thread_percent })
    }
}

/// Returns the local duration of the test if the user or the peer ended it early.
fn duration_if_ended_early(
    ended: &EndCause,
    limit: Limit,
    local_elapsed: Option<Duration>,
    remote_elapsed: Option<Duration>,
) -> Option<Duration> {
    let after = local_elapsed?;
    match (ended, limit) {
        (EndCause::Cancelled, _) => Some(after),
        // A peer that sends ends the test by its own clock. Its test may have started slightly
        // earlier or later than this end's.
        (EndCause::PeerClosed, Limit::Time(length)) => {
            let longest = after.max(remote_elapsed.unwrap_or_default());
            (longest < length * 99 / 100).then_some(after)
        }
        _ => None,
    }
}

fn endpoint_warnings(
    end: End,
    side: &Side,
    plan: &EndpointPlan,
    transport: Transport,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(cpu) = &side.cpu {
        if let Some((_, busy_percent)) = cpu.peak.filter(|(_, busy)| *busy > SATURATED_CPU_PERCENT)
        {
            warnings.push(Warning::CpuSaturated { end, busy_percent });
        }
        if let Some(steal_percent) = cpu.steal_percent.filter(|steal| *steal > STEAL_PERCENT) {
            warnings.push(Warning::StealTime { end, steal_percent });
        }
    }
    warnings.extend(clipped_buffer_warnings(end, &side.socket, &plan.socket));
    warnings.extend(settings_not_in_force(end, side, &plan.socket, transport));
    if let (Some(pacing), Some(paced)) = (&plan.pacing, &side.pacing_result) {
        warnings.extend(pacing_warning(end, pacing, paced));
    }
    warnings
}

/// A rate above this means no pacing: users request "as fast as possible" with `-b 10G`.
const MAX_PASSES_PER_SECOND: f64 = 1e9;

/// The share of due passes that a schedule may miss without a warning. It may always miss one pass.
const MISSING_PASSES_TOLERANCE: f64 = 0.001;

/// A share of late intervals up to this is normal on a machine with other work.
const LATE_INTERVALS_PERCENT: f64 = 1.0;

fn pacing_warning(end: End, pacing: &Pacing, result: &PacingResult) -> Option<Warning> {
    if pacing.rate() > MAX_PASSES_PER_SECOND {
        return None;
    }
    let missing = result.missing_passes(pacing);
    let due = result.passes + missing;
    if missing > 1 && missing as f64 > MISSING_PASSES_TOLERANCE * due as f64 {
        return Some(Warning::PacingNotHeld {
            end,
            requested_per_second: pacing.rate(),
            achieved_per_second: result.rate()?,
        });
    }
    let late_percent = 100.0 * result.late_intervals as f64 / result.intervals.max(1) as f64;
    (late_percent > LATE_INTERVALS_PERCENT).then_some(Warning::PacingUneven {
        end,
        late_percent,
        worst: result.worst_lag,
    })
}

/// Returns warnings for buffers smaller than requested. Linux doubles the requested size for its
/// bookkeeping: socket(7).
fn clipped_buffer_warnings(
    end: End,
    socket: &SocketFacts,
    requested: &SocketOptions,
) -> Vec<Warning> {
    let buffers = [
        (
            SocketBuffer::Send,
            requested.send_buffer_bytes,
            socket.send_buffer_bytes,
        ),
        (
            SocketBuffer::Receive,
            requested.receive_buffer_bytes,
            socket.receive_buffer_bytes,
        ),
    ];
    let clipped = |(buffer, requested, granted): (SocketBuffer, Option<u32>, Option<u32>)| {
        let (requested_bytes, given_bytes) = (requested?, granted?);
        (u64::from(given_bytes) < 2 * u64::from(requested_bytes)).then_some(
            Warning::BufferClipped {
                end,
                buffer,
                requested_bytes,
                granted_bytes: given_bytes,
            },
        )
    };
    buffers.into_iter().filter_map(clipped).collect()
}

/// Returns warnings for settings that the system refused or changed.
fn settings_not_in_force(
    end: End,
    side: &Side,
    requested: &SocketOptions,
    transport: Transport,
) -> Vec<Warning> {
    let socket = &side.socket;
    let algorithm = requested.congestion_control.clone();
    let algorithm = algorithm.filter(|_| transport.has_tcp_options());
    let decimal = |value: i32| value.to_string();
    // As in option -Y. TCP sets the two ECN bits itself, so the value in force may differ.
    let hexadecimal = |byte: i32| format!("{byte:#04x}");
    let settings = [
        (
            "SO_PRIORITY",
            requested.priority.map(decimal),
            socket.priority.map(decimal),
        ),
        (
            "IP_TOS",
            requested.type_of_service.map(i32::from).map(hexadecimal),
            socket.type_of_service.map(hexadecimal),
        ),
        (
            "TCP_CONGESTION",
            algorithm,
            socket.congestion_control.clone(),
        ),
    ];
    let changed = settings
        .into_iter()
        .filter_map(|(name, requested, in_force)| {
            let (requested, in_force) = (requested?, in_force?);
            let is_refused = side.refused.iter().any(|refused| refused.setting == name);
            (requested != in_force && !is_refused).then(|| Warning::NotInForce {
                end,
                setting: name.to_owned(),
                requested,
                // A stock server reports a refusal as a negative value.
                in_force: Some(in_force).filter(|value| !value.starts_with('-')),
                reason: None,
            })
        });
    let refused = side.refused.iter().cloned();
    let refused = refused.map(|refused| Warning::NotInForce {
        end,
        setting: refused.setting,
        requested: refused.requested,
        in_force: None,
        reason: Some(refused.reason),
    });
    refused.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefusedSetting;

    #[test]
    fn a_buffer_below_twice_the_requested_size_is_clipped() {
        let requested = SocketOptions {
            send_buffer_bytes: Some(1000),
            receive_buffer_bytes: Some(1 << 30),
            ..SocketOptions::default()
        };
        let granted = |send, receive| SocketFacts {
            send_buffer_bytes: Some(send),
            receive_buffer_bytes: Some(receive),
            ..SocketFacts::default()
        };
        assert_eq!(
            clipped_buffer_warnings(End::Local, &granted(4608, 1 << 31), &requested),
            []
        );
        assert_eq!(
            clipped_buffer_warnings(End::Remote, &granted(4608, 425_984), &requested),
            [Warning::BufferClipped {
                end: End::Remote,
                buffer: SocketBuffer::Receive,
                requested_bytes: 1 << 30,
                granted_bytes: 425_984,
            }]
        );
    }

    #[test]
    fn a_test_of_full_duration_at_either_end_is_not_early() {
        let time = |milliseconds| Some(Duration::from_millis(milliseconds));
        let limit = Limit::Time(Duration::from_secs(1));
        for (local, remote, is_early) in [
            (time(960), None, true),
            (time(960), time(500), true),
            (time(960), time(1001), false),
            (time(995), time(500), false),
        ] {
            let early = duration_if_ended_early(&EndCause::PeerClosed, limit, local, remote);
            assert_eq!(early, local.filter(|_| is_early), "{local:?} {remote:?}");
        }
    }

    #[test]
    fn a_setting_not_in_force_is_reported_with_the_reason() {
        let requested = SocketOptions {
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
                .map(|setting| RefusedSetting {
                    setting: (*setting).to_owned(),
                    requested: "7".to_owned(),
                    reason: "Operation not permitted".to_owned(),
                })
                .collect(),
            ..Side::default()
        };
        for (side, transport, expected) in [
            (side(7, 0xff, "reno", &[]), Transport::Tcp, &[][..]),
            (
                side(0, 0xff, "reno", &["SO_PRIORITY"]),
                Transport::Tcp,
                &["the peer did not apply SO_PRIORITY 7: Operation not permitted"],
            ),
            (
                side(-2, 0xfc, "cubic", &[]),
                Transport::Tcp,
                &[
                    "the peer did not apply SO_PRIORITY 7",
                    "the peer did not apply IP_TOS 0xff (in force: 0xfc)",
                    "the peer did not apply TCP_CONGESTION reno (in force: cubic)",
                ],
            ),
            (side(7, 0xff, "TCP Only", &[]), Transport::Udp, &[]),
        ] {
            let warnings = settings_not_in_force(End::Remote, &side, &requested, transport);
            let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
            assert_eq!(texts, expected);
        }
    }

    #[test]
    fn a_schedule_may_miss_a_thousandth_or_one_pass() {
        use crate::Wait;
        let pacing = |burst, micros| Pacing {
            burst,
            interval: Duration::from_micros(micros),
            wait: Wait::Sleep,
        };
        // Over one second: schedule, passes, late intervals, part of the expected warning.
        for (pacing, passes, late, expected) in [
            (pacing(1, 1000), 1000, 0, ""),
            (pacing(1, 1000), 999, 9, ""),
            (pacing(1, 1000), 998, 10, "fell behind its schedule"),
            (pacing(1, 10), 99_901, 0, ""),
            (pacing(1, 10), 99_899, 0, "fell behind its schedule"),
            (pacing(1, 10), 100_000, 2_000, "uneven"),
            // The last interval has not ended.
            (pacing(10, 300_000), 31, 0, ""),
            (pacing(10, 300_000), 28, 0, "fell behind its schedule"),
            (pacing(10 << 30, 1000), 5_000, 0, ""),
        ] {
            let paced = PacingResult {
                passes,
                elapsed: Duration::from_secs(1),
                intervals: passes,
                late_intervals: late,
                ..PacingResult::default()
            };
            let warning = pacing_warning(End::Local, &pacing, &paced)
                .map_or(String::new(), |warning| warning.summary());
            assert!(
                warning.contains(expected) && warning.is_empty() == expected.is_empty(),
                "{passes} of {pacing:?}: {warning}"
            );
        }
    }

    #[test]
    fn a_warning_includes_its_figure() {
        for (warning, text) in [
            (
                Warning::SameHost,
                "both ends run on one machine: each CPU figure contains both",
            ),
            (
                Warning::SenderOverflow { failed_sends: 3 },
                "the sender's local queue overflowed (ENOBUFS); part of the loss is local (3 times)",
            ),
            (
                Warning::EndedEarly {
                    after: Duration::from_millis(1250),
                },
                "the test ended early; the figures cover the time until then (1.25 s)",
            ),
        ] {
            assert_eq!(warning.to_string(), text);
        }
    }
}
