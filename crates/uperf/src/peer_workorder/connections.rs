//! Slaves that take part in each flowop of a group.

use std::iter::repeat_n;

use crate::{Flowop, FlowopFlags, FlowopKind, GroupSpec, TransactionSpec};

/// Returns the slaves of a group: the hosts of its connections, in the order of their first use.
/// Upper and lower case are equal in host names.
pub fn hosts(group: &GroupSpec) -> Vec<&str> {
    let mut hosts = Vec::<&str>::new();
    for flowop in group.opening_flowops() {
        let host = flowop.endpoint.remote_host.as_str();
        if !hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
            hosts.push(host);
        }
    }
    hosts
}

/// Slaves that execute the other half of a flowop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartnerSlaves<'a> {
    /// Every slave of the group.
    All,
    /// Only the slave on this host.
    Host(&'a str),
    /// One of several, unknown before the run. As in uperf, the flowop is sent to all of them.
    Unknown,
}

/// Returns the slaves that take part in each flowop of each transaction.
///
/// `remotehost=` determines the slave. Without it, stock masters send the flowop to every slave.
/// That fails with several slaves, because only one of them has the connection. linerate sends the
/// flowop to the host of the connection that the master will use. A connection number can refer to
/// another host later, so linerate simulates the strand's connections as far as they are
/// predictable.
pub fn partner_slaves(group: &GroupSpec) -> Vec<Vec<PartnerSlaves<'_>>> {
    let has_several_hosts = hosts(group).len() > 1;
    let mut strand = StrandSimulation::new(group);
    let transactions = group.transactions.iter();
    transactions
        .map(|transaction| {
            let used = if has_several_hosts {
                strand.predict_hosts(transaction)
            } else {
                vec![None; transaction.flowops.len()]
            };
            let flowops = transaction.flowops.iter().zip(used);
            flowops
                .map(|(flowop, used)| {
                    let host = flowop.endpoint.remote_host.as_str();
                    if !host.is_empty() {
                        PartnerSlaves::Host(host)
                    } else if has_several_hosts && flowop.kind.uses_connection() {
                        used.map_or(PartnerSlaves::Unknown, PartnerSlaves::Host)
                    } else {
                        PartnerSlaves::All
                    }
                })
                .collect()
        })
        .collect()
}

/// Simulation of a master's strand and its connections.
struct StrandSimulation<'a> {
    /// Number and host of the connections whose number has only one host in the group.
    single_host_numbers: Vec<(u32, &'a str)>,
    /// `None` after the first unpredictable step.
    connections: Option<SimulatedConnections<'a>>,
}

impl<'a> StrandSimulation<'a> {
    fn new(group: &'a GroupSpec) -> Self {
        let opened: Vec<_> = group
            .opening_flowops()
            .map(|flowop| (flowop.connection, flowop.endpoint.remote_host.as_str()))
            .collect();
        let single = opened.iter().copied().filter(|(number, host)| {
            let mut same_number = opened.iter().filter(|(other, _)| other == number);
            same_number.all(|(_, other)| other.eq_ignore_ascii_case(host))
        });
        Self {
            single_host_numbers: single.collect(),
            connections: Some(SimulatedConnections::default()),
        }
    }

    /// Returns the host that each flowop of the transaction uses, if it is the same in every pass.
    fn predict_hosts(&mut self, transaction: &'a TransactionSpec) -> Vec<Option<&'a str>> {
        let mut used = vec![UsedHost::Never; transaction.flowops.len()];
        let before = self.connections.take();
        self.connections =
            before.and_then(|before| simulate_passes(transaction, before, &mut used));
        let flowops = transaction.flowops.iter().zip(used);
        flowops
            .map(|(flowop, used)| match used {
                UsedHost::Always(host) => Some(host),
                UsedHost::Never | UsedHost::Unknown => self.single_host(flowop.connection),
            })
            .collect()
    }

    fn single_host(&self, number: u32) -> Option<&'a str> {
        let entry = self
            .single_host_numbers
            .iter()
            .find(|(single, _)| *single == number);
        entry.map(|(_, host)| *host)
    }
}

/// Host that a flowop has used in the simulated passes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UsedHost<'a> {
    Never,
    Always(&'a str),
    Unknown,
}

impl<'a> UsedHost<'a> {
    fn record(&mut self, host: &'a str) {
        *self = match *self {
            Self::Never => Self::Always(host),
            Self::Always(same) if same.eq_ignore_ascii_case(host) => return,
            Self::Always(_) | Self::Unknown => Self::Unknown,
        };
    }
}

