//! Checks the event counters of `-e` and `-E`: the hardware must have them, and the kernel must
//! permit them.

use std::io;

use model::Warning;
use sys::counter::{CounterPermission, EventCounters};

use crate::options::CpuCounter;

/// Returns the counters that can be used, and warnings about the others.
pub(super) fn permitted_counters(requested: &[CpuCounter]) -> (Vec<CpuCounter>, Vec<Warning>) {
    if requested.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let events: Vec<_> = requested.iter().map(|counter| counter.event()).collect();
    // Strands get the same result: a permission applies to all threads of this user.
    match EventCounters::open(&events) {
        Ok((_, allowed)) => split_by_permission(requested, allowed),
        Err(error) => {
            let names = requested.iter().map(|counter| counter.name().to_owned());
            let refused = Warning::NotCounted {
                counters: names.collect(),
                reason: sys::describe(&error),
            };
            (Vec::new(), vec![refused])
        }
    }
}

fn split_by_permission(
    requested: &[CpuCounter],
    permissions: Vec<CounterPermission>,
) -> (Vec<CpuCounter>, Vec<Warning>) {
    let mut permitted = Vec::new();
    let mut user_space_only = Vec::new();
    let mut refused: Vec<(Vec<String>, String)> = Vec::new();
    for (counter, permission) in requested.iter().zip(permissions) {
        let name = counter.name().to_owned();
        match permission {
            CounterPermission::Full => permitted.push(*counter),
            CounterPermission::UserSpace => {
                permitted.push(*counter);
                user_space_only.push(name);
            }
            CounterPermission::Unavailable(error) => {
                let reason = describe_refusal(&error);
                match refused.iter_mut().find(|(_, other)| *other == reason) {
                    Some((names, _)) => names.push(name),
                    None => refused.push((vec![name], reason)),
                }
            }
        }
    }
    let refused = refused.into_iter();
    let mut warnings: Vec<_> = refused
        .map(|(counters, reason)| Warning::NotCounted { counters, reason })
        .collect();
    if !user_space_only.is_empty() {
        warnings.push(Warning::UserSpaceOnly {
            counters: user_space_only,
        });
    }
    (permitted, warnings)
}

const PARANOID_SYSCTL: &str = "kernel.perf_event_paranoid";

fn describe_refusal(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "this machine has no such counter".to_owned(),
        io::ErrorKind::PermissionDenied => PARANOID_SYSCTL.to_owned(),
        _ => sys::describe(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_counters_are_reported_with_the_reason() {
        let names = "cycles instructions task-clock context-switches page-faults";
        let requested = CpuCounter::from_names(names.split(' ')).unwrap();
        let refused = |kind: io::ErrorKind| CounterPermission::Unavailable(kind.into());
        let (permitted, warnings) = split_by_permission(
            &requested,
            vec![
                refused(io::ErrorKind::NotFound),
                refused(io::ErrorKind::NotFound),
                CounterPermission::Full,
                refused(io::ErrorKind::PermissionDenied),
                CounterPermission::UserSpace,
            ],
        );
        assert_eq!(permitted, [requested[2], requested[4]]);
        let expected = [
            "not counted: cycles, instructions (this machine has no such counter)",
            "not counted: context-switches (kernel.perf_event_paranoid)",
            "counted in user space only: page-faults (kernel.perf_event_paranoid)",
        ];
        let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn permitted_counters_cause_no_warning() {
        assert_eq!(permitted_counters(&[]), (Vec::new(), Vec::new()));
        let requested = CpuCounter::from_names(["task-clock"]).unwrap();
        let result = split_by_permission(&requested, vec![CounterPermission::Full]);
        assert_eq!(result, (requested, Vec::new()));
    }
}
