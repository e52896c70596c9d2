"""Repeats the papers' experiments on similar collections and compares our figures with the papers'."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .. import bench, data, published, simjoin, statistics, table
from ..bench import Timing
from ..context import Context, Report, say
from ..published import Claim, Collection
from ..simjoin import Outcome
from . import vectors
from .device import device_name
from .sparse import Tables

PART = 0.05
BUDGET = 480.0
# The times of paper 1 and 2 are of self-joins by Jaccard, those of 4 of overlaps and containment.
TIMED = {
    "original": ("2", "7"),
    "increased": ("2", "9"),
    "synthetic": ("2", "11"),
    "overlaps": ("4", "A.2"),
    "containment": ("4", "A.3"),
    "complete": ("1", "4"),
    "real": ("2", "7"),
}
# Real files beside the paper's collection that each is a part of, or like.
REAL = (("kosarak_36k", "KOSARAK"), ("bms_pos_5pct", "BMS"), ("acl_2grams", "DBLP-200K"), ("acl_2grams", "DBLP-1M"))
CLAIMED = ("verification", "cluster", "vectors")
ALGORITHMS = "algorithms"
STAGES = (*TIMED, *CLAIMED, ALGORITHMS)
# Paper 1: the collections that its algorithms are compared on, and that of its largest speed-up.
SEVEN = ("AOL", "BMS", "DBLP-100K", "ENRON", "KOSARAK", "LVJ", "ORKUT")
VERIFIED, VERIFIED_THRESHOLDS = "DBLP", ("0.9",)
CLUSTER_THRESHOLDS = ("0.9", "0.8", "0.7")
# Paper 5: 180 MByte of points in eight dimensions.
POINTS = 180_000_000 // (4 * vectors.DIMENSION)

# The whole experiment, in runs that end within ten minutes on a machine with a GPU: each with its stage,
# and the datasets where there are several runs of a stage. What is about published algorithms, or about
# millions of long texts, has a part of the records.
WHOLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("original-1", "original", ("KOSARAK", "BMS", "DBLP-200K", "DBLP-300K", "DBLP-1M")),
    ("original-2", "original", ("ENRON", "TWITTER", "ORKUT")),
    ("original-3", "original", ("AOL", "LVJ")),
    ("increased", "increased", ()),
    ("synthetic-5", "synthetic", ("5M-50K-5", "5M-50K-25", "5M-500K-5", "5M-500K-25")),
    ("synthetic-10", "synthetic", ("10M-50K-5", "10M-50K-25", "10M-500K-5", "10M-500K-25")),
    ("synthetic-20", "synthetic", ("20M-50K-5", "20M-50K-25", "20M-500K-5", "20M-500K-25")),
    ("overlaps", "overlaps", ()),
    ("containment", "containment", ()),
    ("complete", "complete", ()),
    ("real", "real", ()),
    ("cluster", "cluster", ()),
    ("vectors", "vectors", ()),
    ("verification", "verification", ()),
    ("algorithms", "algorithms", ()),
)
PARTS = {"verification": "0.05", "algorithms": "0.05", "cluster": "0.05"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.set_defaults(limit=20.0, runs=2)
    parser.add_argument("--stage", choices=STAGES, action="append",
                        help="one of the experiments; may be repeated (default: all)")
    parser.add_argument("--part", type=part, default=PART, metavar="P",
                        help="the part of each collection's sets, from 0 to 1 (default: %(default)g)")
    parser.add_argument("--budget", type=float, default=BUDGET, metavar="SECONDS",
                        help="begin with no further collection after so long (default: %(default)g)")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "The whole experiment, on a machine with a GPU, under ten minutes each:\n\n" + "\n".join(whole())


def part(text: str) -> float:
    """A part of the sets."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1")
    return value


def whole() -> list[str]:
    """The commands of the whole experiment."""
    return [
        shlex.join(["python3", "benchmarks/run.py", "papers", "--part", PARTS.get(name, "1"), "--stage", stage,
                    *(["--datasets", ",".join(datasets)] if datasets else []), "--record", f"papers-gpu-{name}"])
        for name, stage, datasets in WHOLE
    ]