/// Simulates the passes until one of them changes nothing. Returns the connections after the last
/// pass; `None` if they are unpredictable.
fn simulate_passes<'a>(
    transaction: &'a TransactionSpec,
    mut before: SimulatedConnections<'a>,
    used: &mut [UsedHost<'a>],
) -> Option<SimulatedConnections<'a>> {
    let flowops = &transaction.flowops;
    // A duration can end the transaction anywhere in a pass.
    let is_timed = transaction.duration.is_some();
    let has_certain_end = !is_timed || !flowops.iter().any(changes_connections);
    let count = if is_timed {
        u64::MAX
    } else {
        transaction.iterations
    };
    before.cached_hosts = vec![None; flowops.len()];
    for pass in 1..=count {
        let mut after = before.clone();
        let end = after.simulate_pass(flowops, used);
        if end == PassEnd::Uncertain || pass > MAX_PASSES {
            if count > 1 {
                used.fill(UsedHost::Unknown);
            }
            return None;
        }
        // If nothing changed, all later passes are equal.
        let is_unchanged = after == before;
        before = after;
        if is_unchanged || end == PassEnd::TransactionEnded {
            break;
        }
    }
    has_certain_end.then_some(before)
}

/// Maximum number of simulated passes that differ.
const MAX_PASSES: u64 = 64;

/// Maximum number of simulated executions of a flowop that opens or closes connections.
const MAX_EXECUTIONS: u64 = 64;

fn changes_connections(flowop: &Flowop) -> bool {
    flowop.kind.opens() || flowop.kind == FlowopKind::Disconnect
}

/// Connections of a strand: their numbers and hosts.
#[derive(Clone, Default, PartialEq)]
struct SimulatedConnections<'a> {
    /// Open connections, newest first.
    open_connections: Vec<(u32, &'a str)>,
    /// Connections that were looked up, in the order of their first use.
    lookup_cache: Vec<(u32, &'a str)>,
    /// Host of the connection that each flowop of the transaction has cached.
    cached_hosts: Vec<Option<&'a str>>,
}

/// End of a simulated pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PassEnd {
    /// All flowops were executed.
    Done,
    /// A disconnect found no connection, which ends the transaction.
    TransactionEnded,
    /// The rest depends on the run.
    Uncertain,
}

