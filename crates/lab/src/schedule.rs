//! Impairment schedules: which packets to delay, drop, duplicate or reorder.
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
//! `forth` is from the client to the server. A rule without a direction matches both directions. A
//! rule without a protocol matches all protocols. Each rule numbers the packets that it matches
//! from 1, separately per direction and independently of other rules. Random choices depend only on
//! the seed, the rule's position, the direction and the packet's number.

use std::ops::RangeInclusive;

use crate::random;

/// A direction through the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDirection {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

impl LinkDirection {
    /// Both directions.
    pub const ALL: [Self; 2] = [Self::ToServer, Self::ToClient];

    /// Returns the name in schedules and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::ToServer => "forth",
            Self::ToClient => "back",
        }
    }
}

/// The rules of a forwarder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImpairmentSchedule {
    /// The seed of random choices.
    pub seed: u64,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// The direction to match; `None` matches both.
    direction: Option<LinkDirection>,
    /// The protocol number of the IP header to match; `None` matches all.
    protocol: Option<u8>,
    action: Action,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Delay(Delay),
    Drop(PacketSelection),
    Duplicate(PacketSelection),
    /// Holds packets back for this many nanoseconds, so that later ones overtake them.
    Reorder(PacketSelection, u64),
}

/// A delay, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
enum Delay {
    Fixed(u64),
    Uniform(u64, u64),
    Normal { mean: f64, deviation: f64 },
}

/// A selection among the packets that a rule matches.
#[derive(Clone, Debug, PartialEq)]
enum PacketSelection {
    /// Packet N, 2N, 3N, …
    Every(u64),
    /// The packets with these numbers.
    Packets(Vec<RangeInclusive<u64>>),
    /// Each packet with this probability, from 0 to 1.
    Random(f64),
}

/// A syntax error in a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule, '{line}': {reason}")]
pub struct ScheduleError {
    /// The line, as written.
    pub line: String,
    /// The problem, for example `invalid time '10'`.
    pub reason: String,
}

impl ImpairmentSchedule {
    /// Parses rules, one per line.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let mut schedule = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            let result = match *words {
                [] => Ok(()),
                ["seed", number] => number
                    .parse()
                    .map(|seed| schedule.seed = seed)
                    .map_err(|_| format!("invalid number '{number}'")),
                _ => parse_rule(&words).map(|rule| schedule.rules.push(rule)),
            };
            result.map_err(|reason| ScheduleError {
                line: line.trim().to_owned(),
                reason,
            })?;
        }
        Ok(schedule)
    }

    /// Returns whether the schedule has no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns an impairer for the packets of one direction, starting at the first packet.
    pub fn impairer(&self, direction: LinkDirection) -> Impairer {
        let rules = self.rules.iter().enumerate();
        let rules = rules
            .filter(|(_, rule)| rule.direction.is_none_or(|required| required == direction))
            .map(|(position, rule)| ActiveRule {
                // Each pair of rule and direction has its own seed.
                seed: random::splitmix64(self.seed, position as u64 * 2 + direction as u64),
                rule: rule.clone(),
                packet_count: 0,
            })
            .collect();
        Impairer {
            rules,
            last_due_ns: 0,
        }
    }
}

/// Applies a schedule to the packets of one direction, in order of arrival.
#[derive(Clone, Debug)]
pub struct Impairer {
    rules: Vec<ActiveRule>,
    /// The latest due time of packets that were not held back.
    last_due_ns: u64,
}

/// A rule for one direction, with the number of packets that it has matched.
#[derive(Clone, Debug)]
struct ActiveRule {
    rule: Rule,
    seed: u64,
    packet_count: u64,
}

/// The decision about one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketDecision {
    /// Whether the packet is dropped.
    pub is_dropped: bool,
    /// Whether the packet is sent twice.
    pub is_duplicated: bool,
    /// Whether a `reorder` rule holds the packet back, in addition to the delay.
    pub is_held: bool,
    /// The departure time in nanoseconds, by the clock of `arrival_ns`.
    pub due_ns: u64,
}

