//! What is to happen to which packet, written down beforehand.
//!
//! ```text
//! # a comment
//! seed 7
//! delay 10ms
//! forth delay uniform 5ms 15ms
//! back delay normal 10ms 1ms
//! forth udp drop every 100
//! both drop packets 3,10-12
//! drop random 0.1%
//! duplicate every 50
//! reorder every 20 by 5ms
//! ```
//!
//! A rule may name a direction (`forth` is from the client to the server) and a protocol, and else is
//! for both and all. It counts the packets that it is for from 1 in each direction, whatever other
//! rules do to them, so what it does depends on nothing but the seed and that number.

use std::ops::RangeInclusive;

use crate::random;

/// A way through the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Forth,
    /// From the server to the client.
    Back,
}

impl Direction {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Forth, Self::Back];

    /// As it stands in a schedule and in a log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forth => "forth",
            Self::Back => "back",
        }
    }
}

/// The rules of a forwarder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// What random choices start from.
    pub seed: u64,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// `None` for both.
    direction: Option<Direction>,
    /// A number of the IP header; `None` for all.
    protocol: Option<u8>,
    action: Action,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Delay(Delay),
    Drop(Which),
    Duplicate(Which),
    /// Held back by so many nanoseconds, for others to overtake.
    Reorder(Which, u64),
}

/// Times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
enum Delay {
    Fixed(u64),
    Uniform(u64, u64),
    Normal { mean: f64, deviation: f64 },
}

/// Of the packets that a rule is for.
#[derive(Clone, Debug, PartialEq)]
enum Which {
    /// The n-th, the 2n-th, …
    Every(u64),
    /// These.
    Packets(Vec<RangeInclusive<u64>>),
    /// Each with this probability.
    Random(f64),
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule, '{line}': {why}")]
pub struct ScheduleError {
    /// The line as it was written.
    pub line: String,
    /// In words.
    pub why: String,
}

impl Schedule {
    /// Reads rules, one a line.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let mut schedule = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            let done = match *words {
                [] => Ok(()),
                ["seed", number] => number
                    .parse()
                    .map(|seed| schedule.seed = seed)
                    .map_err(|_| format!("'{number}' is no number")),
                _ => rule(&words).map(|rule| schedule.rules.push(rule)),
            };
            done.map_err(|why| ScheduleError {
                line: line.trim().to_owned(),
                why,
            })?;
        }
        Ok(schedule)
    }

    /// Whether nothing happens to any packet.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Its application to one direction, from the first packet on.
    pub fn course(&self, direction: Direction) -> Course {
        let rules = self.rules.iter().enumerate();
        let rules = rules
            .filter(|(_, rule)| rule.direction.is_none_or(|only| only == direction))
            .map(|(number, rule)| Counted {
                // No two rules and directions draw the same numbers.
                seed: random::mixed(self.seed, number as u64 * 2 + direction as u64),
                rule: rule.clone(),
                packets: 0,
            })
            .collect();
        Course {
            rules,
            last_due_ns: 0,
        }
    }
}

/// What happens to the packets of one direction, one after the other.
#[derive(Clone, Debug)]
pub struct Course {
    rules: Vec<Counted>,
    /// Of the packets that keep their order.
    last_due_ns: u64,
}

#[derive(Clone, Debug)]
struct Counted {
    rule: Rule,
    seed: u64,
    packets: u64,
}

/// What happens to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// It goes no further.
    pub dropped: bool,
    /// It leaves twice.
    pub doubled: bool,
    /// It was held back, beside the delay.
    pub held: bool,
    /// When it is to leave, in nanoseconds of the clock that `arrival_ns` was of.
    pub due_ns: u64,
}

