"""Compares LOCAL_CPU_UTIL with the known CPU load of a paced test and of a burner on each CPU.

The known load is the CPU time that the kernel charged to burners, client and server, plus
interrupts. It does not include steal, which is reported separately.
"""

import os
import resource
import subprocess
import time

import lib

BOUND = 2.0  # percentage points
DUTIES = (0.25, 0.50, 0.75)
PERIOD = 0.02  # period of a burner in seconds
TICK = os.sysconf("SC_CLK_TCK")


def measure_all(ours, seconds):
    """Yields per duty: name, known and reported CPU use, bound, steal, error of the service demand.

    All values are in percent or percentage points.
    """
    with lib.server(ours) as server:
        for duty in DUTIES:
            yield measure(ours, server, duty, seconds)


def measure(ours, server, duty, seconds):
    cpus = sorted(os.sched_getaffinity(0))
    burners = [start_burner(cpu, duty) for cpu in cpus]
    try:
        time.sleep(0.5)
        before = sum(cpu_seconds(pid) for pid in [*burners, server.pid])
        children_before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ticks_before, start_time = read_ticks(), time.monotonic()
        results = run_client(ours, server, seconds)
        ticks_after, elapsed = read_ticks(), time.monotonic() - start_time
        # Burners are also children, so this must precede waitpid.
        children_after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = sum(cpu_seconds(pid) for pid in [*burners, server.pid]) - before
    finally:
        for pid in burners:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    used += children_after.ru_utime + children_after.ru_stime - children_before.ru_utime - children_before.ru_stime
    ticks = {name: ticks_after[name] - ticks_before[name] for name in ticks_after}
    used += (ticks["irq"] + ticks["softirq"]) / TICK
    known = 100 * used / elapsed / len(cpus)
    steal = 100 * ticks["steal"] / sum(ticks.values())
    # Microseconds of CPU time (of all CPUs) per sent KB.
    demand = known * 1e4 * len(cpus) / (results["LOCAL_BYTES_SENT"] / 1024 / results["ELAPSED_TIME"])
    demand_error = 100 * (results["LOCAL_SD"] / demand - 1)
    return f"burners at {duty:.0%}", known, results["LOCAL_CPU_UTIL"], BOUND, steal, demand_error


def run_client(ours, server, seconds):
    keys = "LOCAL_CPU_UTIL,LOCAL_SD,LOCAL_BYTES_SENT,ELAPSED_TIME"
    command = [*ours.netperf, "-4", "-H", "127.0.0.1", "-p", str(server.port), "-t", "UDP_STREAM", "-P", "0"]
    command += ["-l", str(seconds), "-c", "-b", "10", "-w", "1", "--", "-m", "1000", "-R", "1", "-k", keys]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    values = dict(row.split("=", 1) for row in text.splitlines() if "=" in row)
    if any(key not in values for key in keys.split(",")):
        raise lib.Failed(f"{' '.join(command)}: {text!r}")
    return {key: float(values[key]) for key in keys.split(",")}


def start_burner(cpu, duty):
    """Starts a process whose CPU time is the share `duty` of a CPU; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.sched_setaffinity(0, {cpu})
        start_time, parent = time.monotonic(), os.getppid()
        while os.getppid() == parent:
            # Catches up after a delay, so that the share is exact over any time.
            while time.process_time() < duty * (time.monotonic() - start_time):
                pass
            time.sleep(PERIOD * (1 - duty))
    finally:
        os._exit(0)


def cpu_seconds(pid):
    """Returns the CPU time of a process and its reaped children: /proc/PID/stat, proc(5)."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:15]) / TICK


def read_ticks():
    """Returns the ticks of all CPUs by state, from /proc/stat, proc(5)."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    with open("/proc/stat") as file:
        return dict(zip(names, map(int, file.readline().split()[1:9])))