impl Impairer {
    /// Decides about the next packet. Varying delays do not change the order. Only
    /// packets that a `reorder` rule holds back are overtaken. If several `delay` rules match, the
    /// first one applies.
    pub fn decide(&mut self, packet: &[u8], arrival_ns: u64) -> PacketDecision {
        let protocol = ip_protocol(packet);
        let mut delay_ns = None;
        let mut held_ns = 0;
        let mut decision = PacketDecision {
            is_dropped: false,
            is_duplicated: false,
            is_held: false,
            due_ns: arrival_ns,
        };
        for ActiveRule {
            rule,
            seed,
            packet_count,
        } in &mut self.rules
        {
            if rule.protocol.is_some() && rule.protocol != protocol {
                continue;
            }
            *packet_count += 1;
            match &rule.action {
                Action::Delay(delay) => {
                    delay_ns = delay_ns.or_else(|| Some(delay.draw_ns(*seed, *packet_count)));
                }
                Action::Drop(selection) => {
                    decision.is_dropped |= selection.selects(*seed, *packet_count);
                }
                Action::Duplicate(selection) => {
                    decision.is_duplicated |= selection.selects(*seed, *packet_count);
                }
                Action::Reorder(selection, time_ns) => {
                    if selection.selects(*seed, *packet_count) {
                        held_ns += time_ns;
                    }
                }
            }
        }
        decision.due_ns += delay_ns.unwrap_or(0);
        decision.is_held = held_ns > 0;
        if decision.is_dropped {
            return decision;
        }
        decision.due_ns = decision.due_ns.max(self.last_due_ns);
        if decision.is_held {
            decision.due_ns += held_ns;
        } else {
            self.last_due_ns = decision.due_ns;
        }
        decision
    }
}

impl Delay {
    fn draw_ns(&self, seed: u64, packet_number: u64) -> u64 {
        match *self {
            Self::Fixed(delay_ns) => delay_ns,
            Self::Uniform(low, high) => {
                low + (random::uniform(seed, packet_number) * (high - low) as f64) as u64
            }
            // Negative delays become 0.
            Self::Normal { mean, deviation } => {
                (mean + deviation * random::normal(seed, packet_number)).max(0.0) as u64
            }
        }
    }
}

impl PacketSelection {
    fn selects(&self, seed: u64, packet_number: u64) -> bool {
        match self {
            Self::Every(step) => packet_number.is_multiple_of(*step),
            Self::Packets(ranges) => ranges.iter().any(|range| range.contains(&packet_number)),
            Self::Random(probability) => random::uniform(seed, packet_number) < *probability,
        }
    }
}

/// Returns the protocol number of an IP packet (RFC 791 §3.1, RFC 8200 §3).
pub(crate) fn ip_protocol(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 => packet.get(9).copied(),
        6 => packet.get(6).copied(),
        _ => None,
    }
}

/// Parses `[DIRECTION] [PROTOCOL] ACTION…`.
fn parse_rule(words: &[&str]) -> Result<Rule, String> {
    let (direction, words) = match *words {
        ["forth", ref words @ ..] => (Some(LinkDirection::ToServer), words),
        ["back", ref words @ ..] => (Some(LinkDirection::ToClient), words),
        ["both", ref words @ ..] | ref words => (None, words),
    };
    // The protocol numbers of /etc/protocols.
    let (protocol, words) = match *words {
        ["icmp", ref words @ ..] => (Some(1), words),
        ["tcp", ref words @ ..] => (Some(6), words),
        ["udp", ref words @ ..] => (Some(17), words),
        ["sctp", ref words @ ..] => (Some(132), words),
        ref words => (None, words),
    };
    Ok(Rule {
        direction,
        protocol,
        action: parse_action(words)?,
    })
}

fn parse_action(words: &[&str]) -> Result<Action, String> {
    match *words {
        ["delay", ref parameters @ ..] => parse_delay(parameters).map(Action::Delay),
        ["drop", ref parameters @ ..] => parse_selection(parameters).map(Action::Drop),
        ["duplicate", ref parameters @ ..] => parse_selection(parameters).map(Action::Duplicate),
        ["reorder", ref parameters @ .., "by", time] => Ok(Action::Reorder(
            parse_selection(parameters)?,
            parse_time_ns(time)?,
        )),
        ["reorder", ..] => Err("expected: reorder WHICH by TIME".to_owned()),
        _ => Err("expected delay, drop, duplicate or reorder".to_owned()),
    }
}

