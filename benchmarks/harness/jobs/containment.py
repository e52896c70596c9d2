"""Compares the techniques for containment joins with the others."""

from __future__ import annotations

import argparse
import os

from .. import bench, data, table
from ..bench import Timing
from ..context import Context, Report, say

DATASETS = ("debian_files", "debian_deps_4suites", "retail")
THRESHOLDS = ("1", "0.8")
TECHNIQUES = ("auto", "lcjoin", "mmjoin", "prefix-bitmap", "ppjoin", "all-pairs", "group-join",
              "skip-join", "naive")


def techniques(threshold: str, naive: bool) -> list[str]:
    """Returns the techniques that support a threshold: lcjoin only supports containment 1."""
    left_out = ({"lcjoin"} if threshold != "1" else set()) | (set() if naive else {"naive"})
    return [name for name in TECHNIQUES if name not in left_out]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.set_defaults(limit=60.0)
    parser.add_argument("--naive", action="store_true", help="also run naive, up to the limit")


def run(context: Context, options: argparse.Namespace) -> Report:
    """Times every technique on every file."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    result = table.Table(
        "Containment joins of a file with itself",
        ["dataset", "T", "technique", "ran", "s", "auto/", "pairs"],
        frozenset({"dataset", "technique", "ran"}),
        notes=[
            f"Seconds of the join alone, counting, on {cores} threads, by simjoin bench. auto/: the seconds of "
            "auto divided by its seconds. T = 1: all pairs of a set and a set that contains it.",
        ],
    )
    problems: list[str] = []
    for dataset in DATASETS:
        if context.datasets is not None and dataset not in context.datasets:
            continue
        path = data.set_file(context.folder, dataset)
        if path is None:
            problems.append(f"{dataset}: not in the data folder")
            continue
        for threshold in THRESHOLDS:
            if context.thresholds is not None and threshold not in context.thresholds:
                continue
            found: list[Timing] = []
            say(f"{dataset} {threshold}")
            words = ["bench", str(path), "--containment", threshold, "--threads", str(cores),
                     "--repeat", str(context.runs), "--limit", f"{context.limit:g}", "--json",
                     "--technique", ",".join(techniques(threshold, options.naive))]
            wrong = bench.run(context.binary, words, dataset, found.append)
            if wrong:
                problems.append(f"{dataset} {threshold}: {wrong}")
            auto = next((one.join for one in found if one.technique == "auto"), None)
            for one in found:
                ratio = auto / one.join if auto and one.join else None
                result.add(
                    dataset, threshold, one.technique, one.ran or "–",
                    table.seconds(one.join) if one.join is not None else f">{context.limit:g}",
                    table.factor(ratio), table.count(one.pairs),
                )
            counts = {one.pairs for one in found if one.pairs is not None}
            if len(counts) > 1:
                problems.append(f"{dataset} {threshold}: counts disagree: {sorted(counts)}")
    result.summary += problems or ["All techniques find the same number of pairs."]
    return Report(result, 1 if problems else 0)
