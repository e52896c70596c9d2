"""Compares the Python package with the command line on a join of a Polars column."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from .. import data, package, process, statistics, table
from ..context import Context, Report, say
from ..paths import BENCHMARKS, SCRATCH
from .expected import thread_list

WORKER = BENCHMARKS / "harness" / "package_worker.py"
ANSWERS = ("count", "pairs", "frame")

# The goal: the additional time of the package, from a column to pairs in memory, over the command line.
OVERHEAD = 0.10


@dataclass(frozen=True)
class PackageRun:
    """One run of the package or the command line."""

    seconds: float | None = None
    pairs: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    note: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument(
        "--text", default="reddit_titles_400k", metavar="NAME",
        help="the text collection (default: reddit_titles_400k)",
    )
    parser.add_argument(
        "--tokens", default="words", metavar="T", help="words or qgrams:Q (default: words)"
    )
    parser.add_argument("--jaccard", default="0.8", metavar="J", help="the threshold (default: 0.8)")
    parser.add_argument(
        "--threads", type=thread_list, default=[2], metavar="LIST",
        help="numbers of threads, comma-separated (default: 2)",
    )
    parser.add_argument(
        "--python", metavar="PATH",
        help="a Python that has simjoin and polars (default: both are installed into .cache)",
    )


def from_python(
    python: Path, path: Path, arguments: argparse.Namespace, threads: int, answer: str, limit: float
) -> PackageRun:
    """Runs a join by the package, in a process of its own."""
    # Isolated (-I), because a module of this driver has the same name as the package.
    command = [python, "-I", WORKER, path, arguments.tokens, arguments.jaccard, str(threads), answer]
    finished = process.run(command, limit)
    try:
        result = json.loads(finished.stdout.strip().splitlines()[-1])
        return PackageRun(result["seconds"], result["pairs"], result["phases"])
    except (IndexError, KeyError, ValueError):
        return PackageRun(note=finished.complaint if finished.code is not None else "ran out of time")


def from_command_line(
    binary: Path, path: Path, arguments: argparse.Namespace, threads: int, answer: str, limit: float
) -> PackageRun:
    """Runs a join by the command line, from file to file."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        stats = Path(folder) / "stats.json"
        output = ["--count"] if answer == "count" else ["-o", Path(folder) / "pairs.arrow"]
        command = [binary, "text", path, "--tokens", arguments.tokens, "--jaccard", arguments.jaccard,
                   "--threads", str(threads), "--quiet", "--stats", stats, *output]
        finished = process.run(command, limit)
        if finished.code != 0:
            return PackageRun(note=finished.complaint if finished.code is not None else "ran out of time")
        result = json.loads(stats.read_text())
        return PackageRun(result["seconds"]["total"], result["pairs"], result["seconds"])


def overhead(own: PackageRun | None, program: PackageRun | None) -> float | None:
    """Returns the additional time of the package, relative to the time of the program."""
    found = statistics.ratio(own.seconds if own else None, program.seconds if program else None)
    return None if found is None else found - 1


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs both in turns and makes the table."""
    result = table.Table(
        "The Python package, compared with the command line",
        ["text", "tokens", "Jaccard", "threads", "answer", "command line", "Python", "overhead",
         "read", "prepare", "join", "pairs"],
        frozenset({"text", "tokens", "answer"}),
        notes=[
            "Seconds, the best of several runs in turns. Command line: the total of --stats, from a file "
            "of lines to an Arrow file or a count. Python: the call of self_join on a Polars column in "
            "memory; frame: with to_polars. read, prepare, join: the command line / Python.",
        ],
    )
    path = data.text_file(context.folder, arguments.text)
    if path is None:
        result.summary.append(f"{arguments.text}: not in the data folder")
        return Report(result)
    python = Path(arguments.python) if arguments.python else package.python("python")
    problem = None if arguments.python else package.install("python")
    if problem is not None:
        result.summary.append(problem)
        return Report(result, 1)
    status = 0
    for threads in arguments.threads:
        for answer in ANSWERS:
            say(f"{arguments.text}: {answer}, threads {threads}")
            programs, packages = [], []
            for _ in range(context.runs):
                how = (path, arguments, threads, answer, context.limit)
                programs.append(from_command_line(context.binary, *how))
                packages.append(from_python(python, *how))
            notes = [one.note for one in (*programs, *packages) if one.note]
            result.summary.extend(notes)
            program = statistics.best(programs, lambda one: one.seconds)
            own = statistics.best(packages, lambda one: one.seconds)
            counts = {one.pairs for one in (*programs, *packages)}
            if notes or len(counts) != 1 or program is None or own is None:
                status = 1
                result.summary.append(f"{answer}: the counts are {counts}")
                continue
            more = overhead(own, program)
            phases = [
                f"{table.seconds(program.phases.get(name))} / {table.seconds(own.phases.get(name))}"
                for name in ("read", "prepare", "join")
            ]
            result.add(
                arguments.text, arguments.tokens, arguments.jaccard, str(threads), answer,
                table.seconds(program.seconds), table.seconds(own.seconds),
                "–" if more is None else f"{more:+.1%}", *phases, table.count(own.pairs),
            )
            if answer == "pairs" and more is not None:
                met = "met" if more < OVERHEAD else "NOT MET"
                result.summary.append(
                    f"threads {threads}: pairs from a Polars column {more:+.1%} compared with the command line "
                    f"(goal: below {OVERHEAD:+.0%}): {met}"
                )
    return Report(result, status)