fn parse_delay(words: &[&str]) -> Result<Delay, String> {
    match *words {
        [time] => parse_time_ns(time).map(Delay::Fixed),
        ["uniform", low, high] => {
            let (low, high) = (parse_time_ns(low)?, parse_time_ns(high)?);
            if low > high {
                return Err("the lowest delay is greater than the highest".to_owned());
            }
            Ok(Delay::Uniform(low, high))
        }
        ["normal", mean, deviation] => Ok(Delay::Normal {
            mean: parse_time_ns(mean)? as f64,
            deviation: parse_time_ns(deviation)? as f64,
        }),
        _ => Err(
            "expected delay TIME, delay uniform LOW HIGH or delay normal MEAN DEVIATION".to_owned(),
        ),
    }
}

/// Parses `every N`, `packets 3,5-7`, `random 0.1%`, or `0.1%` alone.
fn parse_selection(words: &[&str]) -> Result<PacketSelection, String> {
    match *words {
        ["every", step] => match step.parse() {
            Ok(step) if step > 0 => Ok(PacketSelection::Every(step)),
            _ => Err(format!("invalid interval 'every {step}'")),
        },
        ["packets", list] => list
            .split(',')
            .map(parse_range)
            .collect::<Result<_, _>>()
            .map(PacketSelection::Packets),
        ["random", percent] | [percent] => parse_percent(percent).map(PacketSelection::Random),
        _ => Err("expected every N, packets LIST or random PERCENT%".to_owned()),
    }
}

fn parse_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err(format!(
            "invalid packet number or range '{text}'; numbers start at 1"
        )),
    }
}

/// Parses a percentage. Returns a share from 0 to 1.
fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.parse().ok());
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("invalid percentage '{text}'; an example is 0.1%")),
    }
}

