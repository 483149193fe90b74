//! `-e`, `-E`: which of the counters that are asked for this machine has, and lets its user have.

use std::io;

use model::Warning;
use sys::counter::{Allowed, EventCounters};

use crate::options::Counter;

/// Those that can be counted, and doubts about the others.
pub(super) fn counted(asked: &[Counter]) -> (Vec<Counter>, Vec<Warning>) {
    if asked.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let events: Vec<_> = asked.iter().map(|counter| counter.event()).collect();
    // Strands have the same: a thread may count itself wherever another may.
    match EventCounters::open(&events) {
        Ok((_, allowed)) => sorted(asked, allowed),
        Err(error) => {
            let names = asked.iter().map(|counter| counter.name().to_owned());
            let refused = Warning::NotCounted {
                counters: names.collect(),
                why: sys::describe(&error),
            };
            (Vec::new(), vec![refused])
        }
    }
}

fn sorted(asked: &[Counter], allowed: Vec<Allowed>) -> (Vec<Counter>, Vec<Warning>) {
    let mut counted = Vec::new();
    let mut in_user_space = Vec::new();
    let mut refused: Vec<(Vec<String>, String)> = Vec::new();
    for (counter, allowed) in asked.iter().zip(allowed) {
        let name = counter.name().to_owned();
        match allowed {
            Allowed::Whole => counted.push(*counter),
            Allowed::UserSpace => {
                counted.push(*counter);
                in_user_space.push(name);
            }
            Allowed::No(error) => {
                let why = why(&error);
                match refused.iter_mut().find(|(_, other)| *other == why) {
                    Some((names, _)) => names.push(name),
                    None => refused.push((vec![name], why)),
                }
            }
        }
    }
    let refused = refused.into_iter();
    let mut warnings: Vec<_> = refused
        .map(|(counters, why)| Warning::NotCounted { counters, why })
        .collect();
    if !in_user_space.is_empty() {
        warnings.push(Warning::UserSpaceOnly {
            counters: in_user_space,
        });
    }
    (counted, warnings)
}

const FORBIDDEN: &str = "kernel.perf_event_paranoid";

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "this machine has no such counter".to_owned(),
        io::ErrorKind::PermissionDenied => FORBIDDEN.to_owned(),
        _ => sys::describe(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_counted_is_said_with_the_reason() {
        let names = "cycles instructions task-clock context-switches page-faults";
        let asked = Counter::named(names.split(' ')).unwrap();
        let no = |kind: io::ErrorKind| Allowed::No(kind.into());
        let (counted, warnings) = sorted(
            &asked,
            vec![
                no(io::ErrorKind::NotFound),
                no(io::ErrorKind::NotFound),
                Allowed::Whole,
                no(io::ErrorKind::PermissionDenied),
                Allowed::UserSpace,
            ],
        );
        assert_eq!(counted, [asked[2], asked[4]]);
        let expected = [
            "not counted: cycles, instructions (this machine has no such counter)",
            "not counted: context-switches (kernel.perf_event_paranoid)",
            "counted in user space alone: page-faults (kernel.perf_event_paranoid)",
        ];
        let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn nothing_asked_for_is_nothing_said() {
        assert_eq!(counted(&[]), (Vec::new(), Vec::new()));
        let asked = Counter::named(["task-clock"]).unwrap();
        let whole = sorted(&asked, vec![Allowed::Whole]);
        assert_eq!(whole, (asked, Vec::new()));
    }
}
