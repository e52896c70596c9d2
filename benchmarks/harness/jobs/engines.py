"""The same pairs by every engine: CPU, GPU and both at once, with every measure on every set file."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .. import data, table
from ..context import Context, Report, say
from ..paths import CACHE

VARIABLE = "SIMJOIN_SIMULATED_GPU"
# A threshold for each measure at which no file has more pairs of distinct rows than can be compared soon.
MEASURES = (
    ("jaccard", "0.7"), ("cosine", "0.8"), ("dice", "0.8"), ("overlap", "12"), ("containment", "1"),
)
# The sets of this file are large.
LARGE = {"acl_2grams": {"overlap": "70"}}
# Joins with more pairs are compared by their number alone.
MANY = 4_000_000
# Of each join; several go on at once where there are more.
THREADS = 2
ENGINES: tuple[tuple[str, ...], ...] = (
    ("--engine", "gpu"),
    ("--engine", "gpu", "--technique", "gpu-bitmap"),
    ("--engine", "gpu", "--technique", "gpu-prefix"),
    ("--engine", "hybrid"),
    ("--engine", "hybrid", "--split", "0.5"),
    ("--engine", "hybrid", "--split", "queue"),
    ("--engine", "auto"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.add_argument(
        "--simulate", metavar="SPECS",
        help=f"devices to simulate, one after the other, separated by ';' (default: ${VARIABLE}, "
        "else the device that is there)",
    )


def run(context: Context, options: argparse.Namespace) -> Report:
    """Compares every engine with the CPU."""
    devices = options.simulate.split(";") if options.simulate else [None]
    result = table.Table(
        "The same pairs by every engine",
        ["dataset", "measure", "T", "pairs", "compared", "agree"],
        frozenset({"dataset", "measure", "compared"}),
        notes=[
            f"Self-joins of the distinct rows of each file, {THREADS} threads; what --engine cpu finds beside "
            + "; ".join(" ".join(words[1:]).replace("--", "") for words in ENGINES)
            + (f"; devices simulated: {options.simulate}" if options.simulate else "") + ".",
            "compared: pairs with their similarity, whatever their order; or their number, where they "
            "are many.",
        ],
    )
    cells: list[Cell] = []
    for dataset in data.set_names(context.folder):
        if context.datasets is not None and dataset not in context.datasets:
            continue
        whole = data.set_file(context.folder, dataset)
        if whole is not None:
            path = distinct(whole)
            cells += [
                Cell(dataset, path, measure, LARGE.get(dataset, {}).get(measure, usual))
                for measure, usual in MEASURES
            ]
    problems: list[str] = []
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // THREADS)) as pool:
        for cell, (count, wrong) in zip(
            cells, pool.map(lambda cell: compare(context, cell, devices), cells), strict=True
        ):
            agree = len(devices) * len(ENGINES) - len(wrong)
            result.add(cell.dataset, cell.measure, cell.threshold, table.count(count),
                       "pairs" if count <= MANY else "number", str(agree))
            problems += wrong
    runs = len(cells) * len(devices) * len(ENGINES)
    result.summary.append(f"{runs - len(problems)} of {runs} runs agree with the CPU")
    result.summary += problems
    return Report(result, 1 if problems or runs == 0 else 0)


@dataclass
class Cell:
    """A join that every engine does."""

    dataset: str
    path: Path
    measure: str
    threshold: str


def compare(
    context: Context, cell: Cell, devices: Sequence[str | None]
) -> tuple[int, list[str]]:
    """How many pairs there are, and which engines find others."""
    join = [
        "sets", str(cell.path), f"--{cell.measure}", cell.threshold, "--threads", str(THREADS), "--quiet"
    ]
    count = int(b"".join(lines(context, [*join, "--engine", "cpu", "--count"], {})))
    ask = [] if count <= MANY else ["--count"]
    expected = digest(lines(context, [*join, "--engine", "cpu", *ask], {}))
    name = f"{cell.dataset} {cell.measure} {cell.threshold}"
    problems: list[str] = []
    for device in devices:
        variables = {VARIABLE: device} if device else {}
        for words in ENGINES:
            try:
                found = digest(lines(context, [*join, *words, *ask], variables))
            except OSError as error:
                problems.append(f"{name} {device} {words}: {error}")
                continue
            if found != expected:
                problems.append(
                    f"{name} {' '.join(words)} {device or ''}: {found[0] - expected[0]:+,} lines, "
                    "DIFFERENT"
                )
    say(f"{name}: {count:,} pairs, {len(problems)} of {len(devices) * len(ENGINES)} wrong")
    return count, problems


def distinct(whole: Path) -> Path:
    """The distinct rows of a file, in order."""
    path = CACHE / "distinct" / whole.name
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(b"".join(dict.fromkeys(whole.read_bytes().splitlines(True))))
        os.replace(unfinished, path)
    return path


def lines(context: Context, words: list[str], variables: Mapping[str, str]) -> Iterator[bytes]:
    """What simjoin prints, line by line; an OSError where it fails."""
    with subprocess.Popen(
        [str(context.binary), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, **variables},
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        yield from child.stdout
        complaint = child.stderr.read().decode(errors="replace").strip()
        if child.wait() != 0:
            raise OSError(complaint[-200:] or f"exit status {child.returncode}")


def digest(found: Iterator[bytes]) -> tuple[int, int]:
    """How many lines, and a number that does not depend on their order."""
    count, total = 0, 0
    for line in found:
        count += 1
        total += hash(line)
    return count, total
