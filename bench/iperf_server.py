"""Servers of iperf 2 and iperf3, and the rates that their receivers report."""

import contextlib
import dataclasses
import json
import pathlib
import signal
import tempfile
import time

import lib

# Timeout in seconds for reports of an iperf 2 server, which may come after the client has ended.
REPORT_DEADLINE = 5

# Client options for the output that `Server.received` parses.
MACHINE_READABLE = {"iperf": ["-y", "C"], "iperf3": ["-J"]}

# The field of `-y C` with bits per second.
CSV_RATE = 8


@dataclasses.dataclass(frozen=True)
class Server:
    programs: lib.Programs
    tool: str
    port: int
    output: pathlib.Path

    def client(self, host="127.0.0.1"):
        return [*self.programs.tool(self.tool), "-c", host, "-p", str(self.port)]

    def received(self, text, flows=1):
        """Returns the bits per second that the receivers report; `text` is the client's output."""
        if self.tool == "iperf3":
            end = json.loads(text)["end"]
            return sum(end[name]["bits_per_second"] for name in ("sum_received", "sum_received_bidir_reverse") if name in end)
        return sum(float(line[CSV_RATE]) for line in self.reports(flows))

    def reports(self, flows):
        """Returns the lines of the iperf 2 server, one per flow."""
        deadline = time.monotonic() + REPORT_DEADLINE
        while time.monotonic() < deadline:
            lines = [line.split(",") for line in self.output.read_text().splitlines() if line.count(",") >= CSV_RATE]
            if len(lines) >= flows:
                return lines
            time.sleep(0.002)
        raise lib.Failed(f"{self.programs.name}: the server reported {len(lines)} of {flows} flows")


@contextlib.contextmanager
def serving(programs, tool, udp=False, prefix=()):
    """Runs a server, and yields when it listens. `prefix` precedes its command."""
    port = lib.free_port()
    command = [*prefix, *programs.tool(tool), "-s", "-p", str(port)]
    # An iperf 2 server listens on TCP or UDP. SIGKILL also ends stock's with an unfinished flow.
    is_iperf2 = tool == "iperf"
    command += [*(["-u"] if udp else []), "-y", "C"] if is_iperf2 else []
    with tempfile.NamedTemporaryFile("w") as output:
        end_signal = signal.SIGKILL if is_iperf2 else signal.SIGTERM
        with lib.running_server(command, port, udp=is_iperf2 and udp, stdout=output, end_signal=end_signal):
            yield Server(programs, tool, port, pathlib.Path(output.name))
