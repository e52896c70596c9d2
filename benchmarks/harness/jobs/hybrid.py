"""CPU and GPU at once: what auto makes of it, beside every fixed way."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass

from .. import bench, statistics, table
from ..bench import Timing
from ..context import Context, Report, say
from .device import Workload, device_name
from .techniques import goal

THRESHOLDS = ("0.95", "0.9", "0.8", "0.7", "0.5")
QUEUES = ("queue:8", "queue:32", "queue:128")
SHARES = ("0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1")

WORKLOADS = (
    Workload("kosarak_36k", ()),
    Workload("kosarak_x10", (), inflate=("kosarak_36k", 10)),
    Workload("msweb", ()),
    Workload("retail", ()),
    Workload("retail_x10", (), inflate=("retail", 10)),
    Workload("debian_files", ()),
    Workload("acl_2grams", ()),
    Workload("reddit_300k", (), tokens="words"),
    Workload("zipf_1m", (), zipf=(1_000_000, 100_000, 10)),
    Workload("sparse_like", (), zipf=(5_000_000, 500_000, 10)),
    Workload("dblp_like", (), zipf=(1_000_000, 15_000, 88)),
    Workload("lvj_like", (), zipf=(3_000_000, 7_500_000, 36)),
)

# auto is to be so near to the best of all, in so many cells, and in all of them.
NEAR, NEARLY_ALL, FAR = 1.15, 0.9, 1.5
# Both at once are to beat each alone where the slower one is no slower than this.
WITHIN = 5.0


@dataclass
class Row:
    """A cell: seconds of every way."""

    dataset: str
    threshold: str
    cpu: float | None = None
    gpu: float | None = None
    queue: tuple[float, str] | None = None
    share: tuple[float, str] | None = None
    estimate: float | None = None
    auto: Timing | None = None
    counts: frozenset[int] = frozenset()

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
        elif timing.split == "auto":
            self.estimate = timing.join
        elif timing.split and timing.split.startswith("queue"):
            self.queue = min(filter(None, (self.queue, (timing.join, timing.split))))
        elif timing.split:
            self.share = min(filter(None, (self.share, (timing.join, timing.split))))

    @property
    def fixed(self) -> float | None:
        """The best of the ways that are set by hand."""
        times = [self.cpu, self.gpu, self.queue and self.queue[0], self.share and self.share[0]]
        return min((one for one in times if one is not None), default=None)

    @property
    def hybrid(self) -> float | None:
        """The best of those in which both may work."""
        times = [self.estimate, self.queue and self.queue[0], self.share and self.share[0]]
        return min((one for one in times if one is not None), default=None)

    @property
    def ratio(self) -> float | None:
        """auto over the best."""
        return statistics.ratio(self.auto.join if self.auto else None, self.fixed)

    @property
    def slower(self) -> float | None:
        """The slower side over the faster one."""
        if self.cpu is None or self.gpu is None:
            return None
        return max(self.cpu, self.gpu) / min(self.cpu, self.gpu)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.set_defaults(limit=3.0, runs=3)
    parser.add_argument(
        "--budget", type=float, default=0.2, metavar="S",
        help="seconds for the runs of each way, if one run takes less (default: %(default)g)",
    )


def run(context: Context, options: argparse.Namespace) -> Report:
    """Times every way on every cell."""
    device = device_name(context)
    cores = os.cpu_count() or 1
    thresholds = context.thresholds or THRESHOLDS
    rows: dict[tuple[str, str], Row] = {}
    problems: list[str] = []
    for workload in WORKLOADS:
        if context.datasets is not None and workload.name not in context.datasets:
            continue
        path = workload.path(context)
        if isinstance(path, str):
            problems.append(f"{workload.name}: {path}")
            continue

        def take(timing: Timing) -> None:
            cell = timing.cell
            key = (cell.dataset, cell.threshold)
            rows.setdefault(key, Row(*key)).take(timing)
            if timing.engine == "auto":
                say(f"{cell}: auto {table.milliseconds(timing.join)} ms on {timing.ran_on}")

        words = [
            *bench.arguments(path, thresholds, cores, context.runs, context.limit),
            "--budget", f"{options.budget:g}", "--technique", "auto",
            "--engine", "cpu,gpu,hybrid,auto", "--split", ",".join(("auto", *QUEUES, *SHARES)),
            *(["--tokens", workload.tokens] if workload.tokens else []),
        ]
        wrong = bench.run(context.binary, words, workload.name, take)
        if wrong:
            problems.append(f"{workload.name}: {wrong}")
    result = cells_table(device, cores, list(rows.values()))
    for row in rows.values():
        if len(row.counts) > 1:
            problems.append(f"{row.dataset} {row.threshold}: the counts DISAGREE")
    result.summary += problems
    return Report(result, 1 if problems else 0, (("device", device),))


def cells_table(device: str, cores: int, rows: Sequence[Row]) -> table.Table:
    """The table and its summary."""
    result = table.Table(
        "CPU and GPU at once",
        ["dataset", "T", "CPU", "GPU", "slower", "queue", "tiles", "split", "share", "hybrid",
         "auto", "on", "GPU did", "planned", "overlap", "auto/best"],
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
            "simjoin remembers how far off its estimates were, so hybrid and auto know what the runs before "
            "them took, those of the same cell included; a first join on a machine knows nothing of the kind.",
        ],
    )

    def ms(value: float | None) -> str:
        return table.milliseconds(value)

    def percent(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.0f} %"

    for row in rows:
        auto = row.auto
        result.add(
            row.dataset, row.threshold, ms(row.cpu), ms(row.gpu), table.factor(row.slower),
            ms(row.queue[0] if row.queue else None),
            row.queue[1].partition(":")[2] if row.queue else "–",
            ms(row.share[0] if row.share else None), row.share[1] if row.share else "–",
            ms(row.estimate), ms(auto.join if auto else None),
            (auto.ran_on if auto else None) or "–",
            percent(auto.share if auto else None), percent(auto.planned_share if auto else None),
            percent(auto.overlap if auto else None), table.factor(row.ratio),
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
    close = [row for row in rows if row.slower is not None and row.slower <= WITHIN]
    if close:
        wins = [row for row in close if row.hybrid is not None
                and row.hybrid < min(row.cpu or 0.0, row.gpu or 0.0)]
        result.summary.append(
            f"both at once beat each side alone in {len(wins)} of {len(close)} cells where the slower "
            f"side is within {WITHIN:g} times the faster, "
            + goal("all of them", len(wins) == len(close))
        )
    return result
