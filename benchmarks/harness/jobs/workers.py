"""Compares simjoin on one Spark worker of one core and on two."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import data, package, simjoin, table
from ..context import Context, Report, say
from ..paths import GENERATED
from .spark import SparkRun, ask


# The goal: the speed-up of two workers of one core over one, if the join takes at least LONG seconds on one.
GAIN = 1.6
LONG = 60.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument(
        "--times", type=int, default=6, metavar="N",
        help="the factor by which acl_2grams is inflated (default: %(default)d)",
    )
    parser.add_argument(
        "--python", metavar="PATH",
        help="a Python that has simjoin and PySpark (default: both are installed into .cache)",
    )


def gain(one: SparkRun, two: SparkRun) -> str:
    """Returns a line with the goal for two workers, and whether it is met."""
    if one.seconds is None or two.seconds is None:
        return "one worker and two: a run did not finish"
    times = one.seconds / two.seconds
    if one.seconds < LONG:
        verdict = f"not judged, because it takes less than {LONG:g} s on one"
    else:
        verdict = "met" if times >= GAIN else "NOT MET"
    return (
        f"one worker of one core and two: {table.seconds(one.seconds)} s → "
        f"{table.seconds(two.seconds)} s, {times:.2f} times as fast (goal: {GAIN}): {verdict}"
    )


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs both and makes the table."""
    result = table.Table(
        "simjoin on Spark: one worker and two",
        ["collection", "Jaccard", "workers", "seconds", "predicted", "layout", "pairs"],
        frozenset({"collection", "layout"}),
        notes=[
            "Seconds from a cached column of lines to the pairs, including planning, on a standalone "
            "cluster on this machine with workers of one core; each run has its own cluster and driver. The pairs "
            "of two workers are compared with those that the engine finds without Spark, and their number with "
            "that of one worker.",
        ],
    )
    source = data.set_file(context.folder, "acl_2grams")
    if source is None:
        result.summary.append("acl_2grams: not in the data folder")
        return Report(result)
    python = Path(arguments.python) if arguments.python else package.python("spark")
    path = GENERATED / f"acl_2grams-{arguments.times}.txt"
    problem = None if arguments.python else package.install("spark")
    problem = problem or simjoin.generate(
        context.binary,
        lambda to: ["generate", "inflate", str(source), "--times", str(arguments.times), "-o", to],
        path,
    )
    if problem:
        result.summary.append(problem)
        return Report(result, 1)
    runs = []
    for threshold in context.thresholds or ["0.6"]:
        for workers in (1, 2):
            say(f"acl_2grams × {arguments.times} at {threshold}: {workers} workers")
            one = ask(python, path=str(path), records=0, lines=True, jaccard=threshold, limit=context.limit,
                      workers=workers, tool="simjoin", check=workers == 2)
            runs.append(one)
            result.add(f"acl_2grams × {arguments.times}", threshold, str(workers), one.shown(context.limit),
                       table.seconds(one.predicted), one.layout, table.count(one.pairs))
            if one.note:
                result.summary.append(one.note)
        result.summary.append(gain(*runs[-2:]))
    right = all(
        one.pairs == two.pairs and one.state == "ok" for one, two in zip(runs[::2], runs[1::2], strict=True)
    )
    return Report(result, 0 if right else 1)
