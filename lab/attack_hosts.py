"""The hosts of lab/attack: network namespaces with a router, the attacked server, and the processors below them."""

import ctypes
import mmap
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import lib

HOSTS = {"server": 1, "attacker": 2, "client": 3, "third": 4}
CLONE_NEWNET = 0x40000000

# Counters of /proc/net that show lost connections and datagrams.
LOSS_COUNTERS = ("TcpExt:ListenOverflows", "TcpExt:ListenDrops", "Udp:RcvbufErrors")


def address(host):
    return f"10.77.{HOSTS[host]}.2"


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Network:
    """Four hosts, each in a network of its own, and a router that forwards forged sources too.

    The third host has no route to the others, as behind a firewall: it answers nothing. The router drops
    what goes to other addresses without an answer.
    """

    def __init__(self):
        self.prefix = f"linerate-attack-{os.getpid()}-"
        self.namespaces = []

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        router = self.add("router")
        for setting in ("ip_forward=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0"):
            run("ip", "netns", "exec", router, "sysctl", "-q", "-w", f"net.ipv4.{setting}")
        run("ip", "-n", router, "route", "add", "blackhole", "default")
        for host, number in HOSTS.items():
            namespace = self.add(host)
            run("ip", "-n", router, "link", "add", host, "type", "veth", "peer", "eth0", "netns", namespace)
            run("ip", "-n", router, "address", "add", f"10.77.{number}.1/24", "dev", host)
            run("ip", "-n", router, "link", "set", host, "up")
            run("ip", "-n", namespace, "address", "add", f"{address(host)}/24", "dev", "eth0")
            run("ip", "-n", namespace, "link", "set", "eth0", "up")
            if host != "third":
                run("ip", "-n", namespace, "route", "add", "default", "via", f"10.77.{number}.1")
        for namespace, link in ((router, "attacker"), (self.prefix + "attacker", "eth0")):
            run("tc", "-n", namespace, "qdisc", "add", "dev", link, "root", "tbf",
                "rate", "100mbit", "burst", "256kb", "latency", "50ms")

    def add(self, host):
        namespace = self.prefix + host
        run("ip", "netns", "add", namespace)
        self.namespaces.append(namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        return namespace

    def __exit__(self, *_):
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "del", namespace], check=False)

    def command(self, host, words):
        return [*lib.in_namespace(self.prefix + host), *map(str, words)]

    def output(self, host, *words):
        return subprocess.run(self.command(host, words), check=True, capture_output=True, text=True).stdout

    def enter(self, host):
        """Moves this process to a host."""
        with open(f"/run/netns/{self.prefix}{host}", encoding="ascii") as namespace:
            # Python 3.12 has os.setns.
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def received_bytes(self, host):
        """Returns the bytes that the router sent to a host, with Ethernet headers."""
        return int(self.output("router", "cat", f"/sys/class/net/{host}/statistics/tx_bytes"))

    def losses(self):
        """Returns the server host's LOSS_COUNTERS."""
        lines = self.output("server", "cat", "/proc/net/netstat", "/proc/net/snmp").splitlines()
        values = {}
        for names, numbers in zip(lines[::2], lines[1::2]):
            kind, *names = names.split()
            values |= {kind + name: int(number) for name, number in zip(names, numbers.split()[1:])}
        return {name: values.get(name, 0) for name in LOSS_COUNTERS}


class Standstills:
    """Measures for how long the processors stand still, as those of a virtual machine may: no program, not even one
    of the highest priority, runs on them."""

    # Seconds between two looks at the clock.
    INTERVAL = 0.05
    # A shorter delay may come from the kernel's work for the server.
    MIN_SECONDS = 0.5

    def __enter__(self):
        self.memory, self.children = mmap.mmap(-1, mmap.PAGESIZE), []
        for slot, processor in enumerate(sorted(os.sched_getaffinity(0))):
            child = os.fork()
            if child == 0:
                self.watch(slot, processor)
            self.children.append(child)
        return self

    def watch(self, slot, processor):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.sched_setaffinity(0, {processor})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        parent, total = os.getppid(), 0.0
        while os.getppid() == parent:
            started = time.monotonic()
            time.sleep(self.INTERVAL)
            late = time.monotonic() - started - self.INTERVAL
            if late > self.MIN_SECONDS:
                total += late
                struct.pack_into("d", self.memory, 8 * slot, total)
        os._exit(0)

    def __exit__(self, *_):
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def seconds(self):
        """Returns the total of each processor."""
        # The processors that have just stood still add their time.
        time.sleep(2 * self.INTERVAL)
        return [struct.unpack_from("d", self.memory, 8 * slot)[0] for slot in range(len(self.children))]


class Server:
    """The attacked process."""

    def __init__(self, network, words, log_path):
        self.log_path = log_path
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(
                network.command("server", words),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def await_ports(self, ports, udp):
        deadline = time.monotonic() + lib.SERVER_DEADLINE
        while not all(lib.is_listening(self.process.pid, port, udp) for port in ports):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise lib.Failed(f"the server does not listen: {self.log_end()}")
            time.sleep(0.05)

    def is_running(self):
        return self.process.poll() is None

    def log_end(self):
        return self.log_path.read_text(errors="replace")[-500:]

    def processes(self):
        return [self.process.pid, *lib.children(self.process.pid)]

    def usage(self):
        """Returns the threads, descriptors, and bytes of memory (resident and swapped) of the server."""
        usage = {"threads": 0, "descriptors": 0, "bytes": 0}
        for pid in self.processes():
            proc = pathlib.Path(f"/proc/{pid}")
            try:
                lines = (proc / "status").read_text().splitlines()
                descriptors = len(os.listdir(proc / "fd"))
            except OSError:
                continue
            status = dict(line.split(":", 1) for line in lines)
            usage["threads"] += int(status["Threads"])
            usage["descriptors"] += descriptors
            usage["bytes"] += 1024 * sum(int(status.get(key, "0").split()[0]) for key in ("VmRSS", "VmSwap"))
        return usage

    def cpu_seconds(self):
        """Returns the CPU time of the server and its ended children; 0 if it does not run."""
        try:
            fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        except OSError:
            return 0
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
