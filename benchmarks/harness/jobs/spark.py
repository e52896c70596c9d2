"""simjoin on Spark beside Spark's own MinHashLSH, and on one worker beside two."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import data, package, process, simjoin, table
from ..context import Context, Report, say
from ..paths import BENCHMARKS, CACHE

WORKER = BENCHMARKS / "harness" / "spark_worker.py"
GENERATED = CACHE / "generated"

# Collections: the folder of the data, and whether they are texts to be cut into words.
COLLECTIONS = {"acl_2grams": ("sets", False), "reddit_titles_400k": ("text", True)}
THRESHOLD = "0.8"

# The goal for two workers of one core beside one, and how long the join must take there.
GAIN = 1.6
LONG = 60.0


@dataclass(frozen=True)
class Run:
    """One join."""

    state: str
    seconds: float | None = None
    pairs: int | None = None
    note: str = ""
    layout: str = ""

    def shown(self, limit: float) -> str:
        """Its seconds, or why there are none."""
        if self.state == "ok":
            return table.seconds(self.seconds)
        return f">{limit:g}" if self.state == "timeout" else self.state


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.add_argument(
        "--sets", default="5000,20000,0", metavar="LIST",
        help="numbers of records, 0 for all (default: %(default)s)",
    )
    parser.add_argument(
        "--tables", type=int, default=5, metavar="N", help="hash tables of MinHashLSH (default: %(default)d)"
    )
    parser.add_argument(
        "--times", type=int, default=4, metavar="N",
        help="how often acl_2grams is inflated for one worker beside two; 0: not at all (default: %(default)d)",
    )
    parser.add_argument("--no-minhash", action="store_true", help="simjoin alone")
    parser.add_argument(
        "--python", metavar="PATH",
        help="a Python that has simjoin and PySpark (default: both are installed into .cache)",
    )


def ask(python: Path, **told: Any) -> Run:
    """One join, on a cluster and with a driver of its own. It keeps to the limit by itself, so that it
    can end its cluster."""
    finished = process.run([python, "-I", WORKER, json.dumps(told)])
    return parse(finished.stdout, finished.complaint)


def parse(output: str, complaint: str) -> Run:
    """What a worker has said last."""
    try:
        said = json.loads(output.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return Run("error", note=complaint)
    layout = f"{said['distribution']}, {said['tasks']}" if "distribution" in said else ""
    return Run(said["state"], said.get("seconds"), said.get("pairs"), said.get("note", ""), layout)


def recall(found: Run, exact: Run) -> str:
    """The part of the pairs that were found."""
    if found.pairs is None or exact.pairs is None:
        return "–"
    return "100 %" if found.pairs == exact.pairs else f"{100 * found.pairs / max(exact.pairs, 1):.1f} %"


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
    """Runs all and makes the table."""
    result = table.Table(
        "simjoin on Spark beside MinHashLSH",
        ["collection", "records", "Jaccard", "workers", "simjoin", "layout", "MinHashLSH", "ratio", "pairs",
         "recall of MinHashLSH"],
        frozenset({"collection", "layout"}),
        notes=[
            "Seconds from a cached column of tokens to the number of pairs, planning included, on a standalone "
            "cluster on this machine with workers of one core; a cluster and a driver for each run. "
            f"MinHashLSH: CountVectorizer, {arguments.tables} hash tables, approxSimilarityJoin.",
        ],
    )
    python = Path(arguments.python) if arguments.python else package.python("spark")
    problem = None if arguments.python else package.install("spark")
    if problem is not None:
        result.summary.append(problem)
        return Report(result, 1)
    status = 0
    sizes = [int(size) for size in arguments.sets.split(",") if size]
    for name, (folder, words) in COLLECTIONS.items():
        if context.datasets and name not in context.datasets:
            continue
        found = data.prepare(context.folder, [f"{folder}/{name}.txt"])
        if not found:
            say(f"{name}: not in the data folder, left out")
            continue
        slow = False
        for records in sizes:
            for threshold in context.thresholds or [THRESHOLD]:
                told = {"path": str(found[0]), "records": records, "words": words, "jaccard": threshold,
                        "tables": arguments.tables, "limit": context.limit, "workers": 2}
                say(f"{name}, {records or 'all'} records: simjoin")
                own = ask(python, tool="simjoin", **told)
                if own.state != "ok":
                    status = 1
                    result.summary.append(f"{name}: {own.note}")
                peer = Run("–")
                if not arguments.no_minhash and not slow:
                    say(f"{name}, {records or 'all'} records: MinHashLSH")
                    peer = ask(python, tool="minhash", **told)
                    # More records would take longer still.
                    slow = peer.state != "ok"
                elif slow:
                    peer = Run("long")
                ratio = "–"
                if own.seconds and peer.seconds:
                    ratio = table.factor(peer.seconds / own.seconds)
                elif own.seconds and peer.state == "timeout":
                    ratio = f">{context.limit / own.seconds:.0f}×"
                result.add(
                    name, table.count(records) if records else "all", threshold, "2",
                    own.shown(context.limit), own.layout, peer.shown(context.limit), ratio,
                    table.count(own.pairs), recall(peer, own),
                )
    if arguments.times and (not context.datasets or "inflated" in context.datasets):
        status = max(status, scale(context, arguments, python, result))
    return Report(result, status)


def scale(context: Context, arguments: argparse.Namespace, python: Path, result: table.Table) -> int:
    """One worker beside two."""
    source = data.set_file(context.folder, "acl_2grams")
    if source is None:
        return 0
    path = GENERATED / f"acl_2grams-{arguments.times}.txt"
    problem = simjoin.generate(
        context.binary,
        lambda to: ["generate", "inflate", str(source), "--times", str(arguments.times), "-o", to],
        path,
    )
    if problem:
        result.summary.append(problem)
        return 1
    runs = []
    for workers in (1, 2):
        say(f"acl_2grams × {arguments.times}: {workers} workers")
        one = ask(python, path=str(path), records=0, words=False, jaccard="0.6", tables=1,
                  limit=context.limit * 2, workers=workers, tool="simjoin")
        runs.append(one)
        result.add(f"acl_2grams × {arguments.times}", "all", "0.6", str(workers),
                   one.shown(context.limit * 2), one.layout, "–", "–", table.count(one.pairs), "–")
        if one.note:
            result.summary.append(one.note)
    result.summary.append(gain(*runs))
    return 0 if runs[0].pairs == runs[1].pairs and runs[0].state == "ok" else 1