fn parse_time_ns(text: &str) -> Result<u64, String> {
    let time = units::parse_go_duration(text).and_then(|time| u64::try_from(time.as_nanos()).ok());
    // parse_go_duration rejects zero.
    time.or((text.trim_end_matches(char::is_alphabetic) == "0").then_some(0))
        // The maximum keeps sums of times far below the limit of 64 bits.
        .filter(|time| *time <= 3_600_000_000_000)
        .ok_or_else(|| {
            format!("invalid time '{text}'; examples are 10ms and 1.5s, the maximum is 1 h")
        })
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

    fn decisions(text: &str, direction: LinkDirection, packet_count: u64) -> Vec<PacketDecision> {
        let mut impairer = ImpairmentSchedule::parse(text).unwrap().impairer(direction);
        (1..=packet_count)
            .map(|number| impairer.decide(&UDP, number * 1000))
            .collect()
    }

    /// Returns the numbers, from 1, of the packets that match the predicate.
    fn packet_numbers(
        decisions: &[PacketDecision],
        predicate: impl Fn(&PacketDecision) -> bool,
    ) -> Vec<usize> {
        (1..=decisions.len())
            .filter(|number| predicate(&decisions[number - 1]))
            .collect()
    }

    #[test]
    fn rules_select_packets_to_drop() {
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
            let decisions = decisions(text, LinkDirection::ToServer, 12);
            assert_eq!(
                packet_numbers(&decisions, |decision| decision.is_dropped),
                dropped,
                "{text}"
            );
        }
    }

    #[test]
    fn a_rule_counts_matching_packets() {
        let schedule = ImpairmentSchedule::parse("udp drop every 2").unwrap();
        let mut impairer = schedule.impairer(LinkDirection::ToServer);
        let packets = [&UDP, &TCP, &TCP, &UDP, &UDP, &UDP];
        let dropped = packets.map(|packet| impairer.decide(packet, 0).is_dropped);
        assert_eq!(dropped, [false, false, false, true, false, true]);
    }

    #[test]
    fn the_seed_determines_decisions() {
        let text = |seed| format!("seed {seed}\ndrop 10%\nduplicate 5%\ndelay normal 5ms 1ms");
        let decisions_of = |seed, direction| decisions(&text(seed), direction, 10_000);
        let first = decisions_of(7, LinkDirection::ToServer);
        assert_eq!(first, decisions_of(7, LinkDirection::ToServer));
        assert_ne!(first, decisions_of(8, LinkDirection::ToServer));
        assert_ne!(first, decisions_of(7, LinkDirection::ToClient));
        // Three standard deviations of binomial distributions around 1000 and 500.
        let dropped = packet_numbers(&first, |decision| decision.is_dropped).len();
        assert!((910..=1090).contains(&dropped), "{dropped}");
        let duplicated = packet_numbers(&first, |decision| decision.is_duplicated).len();
        assert!((435..=565).contains(&duplicated), "{duplicated}");
    }

    #[test]
    fn a_second_rule_does_not_change_random_choices_of_the_first() {
        let dropped_of = |text| {
            packet_numbers(
                &decisions(text, LinkDirection::ToServer, 1000),
                |decision| decision.is_dropped,
            )
        };
        assert_eq!(
            dropped_of("seed 3\ndrop 5%"),
            dropped_of("seed 3\ndrop 5%\nduplicate 50%")
        );
    }

    #[test]
    fn delays_keep_the_order() {
        let due_times = |text| -> Vec<u64> {
            let decisions = decisions(text, LinkDirection::ToServer, 1000);
            decisions.iter().map(|decision| decision.due_ns).collect()
        };
        assert_eq!(
            due_times("delay 2ms\ndelay 9ms")[..2],
            [2_001_000, 2_002_000]
        );
        assert_eq!(due_times("drop every 2")[..3], [1000, 2000, 3000]);
        for text in ["delay uniform 5ms 15ms", "delay normal 10ms 3ms"] {
            let due_times = due_times(text);
            assert!(due_times.is_sorted(), "{text} keeps the order");
            assert!(due_times[0] >= 1_000_000, "{text}: {}", due_times[0]);
        }
    }

    #[test]
    fn only_held_packets_are_overtaken() {
        let decisions = decisions(
            "delay 1us\nreorder packets 2 by 5us",
            LinkDirection::ToClient,
            4,
        );
        let due_times: Vec<u64> = decisions.iter().map(|decision| decision.due_ns).collect();
        assert_eq!(due_times, [2000, 8000, 4000, 5000]);
        assert_eq!(packet_numbers(&decisions, |decision| decision.is_held), [2]);
    }

    #[test]
    fn rejects_invalid_schedules() {
        for (text, reason) in [
            (
                "delay 10",
                "invalid time '10'; examples are 10ms and 1.5s, the maximum is 1 h",
            ),
            (
                "delay 2h",
                "invalid time '2h'; examples are 10ms and 1.5s, the maximum is 1 h",
            ),
            (
                "delay uniform 2ms 1ms",
                "the lowest delay is greater than the highest",
            ),
            ("drop every 0", "invalid interval 'every 0'"),
            (
                "drop packets 5-3",
                "invalid packet number or range '5-3'; numbers start at 1",
            ),
            (
                "drop packets 0",
                "invalid packet number or range '0'; numbers start at 1",
            ),
            ("drop 101%", "invalid percentage '101%'; an example is 0.1%"),
            (
                "drop random 0.1",
                "invalid percentage '0.1'; an example is 0.1%",
            ),
            ("drop", "expected every N, packets LIST or random PERCENT%"),
            ("reorder every 2", "expected: reorder WHICH by TIME"),
            (
                "forth corrupt 1%",
                "expected delay, drop, duplicate or reorder",
            ),
            ("seed x", "invalid number 'x'"),
        ] {
            let error = ImpairmentSchedule::parse(&format!("delay 1ms\n{text}\n")).unwrap_err();
            assert_eq!((error.line.as_str(), error.reason.as_str()), (text, reason));
        }
    }

    #[test]
    fn malformed_packets_match_no_protocol() {
        let mut impairer = ImpairmentSchedule::parse("udp drop every 1")
            .unwrap()
            .impairer(LinkDirection::ToServer);
        for packet in [&[][..], &[0x45], &[0x65; 3], &[0; 40]] {
            assert!(!impairer.decide(packet, 0).is_dropped);
        }
    }
}
