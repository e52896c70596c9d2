"""Compares auto with fixed splits of the work between CPU and GPU."""

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

# Two halves: auto joins the collections of one half after it has learned only from the other half.
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

# The goals: auto over the best; the share of cells that must reach it; the largest ratio of any cell.
NEAR, NEARLY_ALL, FAR = 1.15, 0.9, 1.5
# CPU and GPU together should beat each alone if the slower one takes at most this many times as long.
WITHIN = 5.0
# Joins whose faster side takes at least this many seconds have work to share beyond starts and transfers.
LONG = 50e-3
# If the best takes fewer seconds than this, chance decides which of many configurations is the fastest.
SHORT = 25e-3


@dataclass
class Row:
    """The seconds of every configuration of a cell. both: the best in which CPU and GPU worked together, and its
    split. repeated: the configurations that matter, timed again."""

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
    repeated: Row | None = None

    def add(self, timing: Timing) -> None:
        """Adds a timing."""
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
                together = 0.0 < (timing.device_share or 0.0) < 1.0
            elif timing.split.startswith("queue"):
                self.queue = min(filter(None, (self.queue, way)))
                together = True
            else:
                self.share = min(filter(None, (self.share, way)))
                together = 0.0 < float(timing.split) < 1.0
            if together:
                self.both = min(filter(None, (self.both, way)))

    @property
    def fixed(self) -> float | None:
        """Returns the best time of the fixed configurations."""
        times = [self.cpu, self.gpu, self.queue and self.queue[0], self.share and self.share[0]]
        return min((one for one in times if one is not None), default=None)

    @property
    def splits(self) -> frozenset[str]:
        """Returns the splits of the best fixed configuration, if it has one, and of the best with both processors."""
        fixed_split = min(filter(None, (self.queue, self.share)), default=None)
        alone = min(filter(None, (self.cpu, self.gpu)), default=None)
        if fixed_split and alone is not None and alone < fixed_split[0]:
            fixed_split = None
        return frozenset(way[1] for way in (fixed_split, self.both) if way)

    @property
    def last(self) -> Row:
        """Returns the repeated times if there are any, else the first ones."""
        return self.repeated or self

    @property
    def ratio(self) -> float | None:
        """Returns the time of auto over the best."""
        auto = self.last.auto
        return statistics.ratio(auto.join if auto else None, self.last.fixed)

    @property
    def first_ratio(self) -> float | None:
        """Returns the time of auto without learned corrections, over the best."""
        return statistics.ratio(self.first.join if self.first else None, self.last.fixed)

    @property
    def slower(self) -> float | None:
        """Returns the time of the slower side over that of the faster one."""
        cpu, gpu = self.last.cpu, self.last.gpu
        if cpu is None or gpu is None:
            return None
        return max(cpu, gpu) / min(cpu, gpu)

    @property
    def alone(self) -> float | None:
        """Returns the time of the faster side."""
        return min(filter(None, (self.last.cpu, self.last.gpu)), default=None)

    @property
    def won(self) -> bool:
        """Returns whether CPU and GPU together beat each side alone."""
        return self.alone is not None and self.last.both is not None and self.last.both[0] < self.alone


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.set_defaults(limit=3.0, runs=3)
    parser.add_argument(
        "--budget", type=float, default=0.2, metavar="S",
        help="seconds for the runs of each configuration, if one run takes less (default: %(default)g)",
    )


