//! Which slave takes part in a flowop.

use std::iter::repeat_n;

use crate::{Flags, Flowop, Group, Kind, Transaction};

/// The slaves of a group: those that its connections are opened with, in the order in which they
/// come first. Names are the same in upper and lower case.
pub fn hosts(group: &Group) -> Vec<&str> {
    let mut hosts = Vec::<&str>::new();
    for flowop in group.openings() {
        let host = flowop.endpoint.remote_host.as_str();
        if !hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
            hosts.push(host);
        }
    }
    hosts
}

/// Who does the other half of a flowop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Every slave of the group.
    Everyone,
    /// The slave of this host alone.
    Host(&'a str),
    /// One of several, and which is not known before it runs; uperf asks all of them for it.
    Unclear,
}

/// Who takes part in each flowop of each transaction.
///
/// One with a `remotehost=` says so itself. Without it stock masters send the flowop to every slave,
/// which fails where there are several, since only one has the connection. Here it goes to the host
/// of the connection that the master will use: of that name, which may be open to another host later,
/// so the strand's walk through its connections is followed as far as it is certain.
pub fn parts(group: &Group) -> Vec<Vec<Part<'_>>> {
    let several = hosts(group).len() > 1;
    let mut strand = Strand::new(group);
    let transactions = group.transactions.iter();
    transactions
        .map(|transaction| {
            let used = if several {
                strand.walk(transaction)
            } else {
                vec![None; transaction.flowops.len()]
            };
            let flowops = transaction.flowops.iter().zip(used);
            flowops
                .map(|(flowop, used)| {
                    let host = flowop.endpoint.remote_host.as_str();
                    if !host.is_empty() {
                        Part::Host(host)
                    } else if several && flowop.kind.uses_a_connection() {
                        used.map_or(Part::Unclear, Part::Host)
                    } else {
                        Part::Everyone
                    }
                })
                .collect()
        })
        .collect()
}

/// A strand of the master, and its connections as far as they can be foreseen.
struct Strand<'a> {
    /// For each name the one host that connections of that name are open to; names with several are
    /// not in here.
    single: Vec<(u32, &'a str)>,
    /// `None` from where on it is not certain.
    connections: Option<Connections<'a>>,
}

impl<'a> Strand<'a> {
    fn new(group: &'a Group) -> Self {
        let opens: Vec<_> = group
            .openings()
            .map(|flowop| (flowop.connection, flowop.endpoint.remote_host.as_str()))
            .collect();
        let single = opens.iter().copied().filter(|(name, host)| {
            let mut same_name = opens.iter().filter(|(other, _)| other == name);
            same_name.all(|(_, other)| other.eq_ignore_ascii_case(host))
        });
        Self {
            single: single.collect(),
            connections: Some(Connections::default()),
        }
    }

    /// The host that each flowop of the transaction uses, if it is the same in every pass.
    fn walk(&mut self, transaction: &'a Transaction) -> Vec<Option<&'a str>> {
        let mut used = vec![Used::Never; transaction.flowops.len()];
        let before = self.connections.take();
        self.connections = before.and_then(|before| passes(transaction, before, &mut used));
        let flowops = transaction.flowops.iter().zip(used);
        flowops
            .map(|(flowop, used)| match used {
                Used::Always(host) => Some(host),
                Used::Never | Used::Unclear => self.single(flowop.connection),
            })
            .collect()
    }

    fn single(&self, name: u32) -> Option<&'a str> {
        let found = self.single.iter().find(|(single, _)| *single == name);
        found.map(|(_, host)| *host)
    }
}

/// What a flowop has used so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Used<'a> {
    Never,
    Always(&'a str),
    Unclear,
}

impl<'a> Used<'a> {
    fn note(&mut self, host: &'a str) {
        *self = match *self {
            Self::Never => Self::Always(host),
            Self::Always(same) if same.eq_ignore_ascii_case(host) => return,
            Self::Always(_) | Self::Unclear => Self::Unclear,
        };
    }
}

/// Goes through all passes, or as many as differ, and gives the connections that are there after
/// them; `None` if that is not certain.
fn passes<'a>(
    transaction: &'a Transaction,
    mut before: Connections<'a>,
    used: &mut [Used<'a>],
) -> Option<Connections<'a>> {
    let flowops = &transaction.flowops;
    // A clock ends it anywhere in a pass.
    let timed = transaction.duration.is_some();
    let certain_end = !timed || !flowops.iter().any(changes_connections);
    let count = if timed {
        u64::MAX
    } else {
        transaction.iterations
    };
    before.found = vec![None; flowops.len()];
    for pass in 1..=count {
        let mut after = before.clone();
        let end = after.pass(flowops, used);
        if end == Pass::Uncertain || pass > MOST_PASSES {
            if count > 1 {
                used.fill(Used::Unclear);
            }
            return None;
        }
        // All passes that follow are like this one.
        let settled = after == before;
        before = after;
        if settled || end == Pass::Ended {
            break;
        }
    }
    certain_end.then_some(before)
}

