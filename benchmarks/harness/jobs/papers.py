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
# Papers 1 and 2 time self-joins by Jaccard; paper 4 times overlaps and containment.
TIMED = {
    "original": ("2", "7"),
    "increased": ("2", "9"),
    "synthetic": ("2", "11"),
    "overlaps": ("4", "A.2"),
    "containment": ("4", "A.3"),
    "complete": ("1", "4"),
    "real": ("2", "7"),
}
# Real files, each with the paper's collection that it is a part of, or resembles.
REAL = (("kosarak_36k", "KOSARAK"), ("bms_pos_5pct", "BMS"), ("acl_2grams", "DBLP-200K"), ("acl_2grams", "DBLP-1M"))
CLAIMED = ("verification", "cluster", "vectors")
ALGORITHMS = "algorithms"
STAGES = (*TIMED, *CLAIMED, ALGORITHMS)
# Paper 1: the collections on which its algorithms are compared, and the collection of its largest speed-up.
SEVEN = ("AOL", "BMS", "DBLP-100K", "ENRON", "KOSARAK", "LVJ", "ORKUT")
VERIFIED, VERIFIED_THRESHOLDS = "DBLP", ("0.9",)
CLUSTER_THRESHOLDS = ("0.9", "0.8", "0.7")
# Paper 5: 180 MByte of points in eight dimensions.
POINTS = 180_000_000 // (4 * vectors.DIMENSION)

# The whole experiment, in runs that end within ten minutes on a machine with a GPU: the name of each, its stage,
# and its datasets if the stage has several runs. Runs of published algorithms, and of millions of long texts, only
# join a part of the records.
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
    """Adds the options of this job."""
    parser.set_defaults(limit=20.0, runs=2)
    parser.add_argument("--stage", choices=STAGES, action="append",
                        help="one of the experiments; may be repeated (default: all)")
    parser.add_argument("--part", type=part, default=PART, metavar="P",
                        help="the share of each collection's sets, from 0 to 1 (default: %(default)g)")
    parser.add_argument("--budget", type=float, default=BUDGET, metavar="SECONDS",
                        help="seconds after which no further collection is started (default: %(default)g)")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "The whole experiment, on a machine with a GPU, under ten minutes each:\n\n" + "\n".join(whole())


