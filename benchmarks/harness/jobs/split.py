"""Where the work is split beside simulated devices of every speed, and where it had best been, in virtual time.

Beside a simulated device simjoin plans with its built-in cost table and reports the seconds of a virtual clock, which
follow from that table, the device's speed and what was taken by whom. So this measures the planner and the queue, on any
machine and always with the same figures; what a join really takes there, it does not say. The cost table itself is
measured by `techniques` and, with a GPU, by `hybrid`.
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
# The device's true speed over what the planner believes.
ACTUAL = (1, 0.5, 2)
CELLS = (
    ("acl_2grams", "0.9"), ("acl_2grams", "0.8"), ("debian_files", "0.5"), ("debian_deps_4suites", "0.5"),
)
# auto is to be so near to the best split.
NEAR = 1.1


def shares(speed: float) -> list[str]:
    """Returns the device shares to try: the one that its speed deserves, less, more, nothing and all."""
    due = 1 / (1 + speed)
    points = [1 - due * factor for factor in (0.25, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3)] + [0, 1]
    return [f"{point:g}" for point in sorted(set(points)) if 0 <= point <= 1]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.set_defaults(limit=60)


def run(context: Context, options: argparse.Namespace) -> Report:
    """Compares every split with every device."""
    result = table.Table(
        "The split beside simulated devices, in virtual time",
        ["dataset", "T", "speed", "actual", "share", "by", "best ms", "auto's share", "auto by", "auto ms",
         "auto/best", "slower", "auto/alone"],
        frozenset({"dataset", "by", "auto by"}),
        notes=[
            "One thread of the CPU beside a simulated device that the planner believes to have so many times the speed "
            "of a core. actual: its true speed over that. Times are those of the virtual clock.",
            "share: the device's part of the work (by pairs and tokens) in the best of up to eleven splits: those in "
            "which the CPU gets from a quarter to three times what the true speed would give it, nothing, or all. "
            "auto: --engine hybrid, which knows only what it believes, and what it sees.",
            "slower: the slower side alone over the faster one (the splits 0 and 1). Where that is at most "
            f"{WITHIN:g}, auto/alone is auto over the faster one.",
        ],
    )
    problems: list[str] = []
    # By whether the planner knows the speed.
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
            beside = auto.virtual / found.faster if found.slower <= WITHIN else None
            if beside is not None:
                alone.append(beside)
            say(f"{dataset} {threshold}, speed {speed:g}, actual {actual:g}: auto {ratio:.2f} times the best")
            result.add(
                dataset, threshold, f"{speed:g}", f"{actual:g}", best.split or "–", best.ran or "–",
                table.milliseconds(best.virtual), "–" if auto.device_share is None else f"{auto.device_share:.3f}",
                auto.ran or "–", table.milliseconds(auto.virtual), table.factor(ratio),
                table.factor(found.slower), table.factor(beside),
            )
    for known, word in ((True, "right"), (False, "half or twice the true one")):
        if ratios[known]:
            near = sum(ratio <= NEAR for ratio in ratios[known])
            result.summary.append(
                f"the speed is believed {word}: auto within {NEAR} times the best split in {near} of "
                f"{len(ratios[known])} cases (at most {max(ratios[known]):.2f} times)"
                + (", " + goal("all of them", near == len(ratios[known])) if known else "")
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
    """What was seen beside one device: the best split, auto, the slower side over the faster one, and the faster one's
    virtual seconds."""

    best: Timing
    auto: Timing
    slower: float
    faster: float


def times(
    context: Context, dataset: str, threshold: str, speed: float, actual: float
) -> tuple[Found | None, str | None]:
    """Returns the results of the best split and of auto with one device, and error messages."""
    path = data.set_file(context.folder, dataset)
    if path is None:
        return None, "not in the data folder"
    found: dict[str, Timing] = {}

    def take(timing: Timing) -> None:
        if timing.virtual is not None:
            found[timing.split or ""] = timing

    splits = [*shares(speed * actual), "auto"]
    # Virtual time is the same every time.
    words = [
        *bench.arguments(path, [threshold], 1, 1, context.limit),
        "--budget", "0", "--technique", "auto", "--engine", "hybrid", "--split", ",".join(splits),
    ]
    device = f"speed={speed:g},actual={actual:g}"
    wrong = bench.run(context.binary, words, dataset, take, {VARIABLE: device})
    if wrong or len(found) < len(splits):
        return None, wrong or "not every split came to its end"
    auto = found.pop("auto")
    best = min(found.values(), key=lambda timing: timing.virtual or 0.0)
    sides = sorted(found[side].virtual or 0.0 for side in ("0", "1"))
    return Found(best, auto, sides[1] / sides[0] if sides[0] else float("inf"), sides[0]), None
