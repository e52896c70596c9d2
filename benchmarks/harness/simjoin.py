"""Builds and runs simjoin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import process
from .cells import Cell
from .paths import REPOSITORY, SCRATCH

AUTO = "auto"
TIER_VARIABLE = "SIMJOIN_SIMD"
DEFAULT_TIER = "default"
TIERS = ("scalar", "avx2", "avx512", "neon")


class Unavailable(Exception):
    """simjoin could not be built or started."""


@dataclass(frozen=True)
class Outcome:
    """The result of one run. ``state`` is ok, timeout or error. ``wall`` are the seconds
    of the whole process; ``phases`` are the seconds in its --stats. ``peak`` is the
    largest resident memory in bytes, if it was measured."""

    state: str
    wall: float | None = None
    pairs: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    peak: int | None = None

    @property
    def ok(self) -> bool:
        """Returns whether the run succeeded."""
        return self.state == "ok"

    def phase(self, name: str) -> float | None:
        """Returns the seconds of a phase, if the statistics have it."""
        return self.phases.get(name)


def build() -> Path:
    """Builds the release binary with cargo and returns it."""
    print("building simjoin (cargo build --release)", file=sys.stderr, flush=True)
    try:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=REPOSITORY, check=True)
    except FileNotFoundError:
        raise Unavailable("cargo is not installed; name a binary with --simjoin PATH") from None
    except subprocess.CalledProcessError:
        raise Unavailable("cargo build --release failed") from None
    target = REPOSITORY / os.environ.get("CARGO_TARGET_DIR", "target")
    return find(str(target / "release" / "simjoin"))


def find(path: str) -> Path:
    """Returns the absolute path of the given binary."""
    binary = Path(path).expanduser().resolve()
    if not (binary.is_file() and os.access(binary, os.X_OK)):
        raise Unavailable(f"{path} is not an executable file")
    return binary


def version(binary: Path) -> str:
    """Returns the output of ``simjoin --version``."""
    try:
        finished = process.run([binary, "--version"], limit=30)
    except OSError as error:
        raise Unavailable(f"simjoin does not start: {error.strerror}") from None
    first = finished.stdout.strip().splitlines()
    return first[0] if finished.code == 0 and first else "unknown version"


def read_outcome(finished: process.Finished, stats_text: str) -> Outcome:
    """Returns the outcome of a process from its end and the output of --stats."""
    if finished.code is None:
        return Outcome("timeout", note="ran out of time")
    if finished.code != 0:
        return Outcome("error", note=finished.complaint)
    try:
        pairs = int(finished.stdout.strip())
    except ValueError:
        return Outcome("error", note=f"--count printed {finished.stdout[:60]!r}")
    try:
        stats = json.loads(stats_text)
        phases = {name: float(value) for name, value in stats["seconds"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return Outcome("error", note="--stats wrote no JSON with a seconds object")
    return Outcome("ok", finished.wall, pairs, phases, stats, peak=finished.peak)


def environment(tier: str) -> dict[str, str] | None:
    """Returns the environment that selects a tier; None, the driver's environment, for the default."""
    return None if tier == DEFAULT_TIER else {**os.environ, TIER_VARIABLE: tier}


def run(
    binary: Path,
    arguments: Sequence[str | Path],
    limit: float,
    tier: str = DEFAULT_TIER,
    peak: bool = False,
) -> Outcome:
    """Runs simjoin with --count, --quiet and --stats added; ``peak`` also measures its memory."""
    start = process.run_with_peak if peak else process.run
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        stats = Path(folder) / "stats.json"
        command = [binary, *arguments, "--count", "--quiet", "--stats", stats]
        finished = start(command, limit, environment(tier))
        return read_outcome(finished, stats.read_text() if stats.is_file() else "")


def set_arguments(path: Path, cell: Cell, technique: str, threads: int) -> list[str | Path]:
    """Returns the arguments of a self-join of a set file."""
    arguments: list[str | Path] = ["sets", path, f"--{cell.measure}", cell.threshold]
    if technique != AUTO:
        arguments += ["--technique", technique]
    return arguments + ["--threads", str(threads)]


def join_sets(
    binary: Path, path: Path, cell: Cell, technique: str, threads: int, limit: float,
    tier: str = DEFAULT_TIER,
) -> Outcome:
    """Runs one self-join of a set file."""
    return run(binary, set_arguments(path, cell, technique, threads), limit, tier)


def generate(
    binary: Path, arguments: Callable[[Path], Sequence[str | Path]], path: Path
) -> str | None:
    """Generates a collection with ``simjoin generate`` unless it exists; returns an error
    message, if any."""
    if path.is_file():
        return None
    print(f"generating {path.name}", file=sys.stderr, flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The ending stays .txt, because it names the format.
    unfinished = path.with_name(f"unfinished-{path.name}")
    finished = process.run([binary, *arguments(unfinished)])
    if finished.code != 0:
        unfinished.unlink(missing_ok=True)
        return f"simjoin generate: {finished.complaint}"
    os.replace(unfinished, path)
    return None


def refusals(binary: Path, tiers: Iterable[str] = TIERS) -> dict[str, str]:
    """Returns the tiers that simjoin refuses on this machine, each with its message. Each
    is tried on a file of two sets."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        path = Path(folder) / "two.txt"
        path.write_text("1 2 3\n1 2 3\n")
        arguments = set_arguments(path, Cell("two", "jaccard", "0.5"), AUTO, 1)
        tried = {tier: run(binary, arguments, 30, tier) for tier in tiers}
    return {tier: outcome.note for tier, outcome in tried.items() if not outcome.ok}
