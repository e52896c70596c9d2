"""Compares the techniques for every pair's overlap without a threshold."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from .. import simjoin, table
from ..context import Context, Report, say
from ..paths import GENERATED
from .sparse import number

SETS = "10K"
# In the likeness of the literature's collections: average size and universe.
KINDS = {
    "bms": (17, 1_657),
    "words": (2_021, 11_000),
    "enron": (258, 1_100_000),
    "orkut": (905, 8_700_000),
}
TECHNIQUES = ("auto", "index", "bitmap", "product")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.set_defaults(limit=120.0, runs=2)
    parser.add_argument(
        "--sets", type=number, default=number(SETS), metavar="N",
        help=f"number of sets of each collection; may end with K or M (default: {SETS})",
    )


def file(kind: str, sets: int) -> Path:
    """Where a collection lies."""
    return GENERATED / f"{kind}-like-{sets}.txt"


def run(context: Context, options: argparse.Namespace) -> Report:
    """Times every technique on every collection."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    result = table.Table(
        "All overlaps of a collection with itself",
        ["collection", "sets", "size", "universe", "technique", "ran", "bits", "s", "pairs/s", "positive"],
        frozenset({"collection", "technique", "ran"}),
        notes=[
            "Made by simjoin generate zipf (seed 1), in the likeness of the literature's collections.",
            f"Seconds of counting on {cores} threads, the best of {context.runs} runs; pairs/s: all pairs "
            "over them. bits: columns of the bit matrix. positive: pairs with something in common.",
        ],
    )
    problems: list[str] = []
    for kind, (size, universe) in KINDS.items():
        if context.datasets is not None and kind not in context.datasets:
            continue
        path = file(kind, options.sets)
        wrong = simjoin.generate(
            context.binary,
            lambda to: ["generate", "zipf", "--sets", str(options.sets), "--universe", str(universe),
                        "--size", str(size), "-q", "-o", to],
            path,
        )
        if wrong:
            problems.append(f"{kind}: {wrong}")
            continue
        counts: dict[str, int] = {}
        pairs = options.sets * (options.sets - 1) // 2
        for technique in TECHNIQUES:
            best: simjoin.Outcome | None = None
            for _ in range(context.runs):
                say(f"{kind}: {technique}")
                outcome = simjoin.run(
                    context.binary,
                    ["overlaps", path, "--positive", "--technique", technique,
                     "--threads", str(cores), "--memory", "8G"],
                    context.limit,
                )
                if not outcome.ok:
                    best = best or outcome
                    break
                if best is None or (outcome.phase("join") or 0) < (best.phase("join") or 0):
                    best = outcome
            assert best is not None
            seconds = best.phase("join")
            if best.pairs is None or seconds is None:
                said = f">{context.limit:g}" if best.state == "timeout" else best.state
                result.add(kind, table.count(options.sets), table.count(size), table.count(universe),
                           technique, "–", "–", said, "–", "–")
                if best.state != "timeout":
                    problems.append(f"{kind}, {technique}: {best.note}")
                continue
            counts[technique] = best.pairs
            result.add(
                kind, table.count(options.sets), table.count(size), table.count(universe), technique,
                str(best.stats.get("technique")), table.count(best.stats.get("bits")),
                table.seconds(seconds), f"{pairs / max(seconds, 1e-9):.2e}", table.count(best.pairs),
            )
        if len(set(counts.values())) > 1:
            problems.append(f"{kind}: counts disagree: {counts}")
    result.summary += problems or ["All techniques find the same."]
    return Report(result, 1 if problems else 0)
