"""What the bench scripts share: programs, servers, namespaces, statistics, tables."""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))

# Exit codes of every script here.
GATE_FAILED = 1
CANNOT_MEASURE = 2

# Wall seconds after which a client is taken to hang; no run here is meant to last a tenth of it.
CLIENT_DEADLINE = 60
SERVER_DEADLINE = 10

# Pairs during which the host took more of the CPU than this do not count.
STEAL_LIMIT = 0.02

# What netperf's `-l` takes is a 32-bit number on the wire.
MOST_BYTES = 2_000_000_000

# What `paired` returns beside the samples of the two.
NOT_SAMPLES = ("steal", "dropped", "ratio", "lower", "upper", "enough", "verdict")


class Failed(Exception):
    """A program did not do what the measurement needs; the text says which and how."""


# ---------------------------------------------------------------------------------------------
# Command line


def arguments(description):
    """The options that every script has; the caller adds its own and parses."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--ours",
        default=TARGET / "release" / "linerate",
        metavar="PATH",
        help="the linerate binary, or a directory with netperf and netserver (default: %(default)s)",
    )
    parser.add_argument(
        "--stock",
        default="/usr/bin",
        metavar="PATH",
        help="the same for the other side (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: a smoke test, not a result")
    return parser


def paired_arguments(parser, names, pairs, quick_pairs):
    """Adds the options of a script that compares pairs of runs in named cases, and parses."""
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case (repeatable)")
    parser.add_argument("--pairs", type=int, help=f"pairs a case (default {pairs}; {quick_pairs} with --quick)")
    parser.add_argument("--json", metavar="FILE", help="also write every sample to FILE")
    arguments = parser.parse_args()
    arguments.pairs = arguments.pairs or (quick_pairs if arguments.quick else pairs)
    for name in arguments.case or []:
        if name not in names:
            parser.error(f"--case {name}: not one of {', '.join(names)}")
    return arguments


@dataclasses.dataclass(frozen=True)
class Programs:
    """One side of a comparison: how to start its client and its server."""

    name: str
    netperf: list
    netserver: list

    def tool(self, name):
        """The command of another tool, beside netperf's: another link, or another word."""
        first, *words = self.netperf
        return [first, name] if words else [str(pathlib.Path(first).with_name(name))]


def programs(name, path):
    path = pathlib.Path(path).absolute()
    if path.is_dir():
        commands = [[str(path / "netperf")], [str(path / "netserver")]]
    else:
        commands = [[str(path), "netperf"], [str(path), "netserver"]]
    for command in commands:
        if not os.access(command[0], os.X_OK):
            cannot_measure(f"{command[0]} is missing (--{name} names another place)")
    return Programs(name, *commands)


def cannot_measure(why):
    print(f"{os.path.basename(sys.argv[0])}: {why}", file=sys.stderr)
    sys.exit(CANNOT_MEASURE)


def need_root():
    if os.geteuid() != 0:
        cannot_measure("connection tests run in network namespaces of their own, which need root")


# ---------------------------------------------------------------------------------------------
# Namespaces, servers, clients

serial = itertools.count(1)


@contextlib.contextmanager
def namespace():
    """A fresh network namespace with `lo` up, so that no TIME_WAIT of an earlier run is in the way.

    The second address is for stock's netperf: on a host with 127.0.0.1 alone it resolves nothing.
    """
    name = f"linerate-bench-{os.getpid()}-{next(serial)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "-n", name, "address", "add", "192.0.2.1/32", "dev", "lo"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


def inside(name):
    return ["ip", "netns", "exec", name] if name else []


@dataclasses.dataclass(frozen=True)
class Server:
    pid: int
    port: int
    namespace: str


@contextlib.contextmanager
def server(programs, namespace=None, tracer=()):
    """A netserver in the foreground, listening when this yields and gone when it ends.

    `tracer` is the command of a program that runs the server as its child (strace).
    """
    port = free_port()
    command = [*programs.netserver, "-D", "-4", "-p", str(port)]
    with running([*inside(namespace), *tracer, *command], port, traced=bool(tracer)) as pid:
        yield Server(pid, port, namespace)


