"""Compares the intersection of two large sets by techniques, tiers and threads with CRoaring."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .. import peers, process, simjoin, table
from ..context import Context, Report, say
from ..paths import GENERATED, SCRATCH
from .techniques import goal

# The goals: times as fast as the plain merge in the first case; share of the reading rate in the largest case.
TIMES_MERGE = 3.0
SHARE = 0.6


@dataclass(frozen=True)
class Case:
    """Two generated sets: their distribution, universe and approximate sizes."""

    law: str
    universe: str
    sizes: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.law} {self.universe}, {self.sizes[0]} and {self.sizes[1]}"

    def path(self, number: int) -> Path:
        """Returns the path of one of the two sets."""
        return GENERATED / f"{self.law}-{self.universe}-{self.sizes[number]}-{number + 1}.u32"

    def arguments(self, number: int, path: Path) -> list[str | Path]:
        """Returns the arguments of its generator."""
        return ["generate", self.law, "--sets", "1", "--universe", self.universe,
                "--size", self.sizes[number], "--seed", str(number + 1), "-q", "-o", path]


CASES = (
    Case("uniform", "1G", ("10M", "10M")),
    Case("uniform", "100M", ("10M", "10M")),
    Case("normal", "1G", ("10M", "10M")),
    Case("zipf", "1G", ("10M", "10M")),
    Case("uniform", "20M", ("10M", "10M")),
    Case("uniform", "1G", ("1M", "10M")),
    Case("uniform", "1G", ("1K", "10M")),
)
# A case that no processor's cache can hold; some hold sets of ten million.
LARGE = Case("uniform", "4G", ("100M", "100M"))


@dataclass(frozen=True)
class Configuration:
    """A technique, a tier and a number of threads."""

    technique: str
    tier: str
    threads: int


@dataclass(frozen=True)
class Times:
    """The seconds of counting, those of only reading both sets, and the size of the intersection."""

    count: float
    read: float
    size: int


def configurations(tiers: list[str], cores: int) -> list[Configuration]:
    """Returns the configurations: first the plain merge, then every technique on one core, then all cores."""
    best = tiers[-1]
    all_configurations = [Configuration(name, "scalar", 1) for name in ("merge", "gallop", "bitmap")]
    all_configurations += [Configuration("blocks", tier, 1) for tier in tiers if tier != "scalar"]
    all_configurations += [Configuration("auto", best, 1)]
    return all_configurations + ([Configuration("auto", best, cores)] if cores > 1 else [])


def repeats(case: Case, configuration: Configuration, runs: int) -> int:
    """Returns the number of repetitions. Short runs are disturbed more easily, so they are repeated more often."""
    each = runs if configuration.technique in ("merge", "gallop", "bitmap") else 10 * runs
    return max(3, each // 10) if case == LARGE else each


def parse(text: str) -> Times | None:
    """Reads the output of --stats."""
    try:
        stats = json.loads(text)
        again = stats["repeated"]
        return Times(float(again["count"]), float(again["read"]), int(stats["size"]))
    except (ValueError, KeyError, TypeError):
        return None


def measure(context: Context, case: Case, configuration: Configuration) -> Times | str:
    """Runs one process that counts several times; returns its result or an error message."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        stats = Path(folder) / "stats.json"
        finished = process.run(
            [context.binary, "intersect", case.path(0), case.path(1), "--quiet",
             "--technique", configuration.technique, "--threads", str(configuration.threads),
             "--repeat", str(repeats(case, configuration, context.runs)), "--stats", stats],
            context.limit, {**os.environ, simjoin.TIER_VARIABLE: configuration.tier},
        )
        if finished.code != 0:
            return "ran out of time" if finished.code is None else finished.complaint
        return parse(stats.read_text()) or "--stats wrote no times"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.set_defaults(runs=35)
    parser.add_argument("--quick", action="store_true", help="only the first case")
    parser.add_argument("--no-peers", action="store_true", help="without CRoaring")
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON",
                        help="the Python of the peers' environment (default: this one)")


def run(context: Context, options: argparse.Namespace) -> Report:
    """Times every configuration on every case."""
    result = table.Table(
        "The intersection of two large sets",
        ["sets", "common", "technique", "tier", "threads", "ms", "merge/", "GB/s", "of reading"],
        frozenset({"sets", "technique", "tier"}),
        notes=[
            "Sets in memory, the shortest of several counts in one process. merge/: times as fast as the "
            "plain merge on one core. GB/s: bytes of both sets.",
            "of reading: the rate, as a share of the rate of a loop that only reads both sets on the same threads, "
            "in the same process.",
            "CRoaring holds the sets in its own compressed form, which is built before the time is taken.",
        ],
    )
    missing = "left out"
    if not options.no_peers:
        missing = peers.create_environment(options.peer_python) or peers.install(peers.ROARING) or ""
    refused = simjoin.refusals(context.binary)
    tiers = [tier for tier in simjoin.TIERS if tier not in refused]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    problems: list[str] = []
    for case in CASES[:1] if options.quick else (*CASES, LARGE):
        errors = [simjoin.generate(context.binary, lambda path, n=n: case.arguments(n, path), case.path(n))
                  for n in (0, 1)]
        if any(errors):
            problems += [f"{case}: {wrong}" for wrong in errors if wrong]
            continue
        size_of = sum(case.path(number).stat().st_size for number in (0, 1))
        merge: float | None = None
        best: float | None = None
        sizes: set[int] = set()

        def row(names: tuple[str, str, str], seconds: float, share: str, common: int) -> None:
            times = merge / seconds if merge else None
            result.add(str(case), table.count(common), *names, f"{1e3 * seconds:.2f}",
                       table.factor(times), f"{size_of / seconds / 1e9:.1f}", share)

        for configuration in configurations(tiers, cores):
            say(f"{case}: {configuration.technique} {configuration.tier}, {configuration.threads}")
            found = measure(context, case, configuration)
            if isinstance(found, str):
                problems.append(f"{case}, {configuration.technique} {configuration.tier}: {found}")
                continue
            sizes.add(found.size)
            merge = found.count if configuration.technique == "merge" else merge
            if configuration.threads == 1 and configuration.technique != "merge":
                best = min(best or found.count, found.count)
            share = found.read / found.count
            row((configuration.technique, configuration.tier, str(configuration.threads)), found.count,
                f"{100 * share:.0f} %", found.size)
            if case == LARGE and configuration.threads == cores:
                result.summary.append(
                    f"{case}, all cores: {100 * share:.0f} % of the rate of reading, "
                    + goal("≥ 60 %", share >= SHARE)
                )
        if not missing:
            runs = repeats(case, Configuration("CRoaring", "", 1), context.runs)
            other = peers.intersect(case.path(0), case.path(1), runs, context.limit)
            if other.ok and other.seconds and other.pairs is not None:
                sizes.add(other.pairs)
                row(("CRoaring", "its own", "1"), other.seconds, "–", other.pairs)
            else:
                problems.append(f"{case}, CRoaring: {other.state} {other.note}")
        if case == CASES[0] and merge and best:
            result.summary.insert(0, f"{case}: the best on one core is {merge / best:.1f} times as fast "
                                  "as the plain merge, " + goal("≥ 3", merge / best >= TIMES_MERGE))
        if len(sizes) > 1:
            problems.append(f"{case}: sizes disagree: {sorted(sizes)}")
    if missing:
        result.notes.append(f"CRoaring: {missing}")
    result.summary += problems
    facts = () if missing else (("CRoaring", f"pyroaring {peers.installed_version(peers.ROARING)}"),)
    return Report(result, 1 if problems else 0, facts)