def part(text: str) -> float:
    """Reads a share of the sets."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1")
    return value


def whole() -> list[str]:
    """Returns the commands of the whole experiment."""
    return [
        shlex.join(["python3", "benchmarks/run.py", "papers", "--part", PARTS.get(name, "1"), "--stage", stage,
                    *(["--datasets", ",".join(datasets)] if datasets else []), "--record", f"papers-gpu-{name}"])
        for name, stage, datasets in WHOLE
    ]


@dataclass
class PapersState:
    """The state of the job: its options, and its results so far."""

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

    def thresholds(self, available: Sequence[str]) -> list[str]:
        """Returns the selected ones of some thresholds, the highest first."""
        asked = self.context.thresholds
        return sorted((one for one in available if asked is None or one in asked), reverse=True)

    def in_time(self, stage: str, dataset: str) -> bool:
        """Returns whether there is time for another collection; notes its name if not."""
        if time.monotonic() < self.until:
            return True
        self.late.append(f"{stage} {dataset}")
        return False

    def make(self, collections: Sequence[Collection]) -> None:
        """Generates collections in parallel; notes those that could not be generated."""
        with ThreadPoolExecutor(max(1, cores() // 2)) as pool:
            for one, wrong in zip(collections, pool.map(lambda one: one.make(self.context.binary), collections)):
                if wrong:
                    self.problems.append(f"{one.path.name}: {wrong}")


def cores() -> int:
    """Returns the number of cores."""
    return os.cpu_count() or 1


def run(context: Context, options: argparse.Namespace) -> Report:
    """Runs the stages."""
    try:
        gpu = device_name(context)
    except simjoin.Unavailable:
        gpu = ""
    state = PapersState(
        context, options.part, gpu, time.monotonic() + options.budget, published.profiles(context.binary),
        *tables(gpu, options.part, options.limit),
    )
    stages = options.stage or STAGES
    wanted = {stage: wanted_cells(state, stage) for stage in stages if stage in TIMED}
    needed = [cell.generated for cells in wanted.values() for cell in cells if cell.generated]
    state.make(list({one.path: one for one in needed}.values()))
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
    """Returns the three tables, without rows."""
    ours = f"on {cores()} cores" + (f" and one {gpu}" if gpu else ", without a GPU")
    sources = (
        "Collections are generated with the numbers of sets, tokens and tokens per set that the papers report; those "
        "of the stage real are real files, inflated to the paper's number of sets."
    )
    times = Tables(
        "The papers' experiments, on similar collections",
        ["stage", "dataset", "T", "sets", "pairs", "CPU", "GPU", "auto", "ran", "paper CPU", "paper GPU",
         "paper/CPU", "paper/auto"],
        frozenset({"stage", "dataset", "ran"}),
        notes=[
            f"Ours: seconds of the join alone {ours}; – if it took over {limit:g} s. Overlaps are counted by a "
            "separate process, which also reads the file within that time, wakes the GPU and, the first time, "
            "compiles its kernels.",
            "Papers: the best of their techniques without and with a GPU, on an Intel i7-5820K (6 cores) and an NVIDIA "
            "Titan Xp.",
            "paper/CPU: the paper's best without a GPU over ours; paper/auto: the paper's best over ours.",
            sources,
        ] + ([] if share == 1 else [
            f"Only {share:g} of each collection's sets is joined, so these ratios are omitted; the number of pairs of "
            f"sets is {share * share:g} of the paper's.",
        ]),
    )
    claims = table.Table(
        "Claims in the text of the papers",
        ["stage", "dataset", "threshold", "records", "pairs", "what", "slow", "fast", "ours", "paper"],
        frozenset({"stage", "dataset", "what", "paper"}),
        notes=[
            f"Seconds {ours}, and the ratio of the slow configuration to the fast one, with the ratio that the paper "
            "reports. Each is the best of its techniques. Vectors: preparing and joining, in separate processes, with "
            "the time to wake a GPU.",
            "Paper 1: one core and one NVIDIA Titan Xp. Paper 3: Spark on up to three machines with Intel Xeon "
            "E5-2650 or AMD EPYC 7452, NVIDIA Tesla K40 or V100; here one machine, no Spark. Paper 5: Intel "
            "Core 2 Duo E4500, NVIDIA 8500GT.",
        ],
    )
    best = table.Table(
        "The best algorithms, paper 1, table 5",
        ["T", *(f"{of}{name}" for name in next(iter(published.winners().values())) for of in ("", "paper "))],
        notes=[
            f"The number of collections, of {len(SEVEN)} ({', '.join(SEVEN)}), on which each algorithm is the fastest; "
            + ("all verify on the GPU, as in the paper." if gpu else "all run on the CPU, the paper's verify on a GPU."),
        ],
    )
    return times, claims, best


@dataclass(frozen=True)
class PaperJoins:
    """A dataset of a table: our name, its file and generator, the paper's name, and its thresholds."""

    name: str
    path: Path
    generated: Collection | None
    dataset: str
    thresholds: list[str]


def cells(stage: str) -> dict[str, list[str]]:
    """Returns the datasets of a stage with their thresholds."""
    found: dict[str, list[str]] = {}
    for paper, numbered, dataset, threshold in published.figures():
        if (paper, numbered) == TIMED[stage]:
            found.setdefault(dataset, []).append(threshold)
    return found


def wanted_cells(state: PapersState, stage: str) -> list[PaperJoins]:
    """Returns the joins of a stage."""
    wanted: list[PaperJoins] = []
    if stage != "real":
        for dataset, thresholds in cells(stage).items():
            generated = published.similar_collection(dataset, state.part, state.known)
            if generated and state.wants(dataset):
                wanted.append(PaperJoins(dataset, generated.path, generated, dataset, thresholds))
        return wanted
    for real, dataset in REAL:
        if not state.wants(real):
            continue
        generated, path, times = published.inflated(state.context, real, state.known[dataset.lower()] * state.part)
        if path is None:
            say(f"{real}: not in the data folder, omitted")
        # Parts of two collections may be the same file.
        elif path not in (one.path for one in wanted):
            name = f"{real}{f' × {times}' if times > 1 else ''} ({dataset})"
            wanted.append(PaperJoins(name, path, generated, dataset, cells(stage)[dataset]))
    return wanted


def timed(state: PapersState, stage: str, wanted: list[PaperJoins]) -> None:
    """Runs the joins of a stage for which the papers report seconds."""
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
    state: PapersState, stage: str, name: str, threshold: str, sets: int, ours: OurResults, theirs: published.Seconds
) -> None:
    """Adds a row of seconds."""
    say(f"{stage} {name} {threshold}: {table.seconds(ours.seconds('auto'))}")
    state.times.add(
        stage, name, threshold or "–", table.count(sets), table.count(ours.pairs),
        *(table.seconds(ours.seconds(engine)) for engine in ("cpu", "gpu", "auto")),
        ours.ran, table.seconds(theirs.cpu), table.seconds(theirs.gpu),
        *(table.factor(statistics.ratio(paper, mine) if state.part == 1 else None) for paper, mine in
          ((theirs.cpu, ours.seconds("cpu")), (theirs.best, ours.seconds("auto")))),
    )