@dataclass
class Run:
    """A run of the job: its options, and its results so far."""

    context: Context
    part: float
    gpu: str
    until: float
    known: dict[str, int]
    times: Tables
    claims: table.Table
    algorithms: table.Table
    problems: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def wants(self, dataset: str) -> bool:
        """Returns whether a dataset is selected."""
        return self.context.datasets is None or dataset in self.context.datasets

    def thresholds(self, offered: Sequence[str]) -> list[str]:
        """Returns the selected ones of some thresholds, the highest first."""
        asked = self.context.thresholds
        return sorted((one for one in offered if asked is None or one in asked), reverse=True)

    def in_time(self, stage: str, dataset: str) -> bool:
        """Whether there is time for another collection; one that is left out is named."""
        if time.monotonic() < self.until:
            return True
        self.late.append(f"{stage} {dataset}")
        return False

    def make(self, collections: Sequence[Collection]) -> None:
        """Generates collections in parallel; returns those that could not be generated."""
        with ThreadPoolExecutor(max(1, cores() // 2)) as pool:
            for made, wrong in zip(collections, pool.map(lambda one: one.make(self.context.binary), collections)):
                if wrong:
                    self.problems.append(f"{made.path.name}: {wrong}")


def cores() -> int:
    """How many cores there are."""
    return os.cpu_count() or 1


def run(context: Context, options: argparse.Namespace) -> Report:
    """Runs the stages."""
    try:
        gpu = device_name(context)
    except simjoin.Unavailable:
        gpu = ""
    state = Run(
        context, options.part, gpu, time.monotonic() + options.budget, published.profiles(context.binary),
        *tables(gpu, options.part, options.limit),
    )
    stages = options.stage or STAGES
    wanted = {stage: wanted_cells(state, stage) for stage in stages if stage in TIMED}
    state.make(list({cell.made.path: cell.made for cells in wanted.values() for cell in cells if cell.made}.values()))
    for stage in stages:
        if stage in TIMED:
            timed(state, stage, wanted[stage])
        elif stage == ALGORITHMS:
            algorithms(state)
        else:
            {"verification": verification, "cluster": cluster, "vectors": points}[stage](state)
    if state.late:
        state.times.summary.append(f"Left out after {options.budget:g} seconds: {', '.join(state.late)}.")
    state.times.summary += state.problems
    state.times.below = [one for one in (state.claims, state.algorithms) if one.rows]
    return Report(
        state.times, 1 if state.problems else 0, (("GPU", gpu),) if gpu else (),
        csv=(("", state.times), ("-claims", state.claims), ("-algorithms", state.algorithms)),
    )


def tables(gpu: str, share: float, limit: float) -> tuple[Tables, table.Table, table.Table]:
    """The three tables, without rows."""
    ours = f"on {cores()} cores" + (f" and one {gpu}" if gpu else "; no GPU here")
    likeness = (
        "Collections are artificial, with as many sets, tokens and tokens a set as the papers say; those of the "
        "stage real are real files, inflated to the number of the paper's sets."
    )
    times = Tables(
        "The papers' experiments, in their likeness",
        ["stage", "dataset", "T", "sets", "pairs", "CPU", "GPU", "auto", "ran", "paper CPU", "paper GPU",
         "paper/CPU", "paper/auto"],
        frozenset({"stage", "dataset", "ran"}),
        notes=[
            f"Ours: seconds of the join alone {ours}; – where it took over {limit:g} s. Overlaps are counted by a "
            "process each, which also reads the file within that time, wakes the GPU and, the first time, compiles "
            "its kernels.",
            "Papers: the best of their techniques without and with a GPU, on an Intel i7-5820K (6 cores) and an NVIDIA "
            "Titan Xp.",
            "paper/CPU: the paper's best without a GPU over ours; paper/auto: its best of all over ours.",
            likeness,
        ] + ([] if share == 1 else [
            f"Only {share:g} of each collection's sets, so these ratios are left out; pairs of sets are "
            f"{share * share:g} as many.",
        ]),
    )
    said = table.Table(
        "What the papers say in words",
        ["stage", "dataset", "threshold", "records", "pairs", "what", "slow", "fast", "ours", "paper"],
        frozenset({"stage", "dataset", "what", "paper"}),
        notes=[
            f"Seconds {ours}, and how many times as long the slow way takes as the fast one, beside what the paper "
            "says. Each takes the best of its techniques. Vectors: preparing and joining, a process each, the "
            "waking of a GPU included.",
            "Paper 1: one core and one NVIDIA Titan Xp. Paper 3: Spark on up to three machines with Intel Xeon "
            "E5-2650 or AMD EPYC 7452, NVIDIA Tesla K40 or V100; here one machine, no Spark. Paper 5: Intel "
            "Core 2 Duo E4500, NVIDIA 8500GT.",
        ],
    )
    best = table.Table(
        "Which algorithm is the best, paper 1, table 5",
        ["T", *(f"{of}{name}" for name in next(iter(published.winners().values())) for of in ("", "paper "))],
        notes=[
            f"On how many of {len(SEVEN)} collections ({', '.join(SEVEN)}) each algorithm is the fastest, all of them "
            + ("verified on the GPU, as in the paper." if gpu else "on the CPU; the paper's verify on a GPU."),
        ],
    )
    return times, said, best


@dataclass(frozen=True)
class Wanted:
    """A dataset of a table: our name, its file and its generator, the paper's name, its thresholds."""

    name: str
    path: Path
    made: Collection | None
    dataset: str
    thresholds: list[str]


def cells(stage: str) -> dict[str, list[str]]:
    """The datasets of a stage with their thresholds."""
    found: dict[str, list[str]] = {}
    for paper, numbered, dataset, threshold in published.figures():
        if (paper, numbered) == TIMED[stage]:
            found.setdefault(dataset, []).append(threshold)
    return found


def wanted_cells(state: Run, stage: str) -> list[Wanted]:
    """The joins of a stage."""
    wanted: list[Wanted] = []
    if stage != "real":
        for dataset, thresholds in cells(stage).items():
            made = published.likeness(dataset, state.part, state.known)
            if made and state.wants(dataset):
                wanted.append(Wanted(dataset, made.path, made, dataset, thresholds))
        return wanted
    for real, dataset in REAL:
        if not state.wants(real):
            continue
        made, path, times = published.inflated(state.context, real, state.known[dataset.lower()] * state.part)
        if path is None:
            say(f"{real}: not in the data folder, left out")
        # A part of a collection may be no more than the file that another one has, too.
        elif path not in (one.path for one in wanted):
            name = f"{real}{f' × {times}' if times > 1 else ''} ({dataset})"
            wanted.append(Wanted(name, path, made, dataset, cells(stage)[dataset]))
    return wanted


def timed(state: Run, stage: str, wanted: list[Wanted]) -> None:
    """A table of the papers' seconds."""
    known = published.figures()
    for one in wanted:
        if not one.path.is_file() or not state.in_time(stage, one.name):
            continue
        if stage == "overlaps":
            found = {"": overlaps(state, one.path)}
        elif stage == "containment":
            found = {"": joins(state, one.path, "containment", ["1"])["1"]}
        else:
            found = joins(state, one.path, "jaccard", state.thresholds(one.thresholds))
        for threshold, ours in found.items():
            theirs = published.best_of(known[(*TIMED[stage], one.dataset, threshold)])
            add_times(state, stage, one.name, threshold, data.count_rows(one.path), ours, theirs)


def add_times(
    state: Run, stage: str, name: str, threshold: str, sets: int, ours: Ours, theirs: published.Seconds
) -> None:
    """A row of seconds."""
    say(f"{stage} {name} {threshold}: {table.seconds(ours.seconds('auto'))}")
    state.times.add(
        stage, name, threshold or "–", table.count(sets), table.count(ours.pairs),
        *(table.seconds(ours.seconds(engine)) for engine in ("cpu", "gpu", "auto")),
        ours.ran, table.seconds(theirs.cpu), table.seconds(theirs.gpu),
        *(table.factor(statistics.ratio(paper, mine) if state.part == 1 else None) for paper, mine in
          ((theirs.cpu, ours.seconds("cpu")), (theirs.best, ours.seconds("auto")))),
    )


class Ours:
    """Our seconds of a cell by engine, and the counts."""

    def __init__(self) -> None:
        self.by_engine: dict[str, float] = {}
        self.pairs: int | None = None
        self.ran = "–"

    def seconds(self, engine: str) -> float | None:
        """The seconds of an engine, where it finished."""
        return self.by_engine.get(engine)

    def agrees(self, pairs: int | None) -> bool:
        """Takes a count; says whether it is that of the others."""
        same = self.pairs in (None, pairs)
        self.pairs = pairs
        return same


def joins(
    state: Run, path: Path, measure: str, thresholds: list[str], tokens: Sequence[str] = (), shares: str = "",
) -> dict[str, Ours]:
    """Joins by every engine, and by CPU and GPU at once with some shares of the GPU; all of them take turns
    in one process."""
    found: dict[str, Ours] = {threshold: Ours() for threshold in thresholds}

    def take(timing: Timing) -> None:
        ours = found[timing.cell.threshold]
        if timing.join is None:
            return
        if not ours.agrees(timing.pairs):
            state.problems.append(f"{path.name} {timing.cell.threshold}: the counts DISAGREE")
        share = f":{timing.split}" if timing.split not in (None, "auto") else ""
        ours.by_engine[f"{timing.engine}{share}"] = timing.join
        if timing.engine == "auto":
            ours.ran = timing.ran or "–"

    engines = "cpu,gpu,auto" if state.gpu else "cpu,auto"
    further = ["--engine", f"{engines},hybrid", "--split", shares] if shares and state.gpu else ["--engine", engines]
    run_bench(state, path, measure, thresholds, [*tokens, "--technique", "auto", *further], take)
    return found


def run_bench(
    state: Run, path: Path, measure: str, thresholds: list[str], further: list[str], take: bench.Take,
) -> None:
    """Times joins of a file on all cores."""
    words = bench.arguments(path, thresholds, cores(), state.context.runs, state.context.limit)
    words[words.index("--jaccard")] = f"--{measure}"
    wrong = bench.run(state.context.binary, [*words, *further], path.stem, take)
    if wrong:
        state.problems.append(f"{path.name}: {wrong}")


def overlaps(state: Run, path: Path) -> Ours:
    """Counts the pairs with something in common by every engine."""
    ours = Ours()
    for engine in ("cpu", "gpu", "auto") if state.gpu else ("cpu", "auto"):
        words: list[str | Path] = ["overlaps", path, "--positive", "--engine", engine]
        best = best_process(state, f"{path.name}, {engine}", words, ["join"], ours)
        if best:
            ours.by_engine[engine] = best.phases["join"]
            if engine == "auto":
                ours.ran = best.stats["technique"]
    return ours


def spent(one: Outcome, phases: Sequence[str]) -> float | None:
    """The seconds of some phases, where the run gave an answer."""
    return sum(one.phases[name] for name in phases) if one.ok else None


def best_process(
    state: Run, name: str, words: list[str | Path], phases: Sequence[str], ours: Ours
) -> Outcome | None:
    """Returns the best of several processes by the seconds of some phases, and an error message, if any."""
    runs = statistics.repeat(
        lambda: simjoin.run(state.context.binary, words, state.context.limit), lambda one: one.wall, state.context.runs
    )
    for one in runs:
        if one.state == "error":
            state.problems.append(f"{name}: {one.note}")
        elif one.ok and not ours.agrees(one.pairs):
            state.problems.append(f"{name}: the counts DISAGREE")
    return statistics.best(runs, lambda one: spent(one, phases))


def needs_gpu(way: str) -> bool:
    """Whether a way to join needs a GPU."""
    return way.startswith(("gpu", "hybrid"))


def technique_options(technique: str) -> list[str]:
    """Returns the command-line arguments for a technique."""
    return ["--technique", technique, "--engine", "gpu" if needs_gpu(technique) else "cpu"]


def add_claims(
    state: Run, claims: list[Claim], dataset: str, threshold: str, records: int, ours: Ours, like_the_papers: bool,
) -> None:
    """Returns the rows of a paper's figures for one cell; those that need a GPU only if there is one."""
    for claim in claims:
        slow, fast = (
            min((ours.by_engine[way] for way in ways.split("/") if way in ours.by_engine), default=None)
            for ways in (claim.slow, claim.fast)
        )
        if not state.gpu and needs_gpu(claim.fast):
            continue
        say(f"{claim.stage} {dataset} {threshold}: {claim.what}: {table.factor(statistics.ratio(slow, fast))}")
        said = f"{claim.factor:g}× ({claim.paper}, {claim.place})" if like_the_papers else "–"
        state.claims.add(
            claim.stage, dataset, threshold, table.count(records), table.count(ours.pairs), claim.what,
            table.seconds(slow), table.seconds(fast), table.factor(statistics.ratio(slow, fast)), said,
        )


def verification(state: Run) -> None:
    """Paper 1: candidates of the published algorithms, verified on the CPU or on the GPU."""
    made = published.likeness(VERIFIED, state.part, state.known)
    thresholds = state.thresholds(VERIFIED_THRESHOLDS)
    if not (made and thresholds and state.gpu and state.wants(VERIFIED) and state.in_time("verification", VERIFIED)):
        return
    state.make([made])
    claims = published.claims("verification")
    found = {threshold: Ours() for threshold in thresholds}

    def take(timing: Timing) -> None:
        ours = found[timing.cell.threshold]
        if timing.join is None:
            return
        if not ours.agrees(timing.pairs):
            state.problems.append(f"{VERIFIED} {timing.cell.threshold}: the counts DISAGREE")
        ours.by_engine[timing.technique] = timing.join

    for ways in {ways: None for claim in claims for ways in (claim.slow, claim.fast)}:
        if made.path.is_file():
            run_bench(state, made.path, "jaccard", thresholds, technique_options(ways.replace("/", ",")), take)
    for threshold, ours in found.items():
        add_claims(state, claims, VERIFIED, threshold, data.count_rows(made.path), ours, True)


def cluster(state: Run) -> None:
    """Paper 3: titles and their dirty copies by 3-grams, on one machine."""
    name = f"{published.TITLES}, dirty"
    thresholds = state.thresholds(CLUSTER_THRESHOLDS)
    if not (thresholds and state.wants(published.TITLES) and state.in_time("cluster", name)):
        return
    made = published.dirty_titles(state.context, state.part)
    if made is None:
        say(f"{published.TITLES}: not in the data folder, left out")
        return
    state.make([made])
    if not made.path.is_file():
        return
    records = data.count_rows(made.path)
    claims = published.claims("cluster")
    ways = [way for claim in claims for way in (claim.slow, claim.fast)]
    shares = ["auto", *(way.partition(":")[2] for way in ways if ":" in way)]
    tokens = ["--tokens", "qgrams:3", "--multiset"]
    for threshold, ours in joins(state, made.path, "jaccard", thresholds, tokens, ",".join(shares)).items():
        add_times(state, "cluster", name, threshold, records, ours, published.Seconds(None, None))
        add_claims(state, claims, name, threshold, records, ours, True)


def distance(dataset: str, vectors_made: int) -> str:
    """The distance that gives a point of so many one to two partners, as the paper has it. The points
    within a distance grow with its power of the dimension, so the distance falls with its root."""
    least = next(text for name, text in vectors.CELLS if name == dataset)
    return f"{float(least) * (vectors.SIZE / vectors_made) ** (1 / vectors.DIMENSION):.4g}"


def points(state: Run) -> None:
    """Paper 5: nested loop and index, on CPU and GPU, within a distance of one to two partners a point."""
    claims = published.claims("vectors")
    many = max(1, round(POINTS * state.part))
    for dataset in dict.fromkeys(name for name, _ in vectors.CELLS if name != "mnist"):
        if not state.wants(dataset) or not state.in_time("vectors", dataset):
            continue
        if dataset in vectors.MADE:
            path: Path | None = published.GENERATED / f"papers-{dataset}-{many}.npy"
            words = ("vectors", vectors.MADE[dataset], "--vectors", str(many), "--dimension", str(vectors.DIMENSION))
            state.make([Collection(words, path)])
            within = distance(dataset, many)
        else:
            path, _ = vectors.find(state.context, dataset)
            within = next(text for name, text in vectors.CELLS if name == dataset)
        if path is None or not path.is_file():
            say(f"{dataset}: not there, left out")
            continue
        ours, records = Ours(), 0
        for way in {way: None for claim in claims for way in (claim.slow, claim.fast)}:
            if needs_gpu(way) and not state.gpu:
                continue
            words = ["vectors", path, "--within", within, *technique_options(way)]
            phases = ["prepare", "join"]
            best = best_process(state, f"{dataset}, {way}", words, phases, ours)
            if best:
                ours.by_engine[way] = spent(best, phases) or 0
                records = best.stats["records"]["left"]
        add_claims(state, claims, dataset, within, records, ours, dataset == "ds1")


def algorithms(state: Run) -> None:
    """Paper 1, table 5: on how many collections each algorithm is the best."""
    theirs = published.winners()
    names = list(next(iter(theirs.values())))
    won = {threshold: dict.fromkeys(names, 0) for threshold in theirs}
    wanted = {name: published.likeness(name, state.part, state.known) for name in SEVEN}
    if not state.in_time(ALGORITHMS, ", ".join(SEVEN)):
        return
    state.make([made for made in wanted.values() if made])
    for dataset, made in wanted.items():
        if made is None or not made.path.is_file() or not state.in_time(ALGORITHMS, dataset):
            continue
        best: dict[str, tuple[float, str]] = {}

        def take(timing: Timing) -> None:
            name = timing.technique.removeprefix("gpu-verify:")
            if timing.join is not None:
                at = timing.cell.threshold
                best[at] = min(best.get(at, (timing.join, name)), (timing.join, name))

        techniques = ",".join(f"gpu-verify:{name}" if state.gpu else name for name in names)
        run_bench(state, made.path, "jaccard", list(theirs), technique_options(techniques), take)
        for threshold, (_, name) in best.items():
            won[threshold][name] += 1
        say(f"{ALGORITHMS} {dataset}: {' '.join(f'{at} {name}' for at, (_, name) in best.items())}")
    for threshold, counts in won.items():
        if not any(counts.values()):
            continue
        state.algorithms.add(
            threshold, *(str(count[name]) for name in names for count in (counts, theirs[threshold])),
        )
