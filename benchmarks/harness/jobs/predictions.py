"""Compares joins on Spark with their predictions: ``simjoin.spark validate`` on one worker and on two."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .. import data, package, process, table
from ..context import Context, Report, say

# Collections: the folder, the tokenizer, the threshold, and the numbers of records that are joined.
COLLECTIONS = {
    "acl_2grams": ("sets", None, "0.6", (27_000, 55_000, 110_486)),
    "reddit_titles_400k": ("text", "words", "0.8", (100_000, 400_000)),
    "debian_files": ("sets", None, "0.7", (16_000, 63_437)),
    "retail": ("sets", None, "0.6", (88_162,)),
}

# The goal: the larger of measured and predicted seconds over the smaller.
FACTOR = 1.5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument(
        "--python", metavar="PATH",
        help="a Python that has simjoin and PySpark (default: both are installed into .cache)",
    )


def factor(cell: dict[str, Any]) -> float:
    """Returns the larger of measured and predicted seconds over the smaller."""
    ratio: float = cell["seconds"] / cell["expected_seconds"]
    return max(ratio, 1 / ratio)


def parse(output: str) -> list[dict[str, Any]]:
    """Returns the joins that the command has printed."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs all joins and makes the table."""
    result = table.Table(
        "Joins on Spark, compared with their predictions",
        ["collection", "Jaccard", "records", "workers", "pairs", "tasks", "seconds", "predicted",
         "CPU seconds", "CPU predicted"],
        frozenset({"collection"}),
        notes=[
            "From a text file to the number of pairs, including planning, on standalone clusters of this machine "
            "with workers of one core. CPU seconds are those of all processes of the cluster, including Spark's own "
            "work, which predictions of CPU seconds do not include.",
        ],
    )
    python = Path(arguments.python) if arguments.python else package.python("spark")
    problem = None if arguments.python else package.install("spark")
    if problem is not None:
        result.summary.append(problem)
        return Report(result, 1)
    status, factors = 0, []
    for name, (folder, tokens, jaccard, parts) in COLLECTIONS.items():
        if context.datasets and name not in context.datasets:
            continue
        found = data.prepare(context.folder, [f"{folder}/{name}.txt"])
        if not found:
            say(f"{name}: not in the data folder, omitted")
            continue
        say(f"{name}: joins of {len(parts)} parts on 1 and 2 workers")
        command = [python, "-I", "-m", "simjoin.spark", "validate", found[0], "--jaccard", jaccard, "--json",
                   "--records", ",".join(map(str, parts)), *(["--tokens", tokens] if tokens else [])]
        finished = process.run(command)
        cells = parse(finished.stdout)
        if finished.code != 0 or not cells:
            status = 1
            result.summary.append(f"{name}: {finished.complaint}")
        for cell in cells:
            factors.append(factor(cell))
            result.add(
                name, jaccard, table.count(cell["records"]), str(cell["workers"]), table.count(cell["pairs"]),
                str(cell["tasks"]), table.seconds(cell["seconds"]), table.seconds(cell["expected_seconds"]),
                table.seconds(cell["cpu_seconds"]), table.seconds(cell["expected_cpu_seconds"]),
            )
    if factors:
        verdict = "met" if max(factors) <= FACTOR else "NOT MET"
        result.summary.append(
            f"seconds and predictions differ by a factor of at most {max(factors):.2f} (goal: {FACTOR}): {verdict}"
        )
    return Report(result, status)