class OurResults:
    """Our seconds of a cell by engine, and the number of pairs."""

    def __init__(self) -> None:
        self.by_engine: dict[str, float] = {}
        self.pairs: int | None = None
        self.ran = "–"

    def seconds(self, engine: str) -> float | None:
        """Returns the seconds of an engine, if it finished."""
        return self.by_engine.get(engine)

    def agrees(self, pairs: int | None) -> bool:
        """Stores a count; returns whether it agrees with the one before."""
        same = self.pairs in (None, pairs)
        self.pairs = pairs
        return same


def joins(
    state: PapersState, path: Path, measure: str, thresholds: list[str], tokens: Sequence[str] = (), shares: str = "",
) -> dict[str, OurResults]:
    """Joins by every engine, and by CPU and GPU together with some device shares; all run in turns in one
    process."""
    found: dict[str, OurResults] = {threshold: OurResults() for threshold in thresholds}

    def receive(timing: Timing) -> None:
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
    run_bench(state, path, measure, thresholds, [*tokens, "--technique", "auto", *further], receive)
    return found


def run_bench(
    state: PapersState, path: Path, measure: str, thresholds: list[str], further: list[str], receive: bench.Receiver,
) -> None:
    """Times joins of a file on all cores."""
    words = bench.arguments(path, thresholds, cores(), state.context.runs, state.context.limit)
    words[words.index("--jaccard")] = f"--{measure}"
    wrong = bench.run(state.context.binary, [*words, *further], path.stem, receive)
    if wrong:
        state.problems.append(f"{path.name}: {wrong}")


def overlaps(state: PapersState, path: Path) -> OurResults:
    """Counts the pairs with a common token by every engine."""
    ours = OurResults()
    for engine in ("cpu", "gpu", "auto") if state.gpu else ("cpu", "auto"):
        words: list[str | Path] = ["overlaps", path, "--positive", "--engine", engine]
        best = best_process(state, f"{path.name}, {engine}", words, ["join"], ours)
        if best:
            ours.by_engine[engine] = best.phases["join"]
            if engine == "auto":
                ours.ran = best.stats["technique"]
    return ours


def spent(one: Outcome, phases: Sequence[str]) -> float | None:
    """Returns the seconds of some phases, if the run succeeded."""
    return sum(one.phases[name] for name in phases) if one.ok else None


def best_process(
    state: PapersState, name: str, words: list[str | Path], phases: Sequence[str], ours: OurResults
) -> Outcome | None:
    """Returns the best of several processes by the seconds of some phases; notes errors."""
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
    """Returns whether an engine or technique needs a GPU."""
    return way.startswith(("gpu", "hybrid"))


def technique_options(technique: str) -> list[str]:
    """Returns the command-line arguments for a technique."""
    return ["--technique", technique, "--engine", "gpu" if needs_gpu(technique) else "cpu"]


def add_claims(
    state: PapersState, claims: list[Claim], dataset: str, threshold: str, records: int, ours: OurResults,
    like_the_papers: bool,
) -> None:
    """Adds the rows of a paper's claims for one cell; those that need a GPU only if there is one."""
    for claim in claims:
        slow, fast = (
            min((ours.by_engine[way] for way in ways.split("/") if way in ours.by_engine), default=None)
            for ways in (claim.slow, claim.fast)
        )
        if not state.gpu and needs_gpu(claim.fast):
            continue
        say(f"{claim.stage} {dataset} {threshold}: {claim.what}: {table.factor(statistics.ratio(slow, fast))}")
        reported = f"{claim.factor:g}× ({claim.paper}, {claim.place})" if like_the_papers else "–"
        state.claims.add(
            claim.stage, dataset, threshold, table.count(records), table.count(ours.pairs), claim.what,
            table.seconds(slow), table.seconds(fast), table.factor(statistics.ratio(slow, fast)), reported,
        )


def verification(state: PapersState) -> None:
    """Repeats paper 1: candidates of the published algorithms, verified on the CPU or on the GPU."""
    generated = published.similar_collection(VERIFIED, state.part, state.known)
    thresholds = state.thresholds(VERIFIED_THRESHOLDS)
    wanted = generated and thresholds and state.gpu and state.wants(VERIFIED)
    if not (generated and wanted and state.in_time("verification", VERIFIED)):
        return
    state.make([generated])
    claims = published.claims("verification")
    found = {threshold: OurResults() for threshold in thresholds}

    def receive(timing: Timing) -> None:
        ours = found[timing.cell.threshold]
        if timing.join is None:
            return
        if not ours.agrees(timing.pairs):
            state.problems.append(f"{VERIFIED} {timing.cell.threshold}: the counts DISAGREE")
        ours.by_engine[timing.technique] = timing.join

    for ways in {ways: None for claim in claims for ways in (claim.slow, claim.fast)}:
        if generated.path.is_file():
            options = technique_options(ways.replace("/", ","))
            run_bench(state, generated.path, "jaccard", thresholds, options, receive)
    for threshold, ours in found.items():
        add_claims(state, claims, VERIFIED, threshold, data.count_rows(generated.path), ours, True)