impl Course {
    /// Decides on the next packet. Delays that vary keep the packets' order: only what a `reorder`
    /// rule holds back is overtaken. Of several delays the first counts.
    pub fn fate(&mut self, packet: &[u8], arrival_ns: u64) -> Fate {
        let protocol = protocol(packet);
        let mut delay_ns = None;
        let mut held_ns = 0;
        let mut fate = Fate {
            dropped: false,
            doubled: false,
            held: false,
            due_ns: arrival_ns,
        };
        for Counted {
            rule,
            seed,
            packets,
        } in &mut self.rules
        {
            if rule.protocol.is_some() && rule.protocol != protocol {
                continue;
            }
            *packets += 1;
            match &rule.action {
                Action::Delay(delay) => {
                    delay_ns = delay_ns.or_else(|| Some(delay.draw(*seed, *packets)));
                }
                Action::Drop(which) => fate.dropped |= which.has(*seed, *packets),
                Action::Duplicate(which) => fate.doubled |= which.has(*seed, *packets),
                Action::Reorder(which, time_ns) => {
                    if which.has(*seed, *packets) {
                        held_ns += time_ns;
                    }
                }
            }
        }
        fate.due_ns += delay_ns.unwrap_or(0);
        fate.held = held_ns > 0;
        if fate.dropped {
            return fate;
        }
        fate.due_ns = fate.due_ns.max(self.last_due_ns);
        if fate.held {
            fate.due_ns += held_ns;
        } else {
            self.last_due_ns = fate.due_ns;
        }
        fate
    }
}

impl Delay {
    fn draw(&self, seed: u64, packet: u64) -> u64 {
        match *self {
            Self::Fixed(time) => time,
            Self::Uniform(low, high) => {
                low + (random::uniform(seed, packet) * (high - low) as f64) as u64
            }
            // What would leave before it came leaves at once.
            Self::Normal { mean, deviation } => {
                (mean + deviation * random::normal(seed, packet)).max(0.0) as u64
            }
        }
    }
}

impl Which {
    fn has(&self, seed: u64, packet: u64) -> bool {
        match self {
            Self::Every(step) => packet.is_multiple_of(*step),
            Self::Packets(ranges) => ranges.iter().any(|range| range.contains(&packet)),
            Self::Random(probability) => random::uniform(seed, packet) < *probability,
        }
    }
}

/// The protocol above IP: RFC 791 §3.1, RFC 8200 §3.
pub(crate) fn protocol(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 => packet.get(9).copied(),
        6 => packet.get(6).copied(),
        _ => None,
    }
}

/// `[DIRECTION] [PROTOCOL] ACTION…`
fn rule(words: &[&str]) -> Result<Rule, String> {
    let (direction, words) = match *words {
        ["forth", ref rest @ ..] => (Some(Direction::Forth), rest),
        ["back", ref rest @ ..] => (Some(Direction::Back), rest),
        ["both", ref rest @ ..] | ref rest => (None, rest),
    };
    // Numbers of /etc/protocols.
    let (protocol, words) = match *words {
        ["icmp", ref rest @ ..] => (Some(1), rest),
        ["tcp", ref rest @ ..] => (Some(6), rest),
        ["udp", ref rest @ ..] => (Some(17), rest),
        ["sctp", ref rest @ ..] => (Some(132), rest),
        ref rest => (None, rest),
    };
    Ok(Rule {
        direction,
        protocol,
        action: action(words)?,
    })
}

fn action(words: &[&str]) -> Result<Action, String> {
    match *words {
        ["delay", ref rest @ ..] => delay(rest).map(Action::Delay),
        ["drop", ref rest @ ..] => which(rest).map(Action::Drop),
        ["duplicate", ref rest @ ..] => which(rest).map(Action::Duplicate),
        ["reorder", ref rest @ .., "by", time] => Ok(Action::Reorder(which(rest)?, time_ns(time)?)),
        ["reorder", ..] => Err("reorder WHICH by TIME".to_owned()),
        _ => Err("no delay, drop, duplicate or reorder".to_owned()),
    }
}

