"""Shared code of the benchmarks: programs, servers, namespaces, statistics, tables."""

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

# Exit codes of the scripts.
GATE_FAILED = 1
CANNOT_MEASURE = 2

# Timeout of a client in seconds; more than ten times the duration of a normal run.
CLIENT_DEADLINE = 60
SERVER_DEADLINE = 10

# Maximum share of CPU time that the host may take (steal) during a valid pair.
STEAL_LIMIT = 0.02

# Maximum of netperf's `-l`, which is a 32-bit number on the wire.
MAX_BYTES = 2_000_000_000

# Keys of the result of `run_pairs` that are not samples.
NOT_SAMPLES = ("steal", "dropped", "ratio", "lower", "upper", "enough", "verdict")


class Failed(Exception):
    """A measurement failed; the message names the program and the failure."""


# ---------------------------------------------------------------------------------------------
# Command line


def make_parser(description):
    """Returns a parser with the options of all scripts."""
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
        help="the same for the stock programs (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: a smoke test, not a result")
    return parser


def parse_paired_arguments(parser, names, pairs, quick_pairs):
    """Adds the options of a script that runs named cases in pairs, and parses the command line."""
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case (repeatable)")
    parser.add_argument("--pairs", type=int, help=f"pairs per case (default {pairs}; {quick_pairs} with --quick)")
    parser.add_argument("--json", metavar="FILE", help="also write all samples to FILE")
    arguments = parser.parse_args()
    arguments.pairs = arguments.pairs or (quick_pairs if arguments.quick else pairs)
    for name in arguments.case or []:
        if name not in names:
            parser.error(f"unknown case {name}; the cases are {', '.join(names)}")
    return arguments


@dataclasses.dataclass(frozen=True)
class Programs:
    """The commands of the client and the server of one side of a comparison."""

    name: str
    netperf: list
    netserver: list

    def tool(self, name):
        """Returns the command of another tool of this side."""
        program, *subcommand = self.netperf
        return [program, name] if subcommand else [str(pathlib.Path(program).with_name(name))]


def programs(name, path):
    path = pathlib.Path(path).absolute()
    if path.is_dir():
        commands = [[str(path / "netperf")], [str(path / "netserver")]]
    else:
        commands = [[str(path), "netperf"], [str(path), "netserver"]]
    for command in commands:
        if not os.access(command[0], os.X_OK):
            cannot_measure(f"{command[0]} is missing; --{name} gives another path")
    return Programs(name, *commands)


def cannot_measure(reason):
    print(f"{os.path.basename(sys.argv[0])}: {reason}", file=sys.stderr)
    sys.exit(CANNOT_MEASURE)


def require_root():
    if os.geteuid() != 0:
        cannot_measure("root is required to create network namespaces")


# ---------------------------------------------------------------------------------------------
# Namespaces, servers, clients

namespace_numbers = itertools.count(1)


@contextlib.contextmanager
def namespace():
    """Creates a network namespace with `lo` up, without TIME_WAIT sockets of previous runs.

    Stock's netperf needs the second address: it resolves no names on a host with 127.0.0.1 only.
    """
    name = f"linerate-bench-{os.getpid()}-{next(namespace_numbers)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "-n", name, "address", "add", "192.0.2.1/32", "dev", "lo"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


def in_namespace(name):
    """Returns the prefix of a command that runs in a network namespace, if any."""
    return ["ip", "netns", "exec", name] if name else []


@dataclasses.dataclass(frozen=True)
class Server:
    pid: int
    port: int
    namespace: str


@contextlib.contextmanager
def server(programs, namespace=None, tracer=()):
    """Runs a netserver; yields when it listens.

    `tracer` is the command of a program that runs the server as its child (strace).
    """
    port = free_port()
    command = [*programs.netserver, "-D", "-4", "-p", str(port)]
    with running_server([*in_namespace(namespace), *tracer, *command], port, traced=bool(tracer)) as pid:
        yield Server(pid, port, namespace)


@contextlib.contextmanager
def running_server(command, port, traced=False, udp=False, stdout=subprocess.DEVNULL, end_signal=signal.SIGTERM):
    """Runs a server, and yields its pid when it listens on `port`. Ends it with a signal."""
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
        pid = wait_until_listening(process, port, traced, udp)
        yield pid
    finally:
        # A tracer writes its summary when its child ends, so the signal goes to the child only.
        # SIGKILL then ends remaining processes of the session, such as a stuck child of a server.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or process.pid, end_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SERVER_DEADLINE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until_listening(process, port, traced, udp):
    # Reads /proc, because a connection would look like a client.
    deadline = time.monotonic() + SERVER_DEADLINE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failed(f"{process.args}: exited with code {process.returncode} before it listened")
        if is_listening(process.pid, port, udp):
            pids = [*children(process.pid), process.pid] if traced else [process.pid]
            return pids[0]
        time.sleep(0.002)
    raise Failed(f"{process.args}: not listening on port {port} after {SERVER_DEADLINE} s")


