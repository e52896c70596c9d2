"""Compares simjoin on one Spark worker of one core and on two."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import data, package, simjoin, table
from ..context import Context, Report, say
from ..paths import GENERATED
from .spark import Run, ask


# The goal for two workers of one core beside one, and how long the join must take there.
GAIN = 1.6
LONG = 60.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.add_argument(
        "--times", type=int, default=6, metavar="N",
        help="how often acl_2grams is inflated (default: %(default)d)",
    )
    parser.add_argument(
        "--python", metavar="PATH",
        help="a Python that has simjoin and PySpark (default: both are installed into .cache)",
    )


def gain(one: Run, two: Run) -> str:
    """The goal for two workers, and whether it is met."""
    if one.seconds is None or two.seconds is None:
        return "one worker beside two: a run did not finish"
    times = one.seconds / two.seconds
    if one.seconds < LONG:
        said = f"says nothing: it takes less than {LONG:g} s on one"
    else:
        said = "met" if times >= GAIN else "NOT MET"
    return (
        f"two workers of one core beside one: {table.seconds(one.seconds)} s → "
        f"{table.seconds(two.seconds)} s, {times:.2f} times as fast (goal: {GAIN}): {said}"
    )


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs both and makes the table."""
    result = table.Table(
        "simjoin on Spark: one worker beside two",
        ["collection", "Jaccard", "workers", "seconds", "predicted", "layout", "pairs"],
        frozenset({"collection", "layout"}),
        notes=[
            "Seconds from a cached column of lines to the pairs, planning included, on a standalone "
            "cluster on this machine with workers of one core; a cluster and a driver for each run. The pairs "
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
