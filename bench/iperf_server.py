"""Servers of iperf 2 and iperf3, and what their receivers report."""

import contextlib
import dataclasses
import json
import pathlib
import signal
import tempfile
import time

import lib

# A server of iperf 2 reports a flow when it has ended, not before its client has.
REPORT_DEADLINE = 5

# A client's options for what `Server.received` reads.
MACHINE_READABLE = {"iperf": ["-y", "C"], "iperf3": ["-J"]}

# The field of `-y C` that has bits per second.
CSV_RATE = 8


@dataclasses.dataclass(frozen=True)
class Server:
    programs: lib.Programs
    tool: str
    port: int
    out: pathlib.Path

    def client(self, host="127.0.0.1"):
        return [*self.programs.tool(self.tool), "-c", host, "-p", str(self.port)]

    def received(self, text, flows=1):
        """Bits per second by the receivers' account; `text` is what the client said."""
        if self.tool == "iperf3":
            end = json.loads(text)["end"]
            return sum(end[name]["bits_per_second"] for name in ("sum_received", "sum_received_bidir_reverse") if name in end)
        return sum(float(line[CSV_RATE]) for line in self.reports(flows))

    def reports(self, flows):
        """The lines of iperf 2's server, one per flow."""
        deadline = time.monotonic() + REPORT_DEADLINE
        while time.monotonic() < deadline:
            lines = [line.split(",") for line in self.out.read_text().splitlines() if line.count(",") >= CSV_RATE]
            if len(lines) >= flows:
                return lines
            time.sleep(0.002)
        raise lib.Failed(f"{self.programs.name}: the server reports {len(lines)} of {flows} flows")


@contextlib.contextmanager
def serving(programs, tool, udp=False, around=()):
    """A server, listening when this yields; `around` is the beginning of its command."""
    port = lib.free_port()
    command = [*around, *programs.tool(tool), "-s", "-p", str(port)]
    # One of iperf 2 listens on TCP or UDP, and in stock's a flow without an end would keep it from ending.
    iperf = tool == "iperf"
    command += [*(["-u"] if udp else []), "-y", "C"] if iperf else []
    with tempfile.NamedTemporaryFile("w") as out:
        end = signal.SIGKILL if iperf else signal.SIGTERM
        with lib.running(command, port, udp=iperf and udp, stdout=out, end=end):
            yield Server(programs, tool, port, pathlib.Path(out.name))
