"""How well joins on Spark are predicted: ``simjoin.spark validate`` on one worker and on two."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .. import data, package, process, table
from ..context import Context, Report, say

# Collections: their folder, how they are cut into tokens, the threshold, and the parts that are joined.
COLLECTIONS = {
    "acl_2grams": ("sets", None, "0.6", (27_000, 55_000, 110_486)),
    "reddit_titles_400k": ("text", "words", "0.8", (100_000, 400_000)),
    "debian_files": ("sets", None, "0.7", (16_000, 63_437)),
    "retail": ("sets", None, "0.6", (88_162,)),
}

# The goal: what is measured over what is predicted, or the other way round.
FACTOR = 1.5


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.add_argument(
        "--python", metavar="PATH",
        help="a Python that has simjoin and PySpark (default: both are installed into .cache)",
    )


def factor(cell: dict[str, Any]) -> float:
    """How far apart the seconds and their prediction are."""
    ratio: float = cell["seconds"] / cell["expected_seconds"]
    return max(ratio, 1 / ratio)


def parse(output: str) -> list[dict[str, Any]]:
    """The joins that the command has told of."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs all and makes the table."""
    result = table.Table(
        "Joins on Spark beside their predictions",
        ["collection", "Jaccard", "records", "workers", "pairs", "tasks", "seconds", "predicted",
         "CPU seconds", "CPU predicted"],
        frozenset({"collection"}),
        notes=[
            "From a text file to the number of pairs, planning included, on standalone clusters of this machine "
            "with workers of one core. CPU seconds are those of all processes of the cluster, Spark's own work "
            "included, which predictions of CPU seconds leave out.",
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
            say(f"{name}: not in the data folder, left out")
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
        said = "met" if max(factors) <= FACTOR else "NOT MET"
        result.summary.append(
            f"seconds and predictions are at most {max(factors):.2f} times apart (goal: {FACTOR}): {said}"
        )
    return Report(result, status)
