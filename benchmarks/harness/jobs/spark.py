"""Compares simjoin on Spark with Spark's own MinHashLSH."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import data, package, process, table
from ..context import Context, Report, say
from ..paths import BENCHMARKS

WORKER = BENCHMARKS / "harness" / "spark_worker.py"

# Collections: the folder, whether they are texts to be split into words, and the numbers of records
# that are joined; 0 means all.
COLLECTIONS = {
    "acl_2grams": ("sets", False, (5000, 0)),
    "reddit_titles_400k": ("text", True, (5000, 30_000, 0)),
}
THRESHOLD = "0.8"


@dataclass(frozen=True)
class SparkRun:
    """The result of one join."""

    state: str
    seconds: float | None = None
    pairs: int | None = None
    note: str = ""
    layout: str = ""
    predicted: float | None = None

    def shown(self, limit: float) -> str:
        """Returns the seconds, or the reason why there are none."""
        if self.state == "ok":
            return table.seconds(self.seconds)
        return f">{limit:g}" if self.state == "timeout" else self.state


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument(
        "--sets", default="", metavar="LIST",
        help="numbers of records, comma-separated; 0 means all (default: a part and all of each collection)",
    )
    parser.add_argument(
        "--tables", type=int, default=5, metavar="N", help="hash tables of MinHashLSH (default: %(default)d)"
    )
    parser.add_argument("--no-minhash", action="store_true", help="run only simjoin")
    parser.add_argument(
        "--python", metavar="PATH",
        help="a Python that has simjoin and PySpark (default: both are installed into .cache)",
    )


def ask(python: Path, **request: Any) -> SparkRun:
    """Runs one join, with its own cluster and driver. The worker enforces the time limit itself, so that it
    can stop its cluster."""
    finished = process.run([python, "-I", WORKER, json.dumps(request)])
    return parse(finished.stdout, finished.complaint)


def parse(output: str, complaint: str) -> SparkRun:
    """Returns the last line that a worker has printed."""
    try:
        answer = json.loads(output.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return SparkRun("error", note=complaint)
    layout = f"{answer['distribution']}, {answer['tasks']}" if "distribution" in answer else ""
    return SparkRun(
        answer["state"], answer.get("seconds"), answer.get("pairs"), answer.get("note", ""), layout,
        answer.get("predicted"),
    )


def recall(found: SparkRun, exact: SparkRun) -> str:
    """Returns the share of the pairs that were found."""
    if found.pairs is None or exact.pairs is None:
        return "–"
    return "100 %" if found.pairs == exact.pairs else f"{100 * found.pairs / max(exact.pairs, 1):.1f} %"


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs all joins and makes the table."""
    result = table.Table(
        "simjoin on Spark, compared with MinHashLSH",
        ["collection", "records", "Jaccard", "workers", "simjoin", "layout", "MinHashLSH", "ratio", "pairs",
         "recall of MinHashLSH"],
        frozenset({"collection", "layout"}),
        notes=[
            "Seconds from a cached column of tokens to the pairs (for MinHashLSH: to their number), including "
            "planning, on a standalone cluster on this machine with workers of one core; each run has its own cluster "
            "and driver. The pairs of simjoin are compared with those that the engine finds without Spark. "
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
    for name, (folder, words, parts) in COLLECTIONS.items():
        if context.datasets and name not in context.datasets:
            continue
        found = data.prepare(context.folder, [f"{folder}/{name}.txt"])
        if not found:
            say(f"{name}: not in the data folder, omitted")
            continue
        slow = False
        for records in sizes or parts:
            for threshold in context.thresholds or [THRESHOLD]:
                request = {"path": str(found[0]), "records": records, "words": words, "jaccard": threshold,
                        "tables": arguments.tables, "limit": context.limit, "workers": 2}
                say(f"{name}, {records or 'all'} records: simjoin")
                own = ask(python, tool="simjoin", check=True, **request)
                if own.state != "ok":
                    status = 1
                    result.summary.append(f"{name}: {own.note}")
                peer = SparkRun("–")
                if not arguments.no_minhash and not slow:
                    say(f"{name}, {records or 'all'} records: MinHashLSH")
                    peer = ask(python, tool="minhash", **request)
                    # More records would take even longer.
                    slow = peer.state != "ok"
                elif slow:
                    peer = SparkRun("long")
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
    return Report(result, status)
