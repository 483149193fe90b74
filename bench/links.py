"""Two hosts in network namespaces, for benchmarks that need a link of known rate.

Data and control connection use different veth pairs, so that the counters of the data link contain
only data.
"""

import contextlib
import dataclasses
import itertools
import os
import subprocess

serial = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Host:
    name: str
    data: str
    control: str

    def run(self, *command):
        return ["ip", "netns", "exec", self.name, *map(str, command)]

    def counters(self, interface="data"):
        """Returns the packet and byte counters of an interface."""
        fields = self.line("/proc/net/dev", f"{interface}:").split(":")[1].split()
        return {
            "rx_bytes": int(fields[0]),
            "rx_packets": int(fields[1]),
            "tx_bytes": int(fields[8]),
            "tx_packets": int(fields[9]),
        }

    def line(self, path, start):
        text = subprocess.run(self.run("cat", path), capture_output=True, text=True, check=True).stdout
        return next(line.strip() for line in text.splitlines() if line.strip().startswith(start))

    def snmp(self, group, name):
        """Returns a counter of the kernel, such as Tcp RetransSegs or Udp RcvbufErrors."""
        text = subprocess.run(self.run("cat", "/proc/net/snmp"), capture_output=True, text=True, check=True).stdout
        lines = [line.split() for line in text.splitlines() if line.startswith(group + ":")]
        return int(lines[1][lines[0].index(name)])

    def dropped(self):
        """Returns the number of packets that the queue of the data link dropped."""
        text = subprocess.run(
            self.run("tc", "-s", "qdisc", "show", "dev", "data"), capture_output=True, text=True, check=True
        ).stdout
        return int(text.split("dropped ")[1].split(",")[0])


@contextlib.contextmanager
def pair(rate=None, burst=None, mtu=1500):
    """Creates two hosts. A rate (bit/s) adds a token bucket of `burst` bytes per direction."""
    number = next(serial)
    hosts = [
        Host(f"linerate-link-{os.getpid()}-{number}{side}", f"198.18.0.{address}", f"198.18.1.{address}")
        for address, side in ((1, "a"), (2, "b"))
    ]
    with contextlib.ExitStack() as stack:
        for host in hosts:
            ip("netns", "add", host.name)
            stack.callback(subprocess.run, ["ip", "netns", "del", host.name], check=False)
            # The counters would include neighbour discovery.
            run_quietly(host.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"))
            ip("-n", host.name, "link", "set", "lo", "up")
        for interface in ("data", "control"):
            a, b = hosts
            ip("-n", a.name, "link", "add", interface, "type", "veth", "peer", "name", interface, "netns", b.name)
            for index, host in enumerate(hosts):
                address = getattr(host, interface)
                ip("-n", host.name, "address", "add", f"{address}/24", "dev", interface)
                ip("-n", host.name, "link", "set", interface, "address", mac(index), "mtu", str(mtu), "up")
                # Static neighbours, because the counters would include ARP.
                peer = getattr(hosts[1 - index], interface)
                ip("-n", host.name, "neighbour", "add", peer, "lladdr", mac(1 - index), "dev", interface, "nud", "permanent")
        for host in hosts:
            # With offloads, the counters would contain one header per 64 KB.
            run_quietly(host.run("ethtool", "-K", "data", "tso", "off", "gso", "off", "gro", "off"))
            if rate:
                # The queue must hold a TCP window, and absorb a late timer.
                limit = max(4 * burst, 300_000)
                run_quietly(host.run("tc", "qdisc", "add", "dev", "data", "root", "tbf", "rate", f"{rate}bit", "burst", burst, "limit", limit))
        yield hosts


def mac(index):
    return f"02:00:00:00:00:{index + 1:02x}"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def run_quietly(command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
