"""Compares auto's split of the work between a CPU and simulated devices with the best split, in virtual time.

With a simulated device, simjoin plans with its built-in cost table and reports the seconds of a virtual clock. These
follow from that table, the speed of the device and the chunks that each side has taken. So this job measures the
planner and the queue; its figures are the same on every machine, and are not the real times of joins. The jobs
`techniques` and, with a GPU, `hybrid` measure the cost table itself.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .. import bench, data, table
from ..bench import Timing
from ..context import Context, Report, say
from .hybrid import WITHIN
from .techniques import goal

VARIABLE = "SIMJOIN_SIMULATED_GPU"
SPEEDS = (0.1, 0.3, 1, 3, 10, 30, 100, 1000)
# The true speed of the device over the speed that the planner assumes.
ACTUAL = (1, 0.5, 2)
CELLS = (
    ("acl_2grams", "0.9"), ("acl_2grams", "0.8"), ("debian_files", "0.5"), ("debian_deps_4suites", "0.5"),
)
# The goal: auto over the best split.
NEAR = 1.1


def shares(speed: float) -> list[str]:
    """Returns the device shares to try: the share that its speed suggests, smaller and larger ones, 0 and 1."""
    due = 1 / (1 + speed)
    points = [1 - due * factor for factor in (0.25, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3)] + [0, 1]
    return [f"{point:g}" for point in sorted(set(points)) if 0 <= point <= 1]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.set_defaults(limit=60)


def run(context: Context, options: argparse.Namespace) -> Report:
    """Runs every split with every device and makes the table."""
    result = table.Table(
        "The split between a CPU and simulated devices, in virtual time",
        ["dataset", "T", "speed", "actual", "share", "by", "best ms", "auto's share", "auto by", "auto ms",
         "auto/best", "slower", "auto/alone"],
        frozenset({"dataset", "by", "auto by"}),
        notes=[
            "One thread of the CPU and a simulated device. speed: the speed of the device that the planner assumes, in "
            "cores. actual: the true speed over that. Times are those of the virtual clock.",
            "share: the device share (by pairs and tokens) of the best of up to eleven splits, in "
            "which the CPU gets nothing, all, or a quarter to three times the share that the true speed suggests. "
            "auto: --engine hybrid, which starts from the assumed speed and adapts.",
            "slower: the slower side alone over the faster one (the splits 0 and 1). If that is at most "
            f"{WITHIN:g}, auto/alone is auto over the faster one.",
        ],
    )
    problems: list[str] = []
    # The key is whether the planner knows the true speed.
    ratios: dict[bool, list[float]] = {True: [], False: []}
    alone: list[float] = []
    cases = [
        (dataset, threshold, speed, actual)
        for dataset, threshold in CELLS
        if context.datasets is None or dataset in context.datasets
        for speed in SPEEDS
        for actual in ACTUAL
    ]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found_in = pool.map(lambda case: times(context, *case), cases)
        for (dataset, threshold, speed, actual), (found, wrong) in zip(cases, found_in, strict=True):
            if wrong:
                problems.append(f"{dataset} {threshold}, speed {speed:g}, actual {actual:g}: {wrong}")
            if found is None:
                continue
            best, auto = found.best, found.auto
            assert auto.virtual is not None and best.virtual is not None
            ratio = auto.virtual / best.virtual
            ratios[actual == 1].append(ratio)
            ratio_alone = auto.virtual / found.faster if found.slower <= WITHIN else None
            if ratio_alone is not None:
                alone.append(ratio_alone)
            say(f"{dataset} {threshold}, speed {speed:g}, actual {actual:g}: auto {ratio:.2f} times the best")
            result.add(
                dataset, threshold, f"{speed:g}", f"{actual:g}", best.split or "–", best.ran or "–",
                table.milliseconds(best.virtual), "–" if auto.device_share is None else f"{auto.device_share:.3f}",
                auto.ran or "–", table.milliseconds(auto.virtual), table.factor(ratio),
                table.factor(found.slower), table.factor(ratio_alone),
            )
    for known, word in ((True, "right"), (False, "half or twice the true one")):
        if ratios[known]:
            near = sum(ratio <= NEAR for ratio in ratios[known])
            result.summary.append(
                f"the assumed speed is {word}: auto within {NEAR} times the best split in {near} of "
                f"{len(ratios[known])} cases (at most {max(ratios[known]):.2f} times)"
                + (", " + goal("all of them", near == len(ratios[known])) if known else "")
            )
    if alone:
        wins = sum(ratio < 1 for ratio in alone)
        result.summary.append(
            f"CPU and GPU together beat each side alone in {wins} of {len(alone)} cases where the slower side is "
            f"within {WITHIN:g} times the faster (at most {max(alone):.2f} times the better one)"
        )
    result.summary += problems
    return Report(result, 1 if problems else 0)


@dataclass(frozen=True)
class SplitTimes:
    """The results with one device: the best split, auto, the slower side over the faster one, and the virtual seconds
    of the faster one."""

    best: Timing
    auto: Timing
    slower: float
    faster: float


def times(
    context: Context, dataset: str, threshold: str, speed: float, actual: float
) -> tuple[SplitTimes | None, str | None]:
    """Returns the results of the best split and of auto with one device, and error messages."""
    path = data.set_file(context.folder, dataset)
    if path is None:
        return None, "not in the data folder"
    found: dict[str, Timing] = {}

    def receive(timing: Timing) -> None:
        if timing.virtual is not None:
            found[timing.split or ""] = timing

    splits = [*shares(speed * actual), "auto"]
    # Virtual time is the same in every run, so one is enough.
    words = [
        *bench.arguments(path, [threshold], 1, 1, context.limit),
        "--budget", "0", "--technique", "auto", "--engine", "hybrid", "--split", ",".join(splits),
    ]
    device = f"speed={speed:g},actual={actual:g}"
    wrong = bench.run(context.binary, words, dataset, receive, {VARIABLE: device})
    if wrong or len(found) < len(splits):
        return None, wrong or "not every split finished"
    auto = found.pop("auto")
    best = min(found.values(), key=lambda timing: timing.virtual or 0.0)
    sides = sorted(found[side].virtual or 0.0 for side in ("0", "1"))
    return SplitTimes(best, auto, sides[1] / sides[0] if sides[0] else float("inf"), sides[0]), None
