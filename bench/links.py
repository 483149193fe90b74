"""Two hosts in network namespaces, for the benches that need a link of known rate.

The data crosses one veth pair and the control connection another, so that the data link's counters hold nothing but data.
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
        """Packets and bytes that came and went, by the interface's own account."""
        line = self.line("/proc/net/dev", f"{interface}:").split(":")[1].split()
        return {
            "rx_bytes": int(line[0]),
            "rx_packets": int(line[1]),
            "tx_bytes": int(line[8]),
            "tx_packets": int(line[9]),
        }

    def line(self, path, start):
        text = subprocess.run(self.run("cat", path), capture_output=True, text=True, check=True).stdout
        return next(line.strip() for line in text.splitlines() if line.strip().startswith(start))

    def snmp(self, group, name):
        """One of the kernel's own counts, such as Tcp RetransSegs or Udp RcvbufErrors."""
        text = subprocess.run(self.run("cat", "/proc/net/snmp"), capture_output=True, text=True, check=True).stdout
        lines = [line.split() for line in text.splitlines() if line.startswith(group + ":")]
        return int(lines[1][lines[0].index(name)])

    def dropped(self):
        """Packets that the data link's queue dropped."""
        text = subprocess.run(
            self.run("tc", "-s", "qdisc", "show", "dev", "data"), capture_output=True, text=True, check=True
        ).stdout
        return int(text.split("dropped ")[1].split(",")[0])


@contextlib.contextmanager
def pair(rate=None, burst=None, mtu=1500):
    """Two hosts; with a rate (bits a second) each direction has a token bucket of `burst` bytes."""
    number = next(serial)
    hosts = [
        Host(f"linerate-link-{os.getpid()}-{number}{side}", f"198.18.0.{at}", f"198.18.1.{at}")
        for at, side in ((1, "a"), (2, "b"))
    ]
    with contextlib.ExitStack() as stack:
        for host in hosts:
            ip("netns", "add", host.name)
            stack.callback(subprocess.run, ["ip", "netns", "del", host.name], check=False)
            # Neighbour discovery would be in the counters.
            quiet(host.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"))
            ip("-n", host.name, "link", "set", "lo", "up")
        for interface in ("data", "control"):
            a, b = hosts
            ip("-n", a.name, "link", "add", interface, "type", "veth", "peer", "name", interface, "netns", b.name)
            for at, host in enumerate(hosts):
                address = getattr(host, interface)
                ip("-n", host.name, "address", "add", f"{address}/24", "dev", interface)
                ip("-n", host.name, "link", "set", interface, "address", mac(at), "mtu", str(mtu), "up")
                # Nobody asks for whom he knows: else ARP is in the counters.
                other = getattr(hosts[1 - at], interface)
                ip("-n", host.name, "neighbour", "add", other, "lladdr", mac(1 - at), "dev", interface, "nud", "permanent")
        for host in hosts:
            # Or the counters hold one header for 64 KB.
            quiet(host.run("ethtool", "-K", "data", "tso", "off", "gso", "off", "gro", "off"))
            if rate:
                # The queue must hold what a window of TCP and a late timer need.
                limit = max(4 * burst, 300_000)
                quiet(host.run("tc", "qdisc", "add", "dev", "data", "root", "tbf", "rate", f"{rate}bit", "burst", burst, "limit", limit))
        yield hosts


def mac(at):
    return f"02:00:00:00:00:{at + 1:02x}"


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def quiet(command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
