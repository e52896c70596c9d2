"""Where the work is split beside simulated devices of every speed, and where it had best been."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Queue

from .. import bench, data, statistics, table
from ..bench import Timing
from ..context import Context, Report, say
from .hybrid import WITHIN
from .techniques import goal

VARIABLE = "SIMJOIN_SIMULATED_GPU"
SPEEDS = (0.1, 0.3, 1, 3, 10, 30, 100, 1000)
CELLS = (
    ("acl_2grams", "0.9"), ("acl_2grams", "0.8"), ("debian_files", "0.5"), ("debian_deps_4suites", "0.5"),
)
# auto is to be so near to the best split.
NEAR = 1.1
# The best split and auto are timed again, in up to so many turns and so many times as long.
TURNS = 60
LONGER = 20
# A case has two threads that work, and cores of its own. With four cases at once on 16 cores, the same work took
# up to a quarter longer.
CORES = 5


def shares(speed: float) -> list[str]:
    """What a device of that speed beside one core would be due, less, more, nothing and all."""
    due = 1 / (1 + speed)
    points = [1 - due * factor for factor in (0.25, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3)] + [0, 1]
    return [f"{point:g}" for point in sorted(set(points)) if 0 <= point <= 1]


def groups(cores: list[int]) -> list[list[int]]:
    """The cores for each of the cases that are timed at once."""
    count = max(1, len(cores) // CORES)
    each = len(cores) // count
    return [cores[at * each:(at + 1) * each] for at in range(count)]


@contextmanager
def on_cores(free: Queue[list[int]]) -> Iterator[None]:
    """What this thread starts meanwhile runs on cores that no other case has, where the system lets it."""
    cores = free.get()
    try:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)
        yield
    finally:
        free.put(cores)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.set_defaults(limit=2.5, runs=3)
    parser.add_argument(
        "--budget", type=float, default=1.0, metavar="S",
        help="seconds for the runs of each way, if one run takes less (default: %(default)g)",
    )


def run(context: Context, options: argparse.Namespace) -> Report:
    """Times every split beside every device."""
    result = table.Table(
        "The split beside simulated devices",
        ["dataset", "T", "speed", "share", "by", "best ms", "auto's share", "auto by", "auto ms", "auto/best",
         "slower", "auto/alone"],
        frozenset({"dataset", "by", "auto by"}),
        notes=[
            "One thread of the CPU beside a simulated device of so many times the speed of a core; "
            "beside one that is faster than a core, the CPU's thread is slowed down instead.",
            "share: the device's part of the work (by pairs and tokens) in the best of up to eleven splits: those in "
            "which the CPU gets from a quarter to three times what its speed would give it, nothing, or all. auto: "
            "--engine hybrid.",
            "The shortest of eleven is shorter by chance too. So, once it is known which split is the best, it and "
            f"auto are timed again, in up to {TURNS} turns: medians of these are shown, and the median of auto over "
            "the best split, turn by turn.",
            f"slower: the slower side alone over the faster one (the splits 0 and 1). Where that is at most {WITHIN:g}, "
            "the faster one takes turns with them: auto/alone is auto over it.",
        ],
    )
    problems: list[str] = []
    ratios: list[float] = []
    alone: list[float] = []
    cases = [
        (dataset, threshold, speed)
        for dataset, threshold in CELLS
        if context.datasets is None or dataset in context.datasets
        for speed in SPEEDS
    ]
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
    else:
        cores = list(range(os.cpu_count() or 1))
    free: Queue[list[int]] = Queue()
    for group in groups(cores):
        free.put(group)

    def timed(case: tuple[str, str, float]) -> tuple[Found | None, str | None]:
        with on_cores(free):
            return times(context, options.budget, *case)

    with ThreadPoolExecutor(free.qsize()) as pool:
        for (dataset, threshold, speed), (found, wrong) in zip(cases, pool.map(timed, cases), strict=True):
            if wrong:
                problems.append(f"{dataset} {threshold}, speed {speed:g}: {wrong}")
            if found is None:
                continue
            best, auto = found.best, found.auto
            ratio = statistics.turns_ratio(auto.joins, best.joins)
            assert ratio is not None
            ratios.append(ratio)
            beside = None if found.faster is None else statistics.turns_ratio(auto.joins, found.faster.joins)
            if beside is not None:
                alone.append(beside)
            say(f"{dataset} {threshold}, speed {speed:g}: auto {ratio:.2f} times the best")
            result.add(
                dataset, threshold, f"{speed:g}", best.split or "–", best.ran or "–",
                table.milliseconds(statistics.median(best.joins)),
                "–" if auto.share is None else f"{auto.share:.3f}", auto.ran or "–",
                table.milliseconds(statistics.median(auto.joins)), table.factor(ratio),
                table.factor(found.slower), table.factor(beside),
            )
    if ratios:
        near = sum(ratio <= NEAR for ratio in ratios)
        result.summary.append(
            f"auto within {NEAR} times the best split in {near} of {len(ratios)} cases (at most "
            f"{max(ratios):.2f} times), " + goal("all of them", near == len(ratios))
        )
    if alone:
        wins = sum(ratio < 1 for ratio in alone)
        result.summary.append(
            f"both at once beat each side alone in {wins} of {len(alone)} cases where the slower side is within "
            f"{WITHIN:g} times the faster (at most {max(alone):.2f} times the better one)"
        )
    result.summary += problems
    return Report(result, 1 if problems else 0)


@dataclass(frozen=True)
class Found:
    """What was timed beside one device: the best split, auto, and the faster side where the other is near."""

    best: Timing
    auto: Timing
    slower: float | None
    faster: Timing | None


def times(
    context: Context, budget: float, dataset: str, threshold: str, speed: float
) -> tuple[Found | None, str | None]:
    """The best split, auto and the faster side beside one device; and what went wrong."""
    path = data.set_file(context.folder, dataset)
    if path is None:
        return None, "not in the data folder"

    def timed(splits: list[str], runs: int, seconds: float) -> tuple[dict[str, Timing], str | None]:
        found: dict[str, Timing] = {}

        def take(timing: Timing) -> None:
            if timing.join is not None:
                found[timing.split or ""] = timing

        words = [
            *bench.arguments(path, [threshold], 1, runs, context.limit),
            "--budget", f"{seconds:g}", "--technique", "auto", "--engine", "hybrid",
            "--split", ",".join(splits),
        ]
        wrong = bench.run(context.binary, words, dataset, take, {VARIABLE: f"speed={speed:g}"})
        return found, wrong

    found, wrong = timed(shares(speed), context.runs, budget)
    if wrong or not found:
        return None, wrong
    best = min(found, key=lambda split: found[split].join or 0.0)
    sides = sorted((found[side].join or 0.0, side) for side in ("0", "1") if side in found)
    slower = sides[1][0] / sides[0][0] if len(sides) == 2 else None
    faster = sides[0][1] if slower is not None and slower <= WITHIN else None
    # Each once, whatever is the best.
    ways = list(dict.fromkeys(["auto", best, *([faster] if faster else [])]))
    found, wrong = timed(ways, TURNS, LONGER * budget)
    if wrong or len(found) < len(ways):
        return None, wrong
    return Found(found[best], found["auto"], slower, found[faster] if faster else None), None