@contextlib.contextmanager
def running(command, port, traced=False, udp=False, stdout=subprocess.DEVNULL, end=signal.SIGTERM):
    """Runs a server until the block ends, by a signal; yields its pid once it listens on `port`."""
    process = subprocess.Popen(
        command,
        cwd="/tmp",
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pid = None
    try:
        pid = wait_listening(process, port, traced, udp)
        yield pid
    finally:
        # A tracer writes its summary when its child ends, so only the child is asked to end.
        # What is left of the session after that (a forked server's stuck child) is killed.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or process.pid, end)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SERVER_DEADLINE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_listening(process, port, traced, udp):
    # Seen in /proc and not tried by a connection: a server should meet only real clients.
    deadline = time.monotonic() + SERVER_DEADLINE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failed(f"{process.args}: ended with {process.returncode} before it listened")
        if listening(process.pid, port, udp):
            family = [*children(process.pid), process.pid] if traced else [process.pid]
            return family[0]
        time.sleep(0.002)
    raise Failed(f"{process.args}: not listening on port {port} after {SERVER_DEADLINE} s")


def listening(pid, port, udp=False):
    """Whether a socket listens on `port` in the network namespace of `pid`; one of UDP is unconnected."""
    protocol, state = ("udp", "07") if udp else ("tcp", "0A")
    for table in (protocol, f"{protocol}6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}") as lines:
            for fields in map(str.split, lines):
                if fields[1].endswith(f":{port:04X}") and fields[3] == state:
                    return True
    return False


def children(pid):
    """The direct children of all threads of `pid`."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def share(pid):
    """Proportional set size of `pid` and all below it, in bytes: a forked server's shared pages count once."""
    total = 0
    for one in [pid, *children(pid)]:
        # A child may end between the listing and the reading.
        with contextlib.suppress(OSError), open(f"/proc/{one}/smaps_rollup") as lines:
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def netperf_command(programs, server, options):
    return [
        *inside(server.namespace),
        *programs.netperf,
        *("-4", "-H", "127.0.0.1", "-p", str(server.port), "-P", "0"),
        *options,
    ]


def output(command):
    """Runs `command` to its end and returns what it wrote to (stdout, stderr)."""
    try:
        # In /tmp because netperf's TCP_SENDFILE makes its file in the current directory.
        done = subprocess.run(command, cwd="/tmp", capture_output=True, text=True, timeout=CLIENT_DEADLINE)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)}: still running after {CLIENT_DEADLINE} s") from None
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().replace("\n", " | ")
        raise Failed(f"{' '.join(command)}: exit {done.returncode}: {said[-300:]}")
    return done.stdout, done.stderr


# ---------------------------------------------------------------------------------------------
# The machine


def cpu_ticks():
    """(stolen, all) ticks since boot of the `cpu` line of /proc/stat, proc(5)."""
    with open("/proc/stat") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def steal_share(before, after):
    stolen, total = after[0] - before[0], after[1] - before[1]
    return stolen / total if total else 0.0


# ---------------------------------------------------------------------------------------------
# Statistics


def bootstrap_median(samples, level=0.95, resamples=10_000):
    """The percentile bootstrap interval of the median; the seed is fixed so a reader can repeat it."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(samples, k=len(samples))) for _ in range(resamples))
    tail = int(resamples * (1 - level) / 2)
    return medians[tail], medians[-1 - tail]


def paired(measures, pairs):
    """Runs two measurements by turns, `pairs` times, and as often again where the host took CPU time meanwhile.

    `measures` are functions without arguments by their names; the ratio is the first's to the second's.
    """
    names = list(measures)
    result = {"steal": [], "dropped": 0} | {name: [] for name in names}
    for attempt in range(3 * pairs):
        if len(result["steal"]) == pairs:
            break
        before = cpu_ticks()
        figures = {name: measures[name]() for name in (names if attempt % 2 == 0 else names[::-1])}
        steal = steal_share(before, cpu_ticks())
        if steal > STEAL_LIMIT:
            result["dropped"] += 1
            continue
        result["steal"].append(steal)
        for name, figure in figures.items():
            result[name].append(figure)
    if len(result["steal"]) < 2:
        raise Failed(f"{result['dropped']} pairs dropped for steal, {len(result['steal'])} left")
    mine, theirs = (result[name] for name in names)
    ratios = [one / other for one, other in zip(mine, theirs)]
    lower, upper = bootstrap_median(ratios)
    enough = len(ratios) >= pairs
    return result | {"ratio": statistics.median(ratios), "lower": lower, "upper": upper, "enough": enough}


def verdict(result):
    """That of `paired`'s result, where the two should be equal."""
    if not result["enough"]:
        return "NOISY"
    if result["lower"] >= 1.00:
        return "WIN"
    return "PASS" if result["ratio"] >= 0.97 and result["upper"] >= 1.00 else "FAIL"


def paired_row(name, result, judgement):
    """A row for a table of `paired`'s results."""
    mine, theirs = (samples for key, samples in result.items() if key not in NOT_SAMPLES)
    dropped = f" (-{result['dropped']})" if result["dropped"] else ""
    return [
        name,
        f"{result['ratio']:.3f}",
        f"{result['lower']:.3f}-{result['upper']:.3f}",
        f"{statistics.median(mine):.0f}",
        f"{statistics.median(theirs):.0f}",
        f"{spread(mine):.1%}",
        f"{len(mine)}{dropped}",
        judgement,
    ]


def spread(samples):
    """The interquartile range as a share of the median."""
    if len(samples) < 2:
        return float("nan")
    low, middle, high = statistics.quantiles(samples, n=4)
    return (high - low) / middle


# ---------------------------------------------------------------------------------------------
# Output


def write_json(arguments, results):
    """Writes every sample, and the machine and the programs that they are of, to the file of `--json`."""
    host = os.uname()
    document = {
        "kernel": f"{host.sysname} {host.release} {host.machine}",
        "cpus": os.cpu_count(),
        "unix_time": int(time.time()),
        "ours": str(arguments.ours),
        "stock": str(arguments.stock),
        "results": results,
    }
    with open(arguments.json, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


def progress(text):
    print(text, file=sys.stderr, flush=True)


def table(header, rows):
    """Prints rows of strings: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        print("  ".join(cells).rstrip())


# ---------------------------------------------------------------------------------------------


def script(main):
    """Runs `main` and exits with its code; SIGTERM unwinds like Ctrl-C, so that servers and namespaces go."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(CANNOT_MEASURE))
    try:
        sys.exit(main())
    except (Failed, OSError, subprocess.CalledProcessError) as failure:
        cannot_measure(failure)
    except KeyboardInterrupt:
        sys.exit(CANNOT_MEASURE)