impl<'a> SimulatedConnections<'a> {
    fn simulate_pass(&mut self, flowops: &'a [Flowop], used: &mut [UsedHost<'a>]) -> PassEnd {
        for (index, flowop) in flowops.iter().enumerate() {
            let changes = changes_connections(flowop);
            if changes && flowop.count > MAX_EXECUTIONS {
                return PassEnd::Uncertain;
            }
            if flowop.count == 0 {
                continue;
            }
            if flowop.kind.opens() {
                // If it fails, there is no connection.
                if flowop.flags.has(FlowopFlags::CAN_FAIL) {
                    return PassEnd::Uncertain;
                }
                let open = (flowop.connection, flowop.endpoint.remote_host.as_str());
                let count = flowop.count as usize;
                self.open_connections.splice(0..0, repeat_n(open, count));
                self.cached_hosts[index..].fill(None);
            } else if flowop.kind == FlowopKind::Disconnect {
                for _ in 0..flowop.count {
                    let Some(host) = self.look_up(index, flowop.connection) else {
                        return PassEnd::TransactionEnded;
                    };
                    used[index].record(host);
                    self.close(flowop.connection);
                    self.cached_hosts[index..].fill(None);
                }
            } else if flowop.kind.transfers() {
                // Without a connection, the flowop and the whole run fail.
                let Some(host) = self.look_up(index, flowop.connection) else {
                    return PassEnd::Uncertain;
                };
                used[index].record(host);
            }
        }
        PassEnd::Done
    }

    fn look_up(&mut self, flowop: usize, number: u32) -> Option<&'a str> {
        if let Some(host) = self.cached_hosts[flowop] {
            return Some(host);
        }
        let has_number = |(other, _): &&(u32, &'a str)| *other == number;
        let cached = self.lookup_cache.iter().find(has_number).copied();
        let host = if let Some((_, host)) = cached {
            host
        } else {
            let newest = self.open_connections.iter().find(has_number).copied()?;
            self.lookup_cache.push(newest);
            newest.1
        };
        self.cached_hosts[flowop] = Some(host);
        Some(host)
    }

    /// Simulates a disconnect as uperf does it: it closes the connection that was looked up, but
    /// removes the newest one with this number from the pool.
    fn close(&mut self, number: u32) {
        if let Some(newest) = self
            .open_connections
            .iter()
            .position(|(other, _)| *other == number)
        {
            self.open_connections.remove(newest);
        }
        self.lookup_cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn hosts_are_in_the_order_of_the_profile() {
        let group = group(&[
            (1, "connect a; connect 1 B; write b"),
            (1, "accept b; nop c"),
        ]);
        assert_eq!(hosts(&group), ["a", "B"]);
        assert_eq!(hosts(&GroupSpec::default()), [""; 0]);
    }

    #[test]
    fn with_one_host_flowops_without_remotehost_go_to_all_slaves() {
        let group = group(&[(1, "connect a; connect A; write; think; disconnect")]);
        let all = PartnerSlaves::All;
        let [a, b] = [PartnerSlaves::Host("a"), PartnerSlaves::Host("A")];
        assert_eq!(partner_slaves(&group), [[a, b, all, all, all]]);
    }

    /// Each case: transactions as iterations (0 for a duration) and flowops, and the expected
    /// slaves.
    #[test]
    fn flowops_follow_their_connections() {
        let cases: &[(&[(u64, &str)], &str)] = &[
            // Each number has one host.
            (
                &[
                    (1, "connect a; connect 7 b"),
                    (0, "write; read 7; think"),
                    (1, "disconnect; disconnect 7"),
                ],
                "a b|a b *|a b",
            ),
            // remotehost= has precedence.
            (
                &[(1, "connect a; connect 7 b; write c; nop b; disconnect 7")],
                "a b c b b",
            ),
            // The same number has two hosts, one after the other.
            (
                &[
                    (1, "connect a; write; disconnect"),
                    (9, "connect b; write; disconnect"),
                ],
                "a a a|b b b",
            ),
            // The first lookup is cached: the second write goes to a.
            (&[(1, "connect a; write; connect b; write")], "a a b a"),
            // Without a lookup between them, the newest connection is used.
            (&[(1, "connect a; connect b; write")], "a b b"),
            // The first write caches a. The host of the disconnect differs between passes, so it is
            // unknown.
            (
                &[
                    (1, "connect a; connect 5 b"),
                    (4, "write; disconnect; connect b; write 5"),
                ],
                "a b|a ? b b",
            ),
            // The closed connection stays in the pool, and the other one is removed.
            (
                &[(1, "connect a; write; connect b; disconnect; write")],
                "a a b a a",
            ),
            // After passes that a duration ends, only numbers with one host are known.
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
            // A number that no flowop opens.
            (&[(1, "connect a; connect b; write 9")], "a b ?"),
            // A duration changes nothing if no flowop opens or closes connections.
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
            let shown: Vec<String> = partner_slaves(&group)
                .iter()
                .map(|slaves| format_slaves(slaves))
                .collect();
            assert_eq!(shown.join("|"), *expected, "{transactions:?}");
        }
    }

    #[test]
    fn huge_counts_are_unpredictable() {
        let mut group = group(&[
            (u64::MAX, "connect a; connect b; write"),
            (u64::MAX, "write"),
            (1, "connect b; write"),
        ]);
        let shown: Vec<String> = partner_slaves(&group)
            .iter()
            .map(|slaves| format_slaves(slaves))
            .collect();
        assert_eq!(shown, ["a b ?", "?", "b ?"]);
        group.transactions[0].flowops[0].count = u64::MAX;
        group.transactions[0].iterations = 1;
        assert_eq!(partner_slaves(&group)[0][2], PartnerSlaves::Unknown);
    }

    #[test]
    fn many_passes_end_like_a_few() {
        let text = "disconnect; connect a; write; disconnect; connect b";
        for iterations in [1, 2, 63, 64, 1000, u64::MAX] {
            let group = group(&[(1, "connect a"), (iterations, text), (1, "write")]);
            assert_eq!(
                partner_slaves(&group)[2],
                [PartnerSlaves::Host("b")],
                "{iterations}"
            );
        }
    }

    fn format_slaves(slaves: &[PartnerSlaves]) -> String {
        let words = slaves.iter().map(|slave| match slave {
            PartnerSlaves::All => "*",
            PartnerSlaves::Host(host) => host,
            PartnerSlaves::Unknown => "?",
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Parses flowops: kind, number of the connection and host, with `!` for canfail.
    fn group(transactions: &[(u64, &str)]) -> GroupSpec {
        let transactions = transactions
            .iter()
            .map(|(iterations, flowops)| TransactionSpec {
                iterations: (*iterations).max(1),
                duration: (*iterations == 0).then_some(Duration::from_secs(1)),
                flowops: flowops.split("; ").map(flowop).collect(),
                ..TransactionSpec::default()
            });
        GroupSpec {
            transactions: transactions.collect(),
            ..GroupSpec::default()
        }
    }

    fn flowop(text: &str) -> Flowop {
        let mut words = text.split(' ');
        let word = words.next().expect("a kind");
        let name = word.trim_end_matches('!');
        let kind = FlowopKind::ALL.into_iter().find(|kind| kind.name() == name);
        let mut flowop = Flowop::new(kind.expect("a kind"));
        if word.ends_with('!') {
            flowop.flags = flowop.flags.with(FlowopFlags::CAN_FAIL);
        }
        for word in words {
            match word.parse() {
                Ok(number) => flowop.connection = number,
                Err(_) => word.clone_into(&mut flowop.endpoint.remote_host),
            }
        }
        flowop
    }
}
