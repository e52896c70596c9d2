"""The same pairs by every engine: CPU, GPU and both at once, with every measure on every set file."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator, Mapping
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
            "Self-joins of the distinct rows of each file, 2 threads; what --engine cpu finds beside "
            + "; ".join(" ".join(words[1:]).replace("--", "") for words in ENGINES)
            + (f"; devices simulated: {options.simulate}" if options.simulate else "") + ".",
            "compared: pairs with their similarity, whatever their order; or their number, where they "
            "are many.",
        ],
    )
    problems: list[str] = []
    runs = 0
    for dataset in data.set_names(context.folder):
        if context.datasets is not None and dataset not in context.datasets:
            continue
        whole = data.set_file(context.folder, dataset)
        if whole is None:
            continue
        path = distinct(whole)
        for measure, usual in MEASURES:
            threshold = LARGE.get(dataset, {}).get(measure, usual)
            join = ["sets", str(path), f"--{measure}", threshold, "--threads", "2", "--quiet"]
            count = int(b"".join(lines(context, [*join, "--engine", "cpu", "--count"], {})))
            pairs = count <= MANY
            ask = [] if pairs else ["--count"]
            expected = digest(lines(context, [*join, "--engine", "cpu", *ask], {}))
            agree = 0
            for device in devices:
                variables = {VARIABLE: device} if device else {}
                for words in ENGINES:
                    runs += 1
                    try:
                        found = digest(lines(context, [*join, *words, *ask], variables))
                    except OSError as error:
                        problems.append(f"{dataset} {measure} {device} {words}: {error}")
                        continue
                    if found == expected:
                        agree += 1
                    else:
                        problems.append(
                            f"{dataset} {measure} {threshold} {' '.join(words)} {device or ''}: "
                            f"{found[0] - expected[0]:+,} lines, DIFFERENT"
                        )
            say(f"{dataset} {measure} {threshold}: {count:,} pairs, {agree} agree")
            result.add(dataset, measure, threshold, table.count(count),
                       "pairs" if pairs else "number", str(agree))
    result.summary.append(f"{runs - len(problems)} of {runs} runs agree with the CPU")
    result.summary += problems
    return Report(result, 1 if problems or runs == 0 else 0)


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