/// A transaction whose passes still differ after so many is not followed further.
const MOST_PASSES: u64 = 64;

/// Nor is one that opens or closes more in one flowop.
const MOST_EXECUTIONS: u64 = 64;

fn changes_connections(flowop: &Flowop) -> bool {
    flowop.kind.opens() || flowop.kind == Kind::Disconnect
}

/// What a strand knows of its connections: their names and hosts.
#[derive(Clone, Default, PartialEq)]
struct Connections<'a> {
    /// The newest first.
    pool: Vec<(u32, &'a str)>,
    /// Those that were looked up, in the order of their first use.
    cache: Vec<(u32, &'a str)>,
    /// What each flowop of the transaction has found and not forgotten.
    found: Vec<Option<&'a str>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// All flowops were done.
    Done,
    /// There was nothing to disconnect, which ends a transaction.
    Ended,
    /// What follows depends on what happens.
    Uncertain,
}

impl<'a> Connections<'a> {
    fn pass(&mut self, flowops: &'a [Flowop], used: &mut [Used<'a>]) -> Pass {
        for (index, flowop) in flowops.iter().enumerate() {
            let changes = changes_connections(flowop);
            if changes && flowop.count > MOST_EXECUTIONS {
                return Pass::Uncertain;
            }
            if flowop.count == 0 {
                continue;
            }
            if flowop.kind.opens() {
                // One that may fail may leave nothing behind.
                if flowop.flags.has(Flags::CAN_FAIL) {
                    return Pass::Uncertain;
                }
                let open = (flowop.connection, flowop.endpoint.remote_host.as_str());
                let count = flowop.count as usize;
                self.pool.splice(0..0, repeat_n(open, count));
                self.found[index..].fill(None);
            } else if flowop.kind == Kind::Disconnect {
                for _ in 0..flowop.count {
                    let Some(host) = self.look_up(index, flowop.connection) else {
                        return Pass::Ended;
                    };
                    used[index].note(host);
                    self.close(flowop.connection);
                    self.found[index..].fill(None);
                }
            } else if flowop.kind.transfers() {
                // One that has no connection fails, and all with it.
                let Some(host) = self.look_up(index, flowop.connection) else {
                    return Pass::Uncertain;
                };
                used[index].note(host);
            }
        }
        Pass::Done
    }

    fn look_up(&mut self, flowop: usize, name: u32) -> Option<&'a str> {
        if let Some(host) = self.found[flowop] {
            return Some(host);
        }
        let of_name = |(other, _): &&(u32, &'a str)| *other == name;
        let cached = self.cache.iter().find(of_name).copied();
        let host = if let Some((_, host)) = cached {
            host
        } else {
            let newest = self.pool.iter().find(of_name).copied()?;
            self.cache.push(newest);
            newest.1
        };
        self.found[flowop] = Some(host);
        Some(host)
    }

    /// The one that was looked up is closed and stays; the newest of its name goes.
    fn close(&mut self, name: u32) {
        if let Some(newest) = self.pool.iter().position(|(other, _)| *other == name) {
            self.pool.remove(newest);
        }
        self.cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn hosts_in_the_order_of_the_profile() {
        let group = group(&[
            (1, "connect a; connect 1 B; write b"),
            (1, "accept b; nop c"),
        ]);
        assert_eq!(hosts(&group), ["a", "B"]);
        assert_eq!(hosts(&Group::default()), [""; 0]);
    }

    #[test]
    fn with_one_host_everyone_is_that_host() {
        let group = group(&[(1, "connect a; connect A; write; think; disconnect")]);
        let everyone = Part::Everyone;
        let [a, b] = [Part::Host("a"), Part::Host("A")];
        assert_eq!(parts(&group), [[a, b, everyone, everyone, everyone]]);
    }

    /// Each case: transactions as iterations (0 for a duration) and flowops, and who takes part.
    #[test]
    fn flowops_follow_their_connections() {
        let cases: &[(&[(u64, &str)], &str)] = &[
            // Names that tell.
            (
                &[
                    (1, "connect a; connect 7 b"),
                    (0, "write; read 7; think"),
                    (1, "disconnect; disconnect 7"),
                ],
                "a b|a b *|a b",
            ),
            // What a flowop says itself stands.
            (
                &[(1, "connect a; connect 7 b; write c; nop b; disconnect 7")],
                "a b c b b",
            ),
            // One name after the other.
            (
                &[
                    (1, "connect a; write; disconnect"),
                    (9, "connect b; write; disconnect"),
                ],
                "a a a|b b b",
            ),
            // The rule of the first use: the second write goes to a.
            (&[(1, "connect a; write; connect b; write")], "a a b a"),
            // Without a use between them the newest is it.
            (&[(1, "connect a; connect b; write")], "a b b"),
            // The first write remembers a; a name that one pass disconnects from this host and the next
            // from that is not clear.
            (
                &[
                    (1, "connect a; connect 5 b"),
                    (4, "write; disconnect; connect b; write 5"),
                ],
                "a b|a ? b b",
            ),
            // The closed connection stays, and the other one goes.
            (
                &[(1, "connect a; write; connect b; disconnect; write")],
                "a a b a a",
            ),
            // After rounds that a clock ends, names with one host still tell, others do not.
            (
                &[
                    (1, "connect 3 a"),
                    (
                        0,
                        "connect a; write; disconnect; connect b; write; disconnect",
                    ),
                    (1, "write; write 3"),
                ],
                "a|a a a b b b|? a",
            ),
            // A connection that may fail.
            (
                &[(
                    1,
                    "connect a; write; connect! b; write; connect 2 a; write 2",
                )],
                "a a b ? a a",
            ),
            // A name that nobody opens.
            (&[(1, "connect a; connect b; write 9")], "a b ?"),
            // A clock that ends what opens nothing leaves all as it was.
            (
                &[
                    (1, "connect a"),
                    (0, "write"),
                    (1, "connect b; write; connect 4 b; write 4"),
                ],
                "a|a|b a b b",
            ),
        ];
        for (transactions, expected) in cases {
            let group = group(transactions);
            let shown: Vec<String> = parts(&group).iter().map(|parts| show(parts)).collect();
            assert_eq!(shown.join("|"), *expected, "{transactions:?}");
        }
    }

    #[test]
    fn absurd_counts_end() {
        let mut group = group(&[
            (u64::MAX, "connect a; connect b; write"),
            (u64::MAX, "write"),
            (1, "connect b; write"),
        ]);
        let shown: Vec<String> = parts(&group).iter().map(|parts| show(parts)).collect();
        assert_eq!(shown, ["a b ?", "?", "b ?"]);
        group.transactions[0].flowops[0].count = u64::MAX;
        group.transactions[0].iterations = 1;
        assert_eq!(parts(&group)[0][2], Part::Unclear);
    }

    #[test]
    fn many_passes_are_like_a_few() {
        let text = "disconnect; connect a; write; disconnect; connect b";
        for iterations in [1, 2, 63, 64, 1000, u64::MAX] {
            let group = group(&[(1, "connect a"), (iterations, text), (1, "write")]);
            assert_eq!(parts(&group)[2], [Part::Host("b")], "{iterations}");
        }
    }

    fn show(parts: &[Part]) -> String {
        let words = parts.iter().map(|part| match part {
            Part::Everyone => "*",
            Part::Host(host) => host,
            Part::Unclear => "?",
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Flowops as kind, name of the connection and host, with `!` for canfail.
    fn group(transactions: &[(u64, &str)]) -> Group {
        let transactions = transactions
            .iter()
            .map(|(iterations, flowops)| Transaction {
                iterations: (*iterations).max(1),
                duration: (*iterations == 0).then_some(Duration::from_secs(1)),
                flowops: flowops.split("; ").map(flowop).collect(),
                ..Transaction::default()
            });
        Group {
            transactions: transactions.collect(),
            ..Group::default()
        }
    }

    fn flowop(text: &str) -> Flowop {
        let mut words = text.split(' ');
        let word = words.next().expect("a kind");
        let name = word.trim_end_matches('!');
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let mut flowop = Flowop::new(kind.expect("a kind"));
        if word.ends_with('!') {
            flowop.flags = flowop.flags.with(Flags::CAN_FAIL);
        }
        for word in words {
            match word.parse() {
                Ok(name) => flowop.connection = name,
                Err(_) => word.clone_into(&mut flowop.endpoint.remote_host),
            }
        }
        flowop
    }
}