def is_listening(pid, port, udp=False):
    """Returns whether a socket in the namespace of `pid` listens on `port` (UDP: is bound to it)."""
    protocol, state = ("udp", "07") if udp else ("tcp", "0A")
    for table in (protocol, f"{protocol}6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}") as lines:
            for fields in map(str.split, lines):
                if fields[1].endswith(f":{port:04X}") and fields[3] == state:
                    return True
    return False


def children(pid):
    """Returns the direct children of all threads of `pid`."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def proportional_set_size(pid):
    """Returns the proportional set size of `pid` and its children in bytes."""
    total = 0
    for process in [pid, *children(pid)]:
        # A child may have ended since `children` listed it.
        with contextlib.suppress(OSError), open(f"/proc/{process}/smaps_rollup") as lines:
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def netperf_command(programs, server, options):
    return [
        *in_namespace(server.namespace),
        *programs.netperf,
        *("-4", "-H", "127.0.0.1", "-p", str(server.port), "-P", "0"),
        *options,
    ]


def run_command(command):
    """Runs a command, and returns its (stdout, stderr)."""
    try:
        # In /tmp, because netperf's TCP_SENDFILE creates its file in the current directory.
        result = subprocess.run(command, cwd="/tmp", capture_output=True, text=True, timeout=CLIENT_DEADLINE)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)}: timed out after {CLIENT_DEADLINE} s") from None
    if result.returncode != 0:
        output = (result.stderr + result.stdout).strip().replace("\n", " | ")
        raise Failed(f"{' '.join(command)}: exit code {result.returncode}: {output[-300:]}")
    return result.stdout, result.stderr


# ---------------------------------------------------------------------------------------------
# The machine


def cpu_ticks():
    """Returns (stolen, all) ticks since boot, from the `cpu` line of /proc/stat, proc(5)."""
    with open("/proc/stat") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def steal_share(before, after):
    stolen, total = after[0] - before[0], after[1] - before[1]
    return stolen / total if total else 0.0


# ---------------------------------------------------------------------------------------------
# Statistics


def bootstrap_median(samples, level=0.95, resamples=10_000):
    """Returns the percentile bootstrap interval of the median. The seed is fixed."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(samples, k=len(samples))) for _ in range(resamples))
    tail = int(resamples * (1 - level) / 2)
    return medians[tail], medians[-1 - tail]


def run_pairs(measures, pairs):
    """Runs two measurements in alternating order, in `pairs` pairs. Repeats pairs with too much
    steal.

    `measures` maps names to functions without arguments. The ratio is that of the first to the
    second.
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
    first, second = (result[name] for name in names)
    ratios = [numerator / denominator for numerator, denominator in zip(first, second)]
    lower, upper = bootstrap_median(ratios)
    enough = len(ratios) >= pairs
    return result | {"ratio": statistics.median(ratios), "lower": lower, "upper": upper, "enough": enough}


def verdict(result):
    """Returns the verdict on a result of `run_pairs` whose ratio should be at least 1."""
    if not result["enough"]:
        return "NOISY"
    if result["lower"] >= 1.00:
        return "WIN"
    return "PASS" if result["ratio"] >= 0.97 and result["upper"] >= 1.00 else "FAIL"


def pairs_row(name, result, verdict):
    """Returns the table row of a result of `run_pairs`."""
    first, second = (samples for key, samples in result.items() if key not in NOT_SAMPLES)
    dropped = f" (-{result['dropped']})" if result["dropped"] else ""
    return [
        name,
        f"{result['ratio']:.3f}",
        f"{result['lower']:.3f}-{result['upper']:.3f}",
        f"{statistics.median(first):.0f}",
        f"{statistics.median(second):.0f}",
        f"{spread(first):.1%}",
        f"{len(first)}{dropped}",
        verdict,
    ]


def spread(samples):
    """Returns the interquartile range as a share of the median."""
    if len(samples) < 2:
        return float("nan")
    low, middle, high = statistics.quantiles(samples, n=4)
    return (high - low) / middle


# ---------------------------------------------------------------------------------------------
# Output


def write_json(arguments, results):
    """Writes all samples, the machine and the programs to the file of `--json`."""
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


def print_progress(text):
    print(text, file=sys.stderr, flush=True)


def print_table(header, rows):
    """Prints rows of strings, with the first column left-aligned and the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        print("  ".join(cells).rstrip())


# ---------------------------------------------------------------------------------------------


def run_main(main):
    """Runs `main`, and exits with its code. SIGTERM also removes servers and namespaces."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(CANNOT_MEASURE))
    try:
        sys.exit(main())
    except (Failed, OSError, subprocess.CalledProcessError) as failure:
        cannot_measure(failure)
    except KeyboardInterrupt:
        sys.exit(CANNOT_MEASURE)
