"""Compares auto with every fixed way to use CPU and GPU at once."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import bench, statistics, table
from ..bench import Timing
from ..context import Context, Report, say
from ..paths import SCRATCH
from .device import Workload, device_name
from .techniques import goal

THRESHOLDS = ("0.95", "0.9", "0.8", "0.7", "0.5")
QUEUES = ("queue:8", "queue:32", "queue:128")
SHARES = ("0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1")

# In two halves: auto joins those of one with what was learned from the other alone.
HALVES = (
    (
        Workload("kosarak_36k", ()),
        Workload("kosarak_x100", (), inflate=("kosarak_36k", 100)),
        Workload("msweb", ()),
        Workload("reddit_300k", (), tokens="words"),
        Workload("zipf_1m", (), zipf=(1_000_000, 100_000, 10)),
        Workload("dblp_like", (), zipf=(1_000_000, 15_000, 88)),
    ),
    (
        Workload("retail", ()),
        Workload("retail_x50", (), inflate=("retail", 50)),
        Workload("debian_files", ()),
        Workload("acl_2grams", ()),
        Workload("sparse_like", (), zipf=(5_000_000, 500_000, 10)),
        Workload("lvj_like", (), zipf=(3_000_000, 7_500_000, 36)),
    ),
)

# auto is to be so near to the best of all, in so many cells, and in all of them.
NEAR, NEARLY_ALL, FAR = 1.15, 0.9, 1.5
# Both at once are to beat each alone where the slower one is no slower than this.
WITHIN = 5.0
# Seconds of the faster side from which on there is more to divide than starts and transfers.
LONG = 50e-3
# Seconds of the best below which chance decides which of so many ways is the shortest.
SHORT = 25e-3


@dataclass
class Row:
    """A cell: seconds of every way. both: the best of those in which CPU and GPU worked at once, and how they were
    split. again: the ways that matter, timed once more."""

    dataset: str
    threshold: str
    cpu: float | None = None
    gpu: float | None = None
    queue: tuple[float, str] | None = None
    share: tuple[float, str] | None = None
    both: tuple[float, str] | None = None
    estimate: float | None = None
    auto: Timing | None = None
    first: Timing | None = None
    counts: frozenset[int] = frozenset()
    again: Row | None = None

    def take(self, timing: Timing) -> None:
        """Puts a timing where it belongs."""
        if timing.pairs is not None:
            self.counts |= {timing.pairs}
        if timing.join is None:
            return
        if timing.engine == "cpu":
            self.cpu = timing.join
        elif timing.engine == "gpu":
            self.gpu = timing.join
        elif timing.engine == "auto":
            self.auto = timing
        elif timing.split:
            way = (timing.join, timing.split)
            if timing.split == "auto":
                self.estimate = timing.join
                at_once = 0.0 < (timing.device_share or 0.0) < 1.0
            elif timing.split.startswith("queue"):
                self.queue = min(filter(None, (self.queue, way)))
                at_once = True
            else:
                self.share = min(filter(None, (self.share, way)))
                at_once = 0.0 < float(timing.split) < 1.0
            if at_once:
                self.both = min(filter(None, (self.both, way)))

    @property
    def fixed(self) -> float | None:
        """The best of the ways that are set by hand."""
        times = [self.cpu, self.gpu, self.queue and self.queue[0], self.share and self.share[0]]
        return min((one for one in times if one is not None), default=None)

    @property
    def splits(self) -> frozenset[str]:
        """How the best of the ways set by hand splits the work, if it does, and the best of both at once."""
        by_hand = min(filter(None, (self.queue, self.share)), default=None)
        alone = min(filter(None, (self.cpu, self.gpu)), default=None)
        if by_hand and alone is not None and alone < by_hand[0]:
            by_hand = None
        return frozenset(way[1] for way in (by_hand, self.both) if way)

    @property
    def last(self) -> Row:
        """The last times."""
        return self.again or self

    @property
    def ratio(self) -> float | None:
        """auto over the best."""
        auto = self.last.auto
        return statistics.ratio(auto.join if auto else None, self.last.fixed)

    @property
    def first_ratio(self) -> float | None:
        """auto over the best, where nothing had been learned."""
        return statistics.ratio(self.first.join if self.first else None, self.last.fixed)

    @property
    def slower(self) -> float | None:
        """The slower side over the faster one."""
        cpu, gpu = self.last.cpu, self.last.gpu
        if cpu is None or gpu is None:
            return None
        return max(cpu, gpu) / min(cpu, gpu)

    @property
    def alone(self) -> float | None:
        """The faster side."""
        return min(filter(None, (self.last.cpu, self.last.gpu)), default=None)

    @property
    def won(self) -> bool:
        """Whether both at once beat each side alone."""
        return self.alone is not None and self.last.both is not None and self.last.both[0] < self.alone


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.set_defaults(limit=3.0, runs=3)
    parser.add_argument(
        "--budget", type=float, default=0.2, metavar="S",
        help="seconds for the runs of each way, if one run takes less (default: %(default)g)",
    )


class Timer:
    """Measures joins, each with the records of earlier ones in a cache folder."""

    def __init__(self, context: Context, budget: float) -> None:
        self.context = context
        self.budget = budget
        self.rows: dict[tuple[str, str], Row] = {}
        self.problems: list[str] = []

    def row(self, timing: Timing) -> Row:
        """The cell that a timing is of."""
        key = (timing.cell.dataset, timing.cell.threshold)
        return self.rows.setdefault(key, Row(*key))

    def all_ways(self, timing: Timing) -> None:
        """Takes the timing of a way."""
        self.row(timing).take(timing)
        if timing.engine == "auto":
            say(f"{timing.cell}: auto {table.milliseconds(timing.join)} ms on {timing.ran_on}")

    def take_again(self, timing: Timing) -> None:
        """Takes the timing of a way that was timed before."""
        row = self.row(timing)
        row.again = row.again or Row(row.dataset, row.threshold)
        row.again.take(timing)
        row.counts |= row.again.counts

    def time_again(self, workload: Workload, cache: Path) -> None:
        """Times again, where that is short, the best way that is set by hand, the best of both at once, each side
        alone, and auto: of many ways the shortest is shorter by chance too, of these each has as many turns."""
        by_splits: dict[frozenset[str], list[str]] = {}
        for row in self.rows.values():
            if row.dataset == workload.name and (row.fixed or SHORT) < SHORT:
                by_splits.setdefault(row.splits, []).append(row.threshold)
        for splits, thresholds in by_splits.items():
            engines = "cpu,gpu,hybrid,auto" if splits else "cpu,gpu,auto"
            self.run(workload, engines, sorted(splits), cache, self.take_again, thresholds=thresholds)

    def first(self, timing: Timing) -> None:
        """Takes the timing of auto where nothing had been learned. The GPU is there to be awake."""
        if timing.engine == "auto":
            self.row(timing).first = timing

    def run(
        self, workload: Workload, engines: str, splits: Sequence[str], cache: Path, take: bench.Take,
        learn: bool = False, thresholds: Sequence[str] | None = None,
    ) -> None:
        """Times the joins of a collection at every threshold."""
        path = workload.path(self.context)
        if isinstance(path, str):
            self.problems.append(f"{workload.name}: {path}")
            return
        context = self.context
        words = [
            *bench.arguments(
                path, thresholds or context.thresholds or THRESHOLDS, os.cpu_count() or 1, context.runs,
                context.limit,
            ),
            "--budget", f"{self.budget:g}", "--technique", "auto", "--engine", engines,
            *(["--split", ",".join(splits)] if splits else []),
            *(["--tokens", workload.tokens] if workload.tokens else []),
        ]
        variables = {"XDG_CACHE_HOME": str(cache), **({} if learn else {"SIMJOIN_LEARN": "no"})}
        wrong = bench.run(context.binary, words, workload.name, take, variables)
        if wrong:
            self.problems.append(f"{workload.name}: {wrong}")


def share_kernels(caches: Sequence[Path]) -> None:
    """Gives each cache folder the kernels that were compiled into any: compiling one takes longer than all the
    runs of a way may, and would be all that is seen of it."""
    kernels = [path for cache in caches for path in (cache / "simjoin" / "kernels").glob("*")]
    for cache in caches:
        (cache / "simjoin" / "kernels").mkdir(parents=True, exist_ok=True)
        for path in kernels:
            copy = cache / "simjoin" / "kernels" / path.name
            if not copy.exists():
                shutil.copyfile(path, copy)


def run(context: Context, options: argparse.Namespace) -> Report:
    """Times every way on every cell."""
    device = device_name(context)
    timer = Timer(context, options.budget)
    # What is learned goes to folders of its own, so that it is known where it comes from.
    folder = SCRATCH / "hybrid"
    shutil.rmtree(folder, ignore_errors=True)
    chosen = [
        [one for one in half if context.datasets is None or one.name in context.datasets] for half in HALVES
    ]
    for half, workloads in enumerate(HALVES):
        for workload in workloads if chosen[1 - half] else []:
            say(f"{workload.name}: to learn from")
            timer.run(workload, "cpu,gpu,hybrid,auto", ["auto"], folder / str(half), lambda _: None, learn=True)
    share_kernels([folder / name for name in ("0", "1", "none")])
    for half, workloads in enumerate(chosen):
        for workload in workloads:
            ways = ("auto", *QUEUES, *SHARES)
            timer.run(workload, "cpu,gpu,hybrid,auto", ways, folder / str(1 - half), timer.all_ways)
            timer.time_again(workload, folder / str(1 - half))
            timer.run(workload, "gpu,auto", (), folder / "none", timer.first)
    rows = list(timer.rows.values())
    result = cells_table(device, os.cpu_count() or 1, rows)
    for row in rows:
        if len(row.counts) > 1:
            timer.problems.append(f"{row.dataset} {row.threshold}: the counts DISAGREE")
    result.summary += timer.problems
    return Report(result, 1 if timer.problems else 0, (("device", device),))


def cells_table(device: str, cores: int, rows: Sequence[Row]) -> table.Table:
    """The table and its summary."""
    result = table.Table(
        "CPU and GPU at once",
        ["dataset", "T", "CPU", "GPU", "slower", "queue", "tiles", "split", "share", "hybrid",
         "auto", "on", "GPU did", "planned", "overlap", "auto/best", "first/best"],
        frozenset({"dataset", "on"}),
        notes=[
            f"{device} and {cores} cores; self-joins by Jaccard, simjoin bench (count), milliseconds "
            "of the shortest run; every way takes turns with the others in one process, whose device "
            "is awake.",
            f"queue: the best of {', '.join(QUEUES)}; split: the best of the shares "
            f"{', '.join(SHARES)} for the GPU; hybrid: --engine hybrid, which finds the share by itself "
            "and corrects it while it runs; auto: --engine auto, the default.",
            "slower: the slower side alone over the faster one. best: the best of CPU, GPU, queue and "
            "split.",
            f"The shortest of so many ways is shorter by chance too. So where it takes less than {1e3 * SHORT:g} ms, "
            "the best way that is set by hand, the best of both at once, each side alone and auto are timed again, in "
            "as many turns each; these times are shown and compared.",
            "simjoin remembers how far off its estimates were. Here hybrid and auto know only of the other half of "
            "the collections, which were joined before, and learn nothing more: "
            + "; ".join(", ".join(one.name for one in half) for half in HALVES) + ". first: auto in a process "
            "of its own that knows of nothing, as on the day on which simjoin is installed.",
        ],
    )

    def ms(value: float | None) -> str:
        return table.milliseconds(value)

    def percent(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.0f} %"

    for row in rows:
        last = row.last
        auto = last.auto
        queue, share = last.queue or row.queue, last.share or row.share
        result.add(
            row.dataset, row.threshold, ms(last.cpu), ms(last.gpu), table.factor(row.slower),
            ms(queue[0] if queue else None), queue[1].partition(":")[2] if queue else "–",
            ms(share[0] if share else None), share[1] if share else "–",
            ms(last.estimate or row.estimate), ms(auto.join if auto else None),
            (auto.ran_on if auto else None) or "–",
            percent(auto.device_share if auto else None),
            percent(auto.planned_device_share if auto else None),
            percent(auto.concurrency if auto else None), table.factor(row.ratio), table.factor(row.first_ratio),
        )
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if ratios:
        near = sum(ratio <= NEAR for ratio in ratios)
        wanted = near >= NEARLY_ALL * len(ratios)
        result.summary += [
            f"auto within {NEAR} times the best in {near} of {len(ratios)} cells, "
            + goal(f"at least {100 * NEARLY_ALL:.0f} %", wanted),
            f"auto at most {max(ratios):.2f} times the best, "
            + goal(f"never beyond {FAR}", max(ratios) <= FAR),
        ]
    firsts = [row.first_ratio for row in rows if row.first_ratio is not None]
    if firsts:
        result.summary.append(
            f"knowing of nothing: within {NEAR} times the best in {sum(one <= NEAR for one in firsts)} of "
            f"{len(firsts)} cells, at most {max(firsts):.2f} times"
        )
    close = [row for row in rows if row.slower is not None and row.slower <= WITHIN]
    if close:
        wins = [row for row in close if row.won]
        result.summary.append(
            f"both at once beat each side alone in {len(wins)} of {len(close)} cells where the slower "
            f"side is within {WITHIN:g} times the faster, "
            + goal("all of them", len(wins) == len(close))
        )
        for name, some in (
            ("less than", [row for row in close if (row.alone or 0.0) < LONG]),
            ("at least", [row for row in close if (row.alone or 0.0) >= LONG]),
        ):
            result.summary.append(
                f"of these, where the faster side takes {name} {1e3 * LONG:g} ms: {sum(row.won for row in some)} "
                f"of {len(some)}"
            )
    return result
