"""Interim results (netperf -D) of one or several netperfs, brought onto one grid of time.

Each result is a mean rate over an interval that ended at a time of the wall clock, so results of several
hosts can be compared as far as their clocks agree. The three layouts of netperf are read: sentences, CSV
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
    """A mean rate over an interval; times in seconds since the epoch."""

    began: float
    ended: float
    rate: float
    unit: str


def parse(lines):
    """The interim results among a netperf's lines of output, in the order of time."""
    results, keys = [], {}
    for line in lines:
        line = line.rstrip("\r\n")
        if match := SENTENCE.match(line) or CSV.match(line):
            results.append(_result(**match.groupdict()))
        elif match := KEY.match(line):
            keys.setdefault(int(match["index"]), {})[match["key"]] = match["value"]
    for _, found in sorted(keys.items()):
        # A netperf that was cut off may leave the last one without its end.
        if len(found) == 4:
            results.append(
                _result(found["INTERIM_RESULT"], found["UNITS"], found["INTERVAL"], found["ENDING"])
            )
    return sorted(results, key=lambda result: result.ended)


def _result(rate, unit, interval, ending):
    ended = float(ending)
    return Result(ended - float(interval), ended, float(rate), unit)


def unit(instances):
    """The unit of all results; ValueError if there is none, or more than one."""
    units = {result.unit for results in instances for result in results}
    if len(units) != 1:
        raise ValueError(f"results in {len(units)} units: {', '.join(sorted(units)) or 'none'}")
    return units.pop()


def mean(results, began, ended, least=0.9):
    """The mean rate of one instance from `began` to `ended`: each result counts for as long as it lies in
    there. None if the results cover less than the share `least` of that time."""
    work = covered = 0.0
    for result in results:
        overlap = min(result.ended, ended) - max(result.began, began)
        if overlap > 0:
            work += result.rate * overlap
            covered += overlap
    if covered <= 0 or covered < least * (ended - began):
        return None
    return work / covered


def common(instances):
    """From when to when all instances have results."""
    if not instances or not all(instances):
        raise ValueError("an instance has no interim results")
    began = max(results[0].began for results in instances)
    ended = min(results[-1].ended for results in instances)
    if ended <= began:
        raise ValueError("the instances never ran at the same time")
    return began, ended
