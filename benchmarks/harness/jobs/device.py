"""Compares the techniques of a GPU with those of the CPU: seconds to all pairs, and of each stage."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from .. import bench, data, process, simjoin, statistics, table
from ..bench import Timing
from ..cells import Cell
from ..context import Context, Report, say
from ..paths import CACHE, GENERATED
from ..simjoin import AUTO
from .sparse import Tables
from .techniques import goal

TECHNIQUES = (
    AUTO, "gpu-bitmap:256", "gpu-bitmap:512", "gpu-bitmap:1024", "gpu-prefix",
    "gpu-verify:ppjoin", "gpu-verify:group-join",
)
GPU, CPU = "gpu", "cpu"
# Pairs of 256 bits that the binary tensor cores of an H200 compare per second, by mma.
CEILING = 2.0e13
TITLES = 300_000
# The goals of the filter alone: pairs to compare per second on an H200, by bits.
FILTER_GOALS = {256: 5.0e12, 512: None, 1024: 3.0e12, 2048: None}
FILTER_WORKLOAD, FILTER_THRESHOLD = "dblp_like", "0.9"


@dataclass(frozen=True)
class Workload:
    """A collection, and the goals of its joins: seconds on an H200 at each threshold."""

    name: str
    goals: tuple[tuple[str, float], ...]
    tokens: str | None = None
    # The number of sets, the universe and the mean size of a generated collection.
    zipf: tuple[int, int, int] | None = None
    # A real collection, and the factor by which it is inflated.
    inflate: tuple[str, int] | None = None

    def path(self, context: Context) -> Path | str:
        """Returns the file, which is generated if needed, or an error message."""
        if self.zipf:
            sets, universe, size = self.zipf
            path = GENERATED / f"zipf-{sets}-{universe}-{size}-seed1.txt"
            wrong = simjoin.generate(
                context.binary,
                lambda to: ["generate", "zipf", "--sets", str(sets), "--universe", str(universe),
                            "--size", str(size), "--seed", "1", "-o", to],
                path,
            )
            return wrong or path
        if self.inflate:
            name, times = self.inflate
            real = data.set_file(context.folder, name)
            if real is None:
                return "not in the data folder"
            path = GENERATED / f"{name}-{times}.txt"
            wrong = simjoin.generate(
                context.binary,
                lambda to: ["generate", "inflate", str(real), "--times", str(times), "-o", to],
                path,
            )
            return wrong or path
        if self.tokens:
            return titles(context)
        return data.set_file(context.folder, self.name) or "not in the data folder"


WORKLOADS = (
    Workload("acl_2grams", (("0.8", 0.015), ("0.5", 0.030))),
    Workload("reddit_300k", (("0.5", 0.040),), tokens="words"),
    Workload("dblp_like", (("0.9", 0.5), ("0.5", 2.0)), zipf=(1_000_000, 15_000, 88)),
    Workload("lvj_like", (("0.7", 2.0),), zipf=(3_000_000, 7_500_000, 36)),
)


def titles(context: Context) -> Path | str:
    """Returns the first titles of the text file, or an error message."""
    whole = data.text_file(context.folder, "reddit_titles_400k")
    if whole is None:
        return "not in the data folder"
    path = CACHE / f"reddit_titles_{TITLES}.txt"
    if not path.is_file():
        unfinished = path.with_suffix(".part")
        with whole.open("rb") as lines, unfinished.open("wb") as out:
            out.writelines(islice(lines, TITLES))
        os.replace(unfinished, path)
    return path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.set_defaults(limit=60.0, runs=5)
    parser.add_argument(
        "--techniques", default=",".join(TECHNIQUES), metavar="LIST",
        help="techniques of the GPU, comma-separated (default: %(default)s)",
    )


def device_name(context: Context) -> str:
    """Returns the name of the first GPU; raises Unavailable if there is none."""
    listed = process.run([context.binary, "devices"], limit=60)
    if listed.code != 0:
        raise simjoin.Unavailable(listed.complaint)
    return listed.stdout.splitlines()[1].split("\t")[1]


def run(context: Context, options: argparse.Namespace) -> Report:
    """Times every workload on the GPU and on the CPU."""
    device = device_name(context)
    cores = os.cpu_count() or 1
    result = device_table(device, cores)
    problems: list[str] = []
    for workload in WORKLOADS:
        if context.datasets is not None and workload.name not in context.datasets:
            continue
        path = workload.path(context)
        if isinstance(path, str):
            problems.append(f"{workload.name}: {path}")
            continue
        problems += measure(context, workload, path, options.techniques, cores, result)
        wanted = context.thresholds is None or FILTER_THRESHOLD in context.thresholds
        if workload.name == FILTER_WORKLOAD and wanted:
            result.below.append(filter_table(context, workload, path, problems))
    result.summary += problems
    return Report(result, 1 if problems else 0, (("device", device),))


def filter_table(
    context: Context, workload: Workload, path: Path, problems: list[str]
) -> table.Table:
    """Times the filter of gpu-bitmap with one stream, so that nothing else is timed."""
    result = table.Table(
        "The tensor-core filter alone",
        ["bits", "compared", "filter", "compared/s", "ceiling", "goal"],
        notes=[
            f"{workload.name} at Jaccard {FILTER_THRESHOLD}, where almost nothing survives, on one "
            "stream: the pairs of all tiles that the length filter leaves, and the milliseconds of "
            "their kernels.",
        ],
    )
    timings: list[Timing] = []
    names = ",".join(f"gpu-bitmap:{bits}" for bits in FILTER_GOALS)
    words = [
        *bench.arguments(path, [FILTER_THRESHOLD], 1, context.runs, context.limit),
        "--engine", GPU, "--technique", names,
    ]
    wrong = bench.run(context.binary, words, workload.name, timings.append)
    if wrong:
        problems.append(f"{workload.name}, filter alone: {wrong}")
    for timing in timings:
        device = timing.device or {}
        rate = statistics.ratio(device.get("compared"), device.get("filter"))
        if rate is None:
            continue
        bits = int(timing.technique.partition(":")[2])
        wanted = FILTER_GOALS[bits]
        result.add(
            str(bits), f"{device['compared']:.2e}", table.milliseconds(device["filter"]),
            f"{rate:.2e}", f"{100 * rate * bits / 256 / CEILING:.0f} %",
            "–" if wanted is None else goal(f"≥ {wanted:.0e}", rate >= wanted),
        )
    return result


def measure(
    context: Context, workload: Workload, path: Path, techniques: str, cores: int,
    result: table.Table,
) -> list[str]:
    """Times one workload, and adds a row for each technique; returns error messages."""
    goals = dict(workload.goals)
    asked = [
        one for one in goals if context.thresholds is None or one in context.thresholds
    ]
    if not asked:
        return []
    found: dict[tuple[str, str, str], Timing] = {}
    problems = []
    for engine, names in ((GPU, techniques), (CPU, AUTO)):
        def receive(timing: Timing, engine: str = engine) -> None:
            say(f"{timing.cell}: {engine} {timing.technique} {table.milliseconds(timing.join)} ms")
            found[timing.cell.threshold, engine, timing.technique] = timing

        words = [
            *bench.arguments(path, asked, cores, context.runs, context.limit),
            "--engine", engine, "--technique", names, "--pairs",
            *(["--tokens", workload.tokens] if workload.tokens else []),
        ]
        wrong = bench.run(context.binary, words, workload.name, receive)
        if wrong:
            problems.append(f"{workload.name}, {engine}: {wrong}")
    for threshold in asked:
        rows = {key[1:]: one for key, one in found.items() if key[0] == threshold}
        problems += disagreements(Cell(workload.name, "jaccard", threshold), rows)
        cpu = rows.get((CPU, AUTO))
        for (engine, _), timing in rows.items():
            add_row(result, engine, timing, cpu)
        times = [
            one.join for (engine, _), one in rows.items() if engine == GPU and one.join is not None
        ]
        if times:
            limit = goals[threshold]
            result.summary.append(
                f"{workload.name} {threshold}: {table.milliseconds(min(times))} ms, "
                + goal(f"≤ {limit * 1000:g} ms", min(times) <= limit)
            )
    return problems


def disagreements(cell: Cell, rows: Mapping[tuple[str, str], Timing]) -> list[str]:
    """Returns a line if the counts of pairs differ."""
    counts = {key: one.pairs for key, one in rows.items() if one.pairs is not None}
    if len(set(counts.values())) <= 1:
        return []
    listed = ", ".join(f"{engine} {name} {pairs:,}" for (engine, name), pairs in counts.items())
    return [f"{cell}: the counts DISAGREE: {listed}"]


def device_table(device: str, cores: int) -> Tables:
    """Returns the table without rows."""
    return Tables(
        "Techniques of the GPU",
        ["dataset", "T", "engine", "technique", "ran", "pairs", "candidates", "total", "compared/s", "ceiling",
         "filter", "verify", "copies", "host", "waited", "hidden", "CPU/this"],
        frozenset({"dataset", "engine", "technique", "ran"}),
        notes=[
            f"{device}; the CPU engine on its {cores} cores. Self-joins by Jaccard, simjoin bench "
            "--pairs.",
            "total: milliseconds of the shortest run from a collection in memory to all pairs "
            "in host memory, including all transfers.",
            "filter, verify, copies: milliseconds on the device, summed over the workers' streams, "
            "of the last run; streams that share the device count its time twice. host: "
            "milliseconds of the host's threads; waited: milliseconds in which they waited for the device.",
            "compared/s: pairs that the filter compared (gpu-prefix: entries of lists), divided by the "
            "seconds of the filter. ceiling: the share of the rate at which binary tensor cores compare by "
            f"mma on an H200, {CEILING:.0e} pairs of 256 bits a second.",
            "hidden: the share of the device's time in which the host thread of its worker was busy.",
        ],
    )


def add_row(result: table.Table, engine: str, timing: Timing, cpu: Timing | None) -> None:
    """Adds the row of one technique on one workload."""
    device = timing.device or {}
    rate = statistics.ratio(device.get("compared"), device.get("filter") or None)
    bits = timing.technique.partition(":")[2]
    share = rate * int(bits) / 256 / CEILING if rate and bits.isdigit() else None

    def stage(name: str) -> str:
        return table.milliseconds(device[name]) if name in device else "–"

    hidden = device.get("hidden")
    result.add(
        timing.cell.dataset, timing.cell.threshold, engine, timing.technique, timing.ran or "–",
        table.count(timing.pairs), table.count(timing.candidates), table.milliseconds(timing.join),
        "–" if not rate else f"{rate:.2e}", "–" if share is None else f"{100 * share:.0f} %",
        stage("filter"), stage("verify"), stage("copies"), stage("host"), stage("waited"),
        "–" if hidden is None else f"{100 * hidden:.0f} %",
        table.factor(statistics.ratio(cpu.join if cpu else None, timing.join)),
    )