class Timer:
    """Measures joins, with corrections learned from earlier ones in a cache folder."""

    def __init__(self, context: Context, budget: float) -> None:
        self.context = context
        self.budget = budget
        self.rows: dict[tuple[str, str], Row] = {}
        self.problems: list[str] = []

    def row(self, timing: Timing) -> Row:
        """Returns the cell of a timing."""
        key = (timing.cell.dataset, timing.cell.threshold)
        return self.rows.setdefault(key, Row(*key))

    def add_any(self, timing: Timing) -> None:
        """Receives the timing of a configuration."""
        self.row(timing).add(timing)
        if timing.engine == "auto":
            say(f"{timing.cell}: auto {table.milliseconds(timing.join)} ms on {timing.ran_on}")

    def add_repeated(self, timing: Timing) -> None:
        """Receives the timing of a configuration that was timed before."""
        row = self.row(timing)
        row.repeated = row.repeated or Row(row.dataset, row.threshold)
        row.repeated.add(timing)
        row.counts |= row.repeated.counts

    def repeat_short(self, workload: Workload, cache: Path) -> None:
        """Times short joins again: the best fixed configuration, the best with CPU and GPU together, each side alone,
        and auto, each equally often. The fastest of many configurations is partly the fastest by chance."""
        by_splits: dict[frozenset[str], list[str]] = {}
        for row in self.rows.values():
            if row.dataset == workload.name and (row.fixed or SHORT) < SHORT:
                by_splits.setdefault(row.splits, []).append(row.threshold)
        for splits, thresholds in by_splits.items():
            engines = "cpu,gpu,hybrid,auto" if splits else "cpu,gpu,auto"
            self.run(workload, engines, sorted(splits), cache, self.add_repeated, thresholds=thresholds)

    def add_unlearned(self, timing: Timing) -> None:
        """Receives the timing of auto without learned corrections. The engine gpu only runs to wake the GPU."""
        if timing.engine == "auto":
            self.row(timing).first = timing

    def run(
        self, workload: Workload, engines: str, splits: Sequence[str], cache: Path, receive: bench.Receiver,
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
        wrong = bench.run(context.binary, words, workload.name, receive, variables)
        if wrong:
            self.problems.append(f"{workload.name}: {wrong}")


def share_kernels(caches: Sequence[Path]) -> None:
    """Copies the compiled kernels of all cache folders into each. Compiling a kernel takes longer than all runs of a
    configuration may, so only the compilation would be measured."""
    kernels = [path for cache in caches for path in (cache / "simjoin" / "kernels").glob("*")]
    for cache in caches:
        (cache / "simjoin" / "kernels").mkdir(parents=True, exist_ok=True)
        for path in kernels:
            copy = cache / "simjoin" / "kernels" / path.name
            if not copy.exists():
                shutil.copyfile(path, copy)


def run(context: Context, options: argparse.Namespace) -> Report:
    """Times every configuration on every cell."""
    device = device_name(context)
    timer = Timer(context, options.budget)
    # Learned corrections go to separate folders, so that it is known which joins they come from.
    folder = SCRATCH / "hybrid"
    shutil.rmtree(folder, ignore_errors=True)
    chosen = [
        [one for one in half if context.datasets is None or one.name in context.datasets] for half in HALVES
    ]
    for half, workloads in enumerate(HALVES):
        for workload in workloads if chosen[1 - half] else []:
            say(f"{workload.name}: learning")
            timer.run(workload, "cpu,gpu,hybrid,auto", ["auto"], folder / str(half), lambda _: None, learn=True)
    share_kernels([folder / name for name in ("0", "1", "none")])
    for half, workloads in enumerate(chosen):
        for workload in workloads:
            ways = ("auto", *QUEUES, *SHARES)
            timer.run(workload, "cpu,gpu,hybrid,auto", ways, folder / str(1 - half), timer.add_any)
            timer.repeat_short(workload, folder / str(1 - half))
            timer.run(workload, "gpu,auto", (), folder / "none", timer.add_unlearned)
    rows = list(timer.rows.values())
    result = cells_table(device, os.cpu_count() or 1, rows)
    for row in rows:
        if len(row.counts) > 1:
            timer.problems.append(f"{row.dataset} {row.threshold}: the counts DISAGREE")
    result.summary += timer.problems
    return Report(result, 1 if timer.problems else 0, (("device", device),))


def cells_table(device: str, cores: int, rows: Sequence[Row]) -> table.Table:
    """Returns the table and its summary."""
    result = table.Table(
        "CPU and GPU at once",
        ["dataset", "T", "CPU", "GPU", "slower", "queue", "tiles", "split", "share", "hybrid",
         "auto", "on", "device share", "planned", "concurrency", "auto/best", "first/best"],
        frozenset({"dataset", "on"}),
        notes=[
            f"{device} and {cores} cores; self-joins by Jaccard, simjoin bench (count), milliseconds "
            "of the shortest run; all configurations run in turns in one process, whose device "
            "is awake.",
            f"queue: the best of {', '.join(QUEUES)}; split: the best of the shares "
            f"{', '.join(SHARES)} for the GPU; hybrid: --engine hybrid, which chooses the share itself "
            "and adapts it while it runs; auto: --engine auto, the default.",
            "slower: the slower side alone over the faster one. best: the best of CPU, GPU, queue and "
            "split.",
            "The fastest of many configurations is partly the fastest by chance. So if it takes less than "
            f"{1e3 * SHORT:g} ms, the best fixed configuration, the best with CPU and GPU together, each side alone and "
            "auto are timed again, equally often; these times are shown and compared.",
            "simjoin learns from the errors of its estimates. In this record, hybrid and auto have only learned from "
            "the other half of the collections, which were joined before: "
            + "; ".join(", ".join(one.name for one in half) for half in HALVES) + ". first: auto in a separate "
            "process without learned corrections, as after the installation of simjoin.",
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
f"without learned corrections: within {NEAR} times the best in {sum(one <= NEAR for one in firsts)} of "
            f"{len(firsts)} cells, at most {max(firsts):.2f} times"
        )
    close = [row for row in rows if row.slower is not None and row.slower <= WITHIN]
    if close:
        wins = [row for row in close if row.won]
        result.summary.append(
            f"CPU and GPU together beat each side alone in {len(wins)} of {len(close)} cells where the slower "
            f"side is within {WITHIN:g} times the faster, "
            + goal("all of them", len(wins) == len(close))
        )
        for name, some in (
            ("less than", [row for row in close if (row.alone or 0.0) < LONG]),
            ("at least", [row for row in close if (row.alone or 0.0) >= LONG]),
        ):
            result.summary.append(
                f"of these, if the faster side takes {name} {1e3 * LONG:g} ms: {sum(row.won for row in some)} "
                f"of {len(some)}"
            )
    return result
