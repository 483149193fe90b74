//! What data goes over, and how: transports that every machine has.

use super::{REQUESTS, Slave, agree, statistics};

fn over(protocol: &str) -> String {
    REQUESTS.replace("protocol=tcp", &format!("protocol={protocol}"))
}

#[test]
fn unix_sockets() {
    let slave = Slave::start();
    let ended = slave.run("", &over("unix"));
    agree(&ended);
    assert_eq!(statistics(&ended, "master")[4], "5004", "{ended:?}");
    // The master listens, and both strands at a name of its choice.
    let profile = over("unix port=7").replace("\"connect\"", "\"accept\"");
    agree(&slave.run("", &profile));
}

#[test]
fn multipath_tcp() {
    let opened = || counter("MPTcpExt", "MPCapableSYNACKRX");
    let before = opened();
    agree(&Slave::start().run("", &over("mptcp")));
    assert!(opened() >= before + 2, "two strands: {before}");
}

/// A counter of this network namespace.
fn counter(group: &str, name: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/net/netstat").expect("the kernel's counters");
    let mut lines = table.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next().expect(group), lines.next().expect(group));
    let mut counters = names.split(' ').zip(values.split(' '));
    let (_, value) = counters.find(|(other, _)| *other == name).expect(name);
    value.parse().expect("a number")
}