fn delay(words: &[&str]) -> Result<Delay, String> {
    match *words {
        [time] => time_ns(time).map(Delay::Fixed),
        ["uniform", low, high] => {
            let (low, high) = (time_ns(low)?, time_ns(high)?);
            if low > high {
                return Err("the lowest delay is above the highest".to_owned());
            }
            Ok(Delay::Uniform(low, high))
        }
        ["normal", mean, deviation] => Ok(Delay::Normal {
            mean: time_ns(mean)? as f64,
            deviation: time_ns(deviation)? as f64,
        }),
        _ => Err("delay TIME, delay uniform LOW HIGH or delay normal MEAN DEVIATION".to_owned()),
    }
}

/// `every N`, `packets 3,5-7`, `random 0.1%`, or `0.1%` alone.
fn which(words: &[&str]) -> Result<Which, String> {
    match *words {
        ["every", step] => match step.parse() {
            Ok(step) if step > 0 => Ok(Which::Every(step)),
            _ => Err(format!("every '{step}' is no packet")),
        },
        ["packets", list] => list
            .split(',')
            .map(range)
            .collect::<Result<_, _>>()
            .map(Which::Packets),
        ["random", share] | [share] => percent(share).map(Which::Random),
        _ => Err("which ones? every N, packets LIST or random PERCENT%".to_owned()),
    }
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err(format!(
            "'{text}' is no packet's number from 1 on, and no FIRST-LAST"
        )),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let share = text
        .strip_suffix('%')
        .and_then(|number| number.parse().ok());
    match share {
        Some(share) if (0.0..=100.0).contains(&share) => Ok(share / 100.0),
        _ => Err(format!("'{text}' is no share such as 0.1%")),
    }
}

