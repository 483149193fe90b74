"""Interim results (netperf -D) of one or several netperfs, and their means over a common time.

Each result is a mean rate over an interval that ends at a wall-clock time. Results of several hosts
are comparable if their clocks agree. The parser accepts netperf's three formats: sentences, CSV
(test option -o) and keys (test option -k).
"""

import re
from dataclasses import dataclass

SENTENCE = re.compile(
    r"Interim result:\s*(?P<rate>\S+) (?P<unit>\S+) over (?P<interval>\S+) seconds ending at (?P<ending>\S+)"
)
CSV = re.compile(
    r"\s*(?P<rate>[\d.]+),(?P<unit>\S+/s),(?P<interval>[\d.]+),(?P<ending>\d+\.\d+)$"
)
KEY = re.compile(
    r"NETPERF_(?P<key>INTERIM_RESULT|UNITS|INTERVAL|ENDING)\[(?P<index>\d+)\]=(?P<value>.*)$"
)


@dataclass(frozen=True)
class Result:
    """A mean rate over an interval. Times are in seconds since the epoch."""

    started: float
    ended: float
    rate: float
    unit: str


def parse(lines):
    """Returns the interim results in lines of netperf's output, ordered by time."""
    results, keys = [], {}
    for line in lines:
        line = line.rstrip("\r\n")
        if match := SENTENCE.match(line) or CSV.match(line):
            results.append(_result(**match.groupdict()))
        elif match := KEY.match(line):
            keys.setdefault(int(match["index"]), {})[match["key"]] = match["value"]
    for _, values in sorted(keys.items()):
        # The last result may be incomplete if netperf was killed.
        if len(values) == 4:
            results.append(
                _result(values["INTERIM_RESULT"], values["UNITS"], values["INTERVAL"], values["ENDING"])
            )
    return sorted(results, key=lambda result: result.ended)


def _result(rate, unit, interval, ending):
    ended = float(ending)
    return Result(ended - float(interval), ended, float(rate), unit)


def unit(instances):
    """Returns the unit of all results; raises ValueError unless there is exactly one."""
    units = {result.unit for results in instances for result in results}
    if len(units) != 1:
        raise ValueError(f"results in {len(units)} units: {', '.join(sorted(units)) or 'none'}")
    return units.pop()


def mean(results, start_time, end_time, min_coverage=0.9):
    """Returns the mean rate of one instance from `start_time` to `end_time`. Each result is
    weighted by its overlap with this time. Returns None if the results cover less than the share
    `min_coverage` of it."""
    work = covered = 0.0
    for result in results:
        overlap = min(result.ended, end_time) - max(result.started, start_time)
        if overlap > 0:
            work += result.rate * overlap
            covered += overlap
    if covered <= 0 or covered < min_coverage * (end_time - start_time):
        return None
    return work / covered


def common_time(instances):
    """Returns the start and the end of the time in which all instances have results."""
    if not instances or not all(instances):
        raise ValueError("an instance has no interim results")
    start_time = max(results[0].started for results in instances)
    end_time = min(results[-1].ended for results in instances)
    if end_time <= start_time:
        raise ValueError("the instances never ran at the same time")
    return start_time, end_time
