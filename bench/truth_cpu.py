"""Whether the CPU figure is true: a paced test beside burners of known duty, one on each CPU.

What is known is CPU time that the kernel charged to the burners, the client and the server, and what it
spent in interrupts; what we said is LOCAL_CPU_UTIL of all CPUs. Steal is shown and is nobody's work.
"""

import os
import resource
import subprocess
import time

import lib

BOUND = 2.0  # points
DUTIES = (0.25, 0.50, 0.75)
PERIOD = 0.02  # seconds of a burner's cycle
TICK = os.sysconf("SC_CLK_TCK")


def lines(ours, seconds):
    """One line a duty: (what, known %, said %, error in points, bound, ok, steal %, demand error %)."""
    with lib.server(ours) as server:
        for duty in DUTIES:
            yield line(ours, server, duty, seconds)


def line(ours, server, duty, seconds):
    cpus = sorted(os.sched_getaffinity(0))
    burners = [burner(cpu, duty) for cpu in cpus]
    try:
        time.sleep(0.5)
        spent = [cpu_seconds(pid) for pid in [*burners, server.pid]]
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        before, began = stat(), time.monotonic()
        said = run(ours, server, seconds)
        after, elapsed = stat(), time.monotonic() - began
        # Before the burners are reaped, which are children, too.
        client = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = sum(cpu_seconds(pid) for pid in [*burners, server.pid]) - sum(spent)
    finally:
        for pid in burners:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    spent += client.ru_utime + client.ru_stime - children.ru_utime - children.ru_stime
    passed = {name: after[name] - before[name] for name in after}
    spent += (passed["irq"] + passed["softirq"]) / TICK
    known = 100 * spent / elapsed / len(cpus)
    steal = 100 * passed["steal"] / sum(passed.values())
    error = said["LOCAL_CPU_UTIL"] - known
    # Microseconds of all CPUs' time a KB that was sent.
    demand = known * 1e4 * len(cpus) / (said["LOCAL_BYTES_SENT"] / 1024 / said["ELAPSED_TIME"])
    demand_error = 100 * (said["LOCAL_SD"] / demand - 1)
    return f"burners at {duty:.0%}", known, said["LOCAL_CPU_UTIL"], error, BOUND, abs(error) <= BOUND, steal, demand_error


def run(ours, server, seconds):
    keys = "LOCAL_CPU_UTIL,LOCAL_SD,LOCAL_BYTES_SENT,ELAPSED_TIME"
    command = [*ours.netperf, "-4", "-H", "127.0.0.1", "-p", str(server.port), "-t", "UDP_STREAM", "-P", "0"]
    command += ["-l", str(seconds), "-c", "-b", "10", "-w", "1", "--", "-m", "1000", "-R", "1", "-k", keys]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = dict(row.split("=", 1) for row in text.splitlines() if "=" in row)
    if any(key not in found for key in keys.split(",")):
        raise lib.Failed(f"{' '.join(command)}: {text!r}")
    return {key: float(found[key]) for key in keys.split(",")}


def burner(cpu, duty):
    """A process on one CPU that uses `duty` of the time, by its own CPU time; its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.sched_setaffinity(0, {cpu})
        began, parent = time.monotonic(), os.getppid()
        while os.getppid() == parent:
            # What was missed is caught up with, so that the duty holds over any time.
            while time.process_time() < duty * (time.monotonic() - began):
                pass
            time.sleep(PERIOD * (1 - duty))
    finally:
        os._exit(0)


def cpu_seconds(pid):
    """CPU time of a process with all its threads and reaped children: /proc/PID/stat, proc(5)."""
    with open(f"/proc/{pid}/stat") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return sum(int(word) for word in words[11:15]) / TICK


def stat():
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    with open("/proc/stat") as file:
        return dict(zip(names, map(int, file.readline().split()[1:9])))