fn time_ns(text: &str) -> Result<u64, String> {
    let time = units::go_duration(text).and_then(|time| u64::try_from(time.as_nanos()).ok());
    // Go's durations, as what options take, are never zero.
    time.or((text.trim_end_matches(char::is_alphabetic) == "0").then_some(0))
        // Sums of times stay far from the end of 64 bits.
        .filter(|time| *time <= 3_600_000_000_000)
        .ok_or_else(|| format!("'{text}' is no time such as 10ms or 1.5s, of an hour at most"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: [u8; 20] = packet(17);
    const TCP: [u8; 20] = packet(6);

    const fn packet(protocol: u8) -> [u8; 20] {
        let mut packet = [0; 20];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet
    }

    fn fates(text: &str, direction: Direction, packets: u64) -> Vec<Fate> {
        let mut course = Schedule::parse(text).unwrap().course(direction);
        (1..=packets)
            .map(|at| course.fate(&UDP, at * 1000))
            .collect()
    }

    /// The numbers of the packets, from 1, for which `is` holds.
    fn numbers(fates: &[Fate], is: impl Fn(&Fate) -> bool) -> Vec<usize> {
        (1..=fates.len()).filter(|at| is(&fates[at - 1])).collect()
    }

    #[test]
    fn which_packets() {
        for (text, dropped) in [
            ("drop every 4", vec![4, 8, 12]),
            ("drop packets 1,5-7", vec![1, 5, 6, 7]),
            ("drop random 0%", vec![]),
            ("drop 100%", (1..=12).collect()),
            ("forth udp drop every 6", vec![6, 12]),
            ("back drop every 4", vec![]),
            ("tcp drop every 4", vec![]),
            ("both drop packets 2 # two\n\ndrop packets 3", vec![2, 3]),
        ] {
            let fates = fates(text, Direction::Forth, 12);
            assert_eq!(numbers(&fates, |fate| fate.dropped), dropped, "{text}");
        }
    }

    #[test]
    fn a_rule_counts_what_it_is_for() {
        let schedule = Schedule::parse("udp drop every 2").unwrap();
        let mut course = schedule.course(Direction::Forth);
        let packets = [&UDP, &TCP, &TCP, &UDP, &UDP, &UDP];
        let dropped = packets.map(|packet| course.fate(packet, 0).dropped);
        assert_eq!(dropped, [false, false, false, true, false, true]);
    }

    #[test]
    fn the_same_seed_is_the_same_fate() {
        let text = |seed| format!("seed {seed}\ndrop 10%\nduplicate 5%\ndelay normal 5ms 1ms");
        let of = |seed, direction| fates(&text(seed), direction, 10_000);
        let first = of(7, Direction::Forth);
        assert_eq!(first, of(7, Direction::Forth));
        assert_ne!(first, of(8, Direction::Forth));
        assert_ne!(first, of(7, Direction::Back));
        // Three sigmas of a binomial distribution around 1000 and 500.
        let dropped = numbers(&first, |fate| fate.dropped).len();
        assert!((910..=1090).contains(&dropped), "{dropped}");
        let doubled = numbers(&first, |fate| fate.doubled).len();
        assert!((435..=565).contains(&doubled), "{doubled}");
    }

    #[test]
    fn another_rule_does_not_change_the_first() {
        let of = |text| numbers(&fates(text, Direction::Forth, 1000), |fate| fate.dropped);
        assert_eq!(of("seed 3\ndrop 5%"), of("seed 3\ndrop 5%\nduplicate 50%"));
    }

    #[test]
    fn delays() {
        let dues = |text| -> Vec<u64> {
            let fates = fates(text, Direction::Forth, 1000);
            fates.iter().map(|fate| fate.due_ns).collect()
        };
        assert_eq!(dues("delay 2ms\ndelay 9ms")[..2], [2_001_000, 2_002_000]);
        assert_eq!(dues("drop every 2")[..3], [1000, 2000, 3000]);
        for text in ["delay uniform 5ms 15ms", "delay normal 10ms 3ms"] {
            let dues = dues(text);
            assert!(dues.is_sorted(), "{text} keeps the order");
            assert!(dues[0] >= 1_000_000, "{text}: {}", dues[0]);
        }
    }

    #[test]
    fn only_held_packets_are_overtaken() {
        let fates = fates("delay 1us\nreorder packets 2 by 5us", Direction::Back, 4);
        let dues: Vec<u64> = fates.iter().map(|fate| fate.due_ns).collect();
        assert_eq!(dues, [2000, 8000, 4000, 5000]);
        assert_eq!(numbers(&fates, |fate| fate.held), [2]);
    }

    #[test]
    fn what_is_no_schedule() {
        for (text, why) in [
            (
                "delay 10",
                "'10' is no time such as 10ms or 1.5s, of an hour at most",
            ),
            (
                "delay 2h",
                "'2h' is no time such as 10ms or 1.5s, of an hour at most",
            ),
            (
                "delay uniform 2ms 1ms",
                "the lowest delay is above the highest",
            ),
            ("drop every 0", "every '0' is no packet"),
            (
                "drop packets 5-3",
                "'5-3' is no packet's number from 1 on, and no FIRST-LAST",
            ),
            (
                "drop packets 0",
                "'0' is no packet's number from 1 on, and no FIRST-LAST",
            ),
            ("drop 101%", "'101%' is no share such as 0.1%"),
            ("drop random 0.1", "'0.1' is no share such as 0.1%"),
            (
                "drop",
                "which ones? every N, packets LIST or random PERCENT%",
            ),
            ("reorder every 2", "reorder WHICH by TIME"),
            ("forth corrupt 1%", "no delay, drop, duplicate or reorder"),
            ("seed x", "'x' is no number"),
        ] {
            let error = Schedule::parse(&format!("delay 1ms\n{text}\n")).unwrap_err();
            assert_eq!((error.line.as_str(), error.why.as_str()), (text, why));
        }
    }

    #[test]
    fn packets_that_are_none() {
        let mut course = Schedule::parse("udp drop every 1")
            .unwrap()
            .course(Direction::Forth);
        for packet in [&[][..], &[0x45], &[0x65; 3], &[0; 40]] {
            assert!(!course.fate(packet, 0).dropped);
        }
    }
}
