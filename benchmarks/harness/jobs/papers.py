"""The papers' experiments on collections in the likeness of theirs: our seconds beside the papers'."""

from __future__ import annotations

import argparse
import csv
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .. import bench, process, simjoin, statistics, table
from ..bench import Timing
from ..context import Context, Report, say
from ..paths import CACHE, REPOSITORY, SCRATCH
from .device import device_name

FIGURES = REPOSITORY / "benchmarks" / "papers" / "figures.csv"
GENERATED = CACHE / "generated"
PART = 0.02


@dataclass(frozen=True)
class Stage:
    """One of the papers' tables."""

    paper: str
    number: str
    about: str


STAGES = {
    "original": Stage("2", "7", "HySet, table 7: Jaccard"),
    "increased": Stage("2", "9", "HySet, table 9: Jaccard, increased collections"),
    "synthetic": Stage("2", "11", "HySet, table 11: Jaccard, artificial collections"),
    "overlaps": Stage("4", "A.2", "Intersection of large sets, table A.2: overlaps of all pairs"),
    "containment": Stage("4", "A.3", "Intersection of large sets, table A.3: containment 1"),
}


@dataclass(frozen=True)
class Collection:
    """One of the papers' collections, and a part of its sets."""

    name: str
    # What to generate: words after ``generate``, and the number of sets in whole.
    words: tuple[str, ...]
    sets: int

    def arguments(self, sets: int, path: Path) -> list[str | Path]:
        """What makes so many of its sets."""
        return ["generate", *self.words, "--sets", str(sets), "-q", "-o", path]


@dataclass(frozen=True)
class Paper:
    """The best of the paper's seconds on each kind of processor."""

    cpu: float | None
    gpu: float | None

    @property
    def best(self) -> float | None:
        """The best of all."""
        return min((one for one in (self.cpu, self.gpu) if one is not None), default=None)


# Sets of each profile, as `simjoin generate like` makes them.
LIKE = {
    "AOL": 10_000_000, "BMS": 510_000, "DBLP-200K": 200_000, "DBLP-300K": 300_000,
    "DBLP-1M": 1_000_000, "ENRON": 250_000, "KOSARAK": 1_000_000, "LVJ": 3_100_000,
    "ORKUT": 2_700_000, "TWITTER": 1_600_000, "BMS-25": 13_000_000, "ENRON-25": 6_100_000,
    "LVJ-5": 15_000_000,
}
# The k largest sets; their average size is known for this k.
LARGEST = "100K"
ON_CPU = frozenset({"CPU", "SKJ", "SIMD", "std", "boost", "MMJoin-CPU"})


def figures(path: Path = FIGURES) -> dict[tuple[str, str, str, str], dict[str, float]]:
    """The papers' seconds by paper, table, dataset and threshold, then by technique."""
    found: dict[tuple[str, str, str, str], dict[str, float]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["paper"], row["table"], row["dataset"], row["threshold"])
            found.setdefault(key, {})[row["technique"]] = float(row["seconds"])
    return found


def best_of(seconds: dict[str, float]) -> Paper:
    """The best of a cell's techniques with and without a GPU."""
    cpu = [value for name, value in seconds.items() if name in ON_CPU]
    gpu = [value for name, value in seconds.items() if name not in ON_CPU]
    return Paper(min(cpu, default=None), min(gpu, default=None))


def number(text: str) -> int:
    """Reads 5M or 50K."""
    return int(text[:-1]) * {"K": 10**3, "M": 10**6}[text[-1]]


def collection(stage: str, dataset: str) -> Collection | None:
    """How to make a collection of a stage; None where the papers do not say enough."""
    if stage == "synthetic":
        sets, universe, size = dataset.split("-")
        words = ("zipf", "--universe", universe, "--size", size)
        return Collection(dataset, words, number(sets))
    if stage in ("overlaps", "containment"):
        name, _, largest = dataset.rpartition("-")
        if largest != LARGEST:
            return None
        return Collection(dataset, ("like", f"{name.lower()}-top"), number(largest))
    return Collection(dataset, ("like", dataset.lower()), LIKE[dataset])


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.set_defaults(limit=60.0, runs=2)
    parser.add_argument("--stage", choices=STAGES, action="append",
                        help="one of the tables; may be repeated (default: all)")
    parser.add_argument("--part", type=part, default=PART, metavar="P",
                        help="the part of each collection's sets, from 0 to 1 (default: %(default)g)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the rows as CSV")