def cluster(state: PapersState) -> None:
    """Repeats paper 3: titles and their dirty copies by 3-grams, on one machine."""
    name = f"{published.TITLES}, dirty"
    thresholds = state.thresholds(CLUSTER_THRESHOLDS)
    if not (thresholds and state.wants(published.TITLES) and state.in_time("cluster", name)):
        return
    generated = published.dirty_titles(state.context, state.part)
    if generated is None:
        say(f"{published.TITLES}: not in the data folder, omitted")
        return
    state.make([generated])
    if not generated.path.is_file():
        return
    records = data.count_rows(generated.path)
    claims = published.claims("cluster")
    ways = [way for claim in claims for way in (claim.slow, claim.fast)]
    shares = ["auto", *(way.partition(":")[2] for way in ways if ":" in way)]
    tokens = ["--tokens", "qgrams:3", "--multiset"]
    for threshold, ours in joins(state, generated.path, "jaccard", thresholds, tokens, ",".join(shares)).items():
        add_times(state, "cluster", name, threshold, records, ours, published.Seconds(None, None))
        add_claims(state, claims, name, threshold, records, ours, True)


def distance(dataset: str, points: int) -> str:
    """Returns the distance at which a point has one to two partners, as in the paper. The number of points within
    a distance grows with its d-th power in d dimensions, so the distance falls with the d-th root of their number."""
    least = next(text for name, text in vectors.CELLS if name == dataset)
    return f"{float(least) * (vectors.SIZE / points) ** (1 / vectors.DIMENSION):.4g}"


def points(state: PapersState) -> None:
    """Repeats paper 5: nested loop and index, on CPU and GPU, at a distance with one to two partners per point."""
    claims = published.claims("vectors")
    many = max(1, round(POINTS * state.part))
    for dataset in dict.fromkeys(name for name, _ in vectors.CELLS if name != "mnist"):
        if not state.wants(dataset) or not state.in_time("vectors", dataset):
            continue
        if dataset in vectors.GENERATED_VECTORS:
            path: Path | None = published.GENERATED / f"papers-{dataset}-{many}.npy"
            size = ("--vectors", str(many), "--dimension", str(vectors.DIMENSION))
            words = ("vectors", vectors.GENERATED_VECTORS[dataset], *size)
            state.make([Collection(words, path)])
            within = distance(dataset, many)
        else:
            path, _ = vectors.find(state.context, dataset)
            within = next(text for name, text in vectors.CELLS if name == dataset)
        if path is None or not path.is_file():
            say(f"{dataset}: the file is missing, omitted")
            continue
        ours, records = OurResults(), 0
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


def algorithms(state: PapersState) -> None:
    """Repeats table 5 of paper 1: the number of collections on which each algorithm is the best."""
    theirs = published.winners()
    names = list(next(iter(theirs.values())))
    won = {threshold: dict.fromkeys(names, 0) for threshold in theirs}
    wanted = {name: published.similar_collection(name, state.part, state.known) for name in SEVEN}
    if not state.in_time(ALGORITHMS, ", ".join(SEVEN)):
        return
    state.make([generated for generated in wanted.values() if generated])
    for dataset, generated in wanted.items():
        if generated is None or not generated.path.is_file() or not state.in_time(ALGORITHMS, dataset):
            continue
        best: dict[str, tuple[float, str]] = {}

        def receive(timing: Timing) -> None:
            name = timing.technique.removeprefix("gpu-verify:")
            if timing.join is not None:
                at = timing.cell.threshold
                best[at] = min(best.get(at, (timing.join, name)), (timing.join, name))

        techniques = ",".join(f"gpu-verify:{name}" if state.gpu else name for name in names)
        run_bench(state, generated.path, "jaccard", list(theirs), technique_options(techniques), receive)
        for threshold, (_, name) in best.items():
            won[threshold][name] += 1
        say(f"{ALGORITHMS} {dataset}: {' '.join(f'{at} {name}' for at, (_, name) in best.items())}")
    for threshold, counts in won.items():
        if not any(counts.values()):
            continue
        state.algorithms.add(
            threshold, *(str(count[name]) for name in names for count in (counts, theirs[threshold])),
        )