def part(text: str) -> float:
    """A part of the sets."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1")
    return value


def run(context: Context, options: argparse.Namespace) -> Report:
    """Runs the stages."""
    try:
        device = device_name(context)
    except simjoin.Unavailable:
        device = ""
    whole = options.part == 1
    result = table.Table(
        "The papers' experiments, in their likeness",
        ["stage", "dataset", "T", "sets", "pairs", "CPU", "GPU", "auto", "ran", "paper CPU", "paper GPU",
         "paper/CPU", "paper/auto"],
        frozenset({"stage", "dataset", "ran"}),
        notes=[
            f"Ours: seconds of the join alone on {os.cpu_count()} cores"
            + (f" and one {device}" if device else "; no GPU here")
            + ". Papers: the best of their techniques without and with a GPU, on an Intel i7-5820K and an "
            "NVIDIA Titan Xp.",
            "paper/CPU: the paper's best without a GPU over ours; paper/auto: its best of all over ours.",
            "Collections are artificial: as many sets, tokens and tokens a set as the papers say."
            if whole else
            f"Only {options.part:g} of each collection's sets, so the ratios are left out.",
        ],
    )
    problems: list[str] = []
    known = figures()
    for stage in options.stage or STAGES:
        cells: dict[str, list[str]] = {}
        for paper, numbered, dataset, threshold in known:
            wanted = context.datasets is None or dataset in context.datasets
            if (paper, numbered) == (STAGES[stage].paper, STAGES[stage].number) and wanted:
                cells.setdefault(dataset, []).append(threshold)
        for dataset, thresholds in cells.items():
            thresholds.sort()
            made = collection(stage, dataset)
            if made is None:
                continue
            sets = max(1, round(made.sets * options.part))
            path = GENERATED / f"papers-{dataset.lower()}-{sets}.txt"
            wrong = simjoin.generate(context.binary, lambda to: made.arguments(sets, to), path)
            if wrong:
                problems.append(f"{dataset}: {wrong}")
                continue
            if context.thresholds:
                thresholds = [one for one in thresholds if one in context.thresholds]
            key = (STAGES[stage].paper, STAGES[stage].number, dataset)
            if stage == "overlaps":
                found = {"": overlaps(context, path, bool(device), problems)}
            else:
                measure = "containment" if stage == "containment" else "jaccard"
                found = joins(context, path, dataset, measure, thresholds, bool(device), problems)
            for threshold, ours in found.items():
                theirs = best_of(known[(*key, threshold)])
                say(f"{stage} {dataset} {threshold}: {ours.seconds('auto')}")
                result.add(
                    stage, dataset, threshold or "–", table.count(sets),
                    "–" if ours.pairs is None else table.count(ours.pairs),
                    *(table.seconds(ours.seconds(engine)) for engine in ("cpu", "gpu", "auto")),
                    ours.ran, table.seconds(theirs.cpu), table.seconds(theirs.gpu),
                    *(table.factor(statistics.ratio(paper, mine) if whole else None) for paper, mine in
                      ((theirs.cpu, ours.seconds("cpu")), (theirs.best, ours.seconds("auto")))),
                )
    result.summary += problems
    if options.csv:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(result.columns)
            writer.writerows(result.rows)
    facts = (("device", device),) if device else ()
    return Report(result, 1 if problems else 0, facts)


class Ours:
    """Our seconds of a cell by engine, and what was found."""

    def __init__(self) -> None:
        self.by_engine: dict[str, float] = {}
        self.pairs: int | None = None
        self.ran = "–"

    def seconds(self, engine: str) -> float | None:
        """The seconds of an engine, where it finished."""
        return self.by_engine.get(engine)


def joins(
    context: Context, path: Path, dataset: str, measure: str, thresholds: list[str], gpu: bool,
    problems: list[str],
) -> dict[str, Ours]:
    """Joins by every engine, which take turns in one process."""
    found: dict[str, Ours] = {threshold: Ours() for threshold in thresholds}

    def take(timing: Timing) -> None:
        threshold = "" if measure == "containment" else timing.cell.threshold
        ours = found[threshold]
        if timing.join is None:
            return
        if ours.pairs not in (None, timing.pairs):
            problems.append(f"{dataset} {threshold}: the counts DISAGREE")
        ours.pairs = timing.pairs
        ours.by_engine[timing.engine or "cpu"] = timing.join
        if timing.engine == "auto":
            ours.ran = timing.ran or "–"

    asked = thresholds if measure == "jaccard" else ["1"]
    cores = os.cpu_count() or 1
    words = bench.arguments(path, asked, cores, context.runs, context.limit)
    words[words.index("--jaccard")] = f"--{measure}"
    words += ["--technique", "auto", "--engine", "cpu,gpu,auto" if gpu else "cpu,auto"]
    wrong = bench.run(context.binary, words, dataset, take)
    if wrong:
        problems.append(f"{dataset}: {wrong}")
    return found


def overlaps(context: Context, path: Path, gpu: bool, problems: list[str]) -> Ours:
    """Counts the pairs with something in common by every engine."""
    ours = Ours()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    for engine in ("cpu", "gpu", "auto") if gpu else ("cpu", "auto"):
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
            stats = Path(folder) / "stats.json"
            done = process.run(
                [context.binary, "overlaps", path, "--positive", "--count", "--quiet", "--engine", engine,
                 "--stats", stats], context.limit,
            )
            if done.code is None:
                continue
            if done.code != 0:
                problems.append(f"{path.name}, {engine}: {done.complaint}")
                continue
            told = json.loads(stats.read_text())
            pairs = int(done.stdout)
            if ours.pairs not in (None, pairs):
                problems.append(f"{path.name}: the counts DISAGREE")
            ours.pairs = pairs
            ours.by_engine[engine] = float(told["seconds"]["join"])
            if engine == "auto":
                ours.ran = told["technique"]
    return ours
