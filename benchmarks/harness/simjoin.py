"""Building and running simjoin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import process
from .cells import Cell
from .paths import REPOSITORY, SCRATCH

AUTO = "auto"


class Unavailable(Exception):
    """simjoin could not be built or started."""


@dataclass(frozen=True)
class Outcome:
    """One run. ``wall`` is the whole process; ``phases`` are the seconds of its
    own --stats. ``state`` is ok, timeout or error."""

    state: str
    wall: float | None = None
    pairs: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the run gave an answer."""
        return self.state == "ok"

    def phase(self, name: str) -> float | None:
        """Seconds of a phase, where the statistics have it."""
        return self.phases.get(name)


def build() -> Path:
    """Builds the release binary with cargo and returns it."""
    print("building simjoin (cargo build --release)", file=sys.stderr, flush=True)
    try:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=REPOSITORY, check=True)
    except FileNotFoundError:
        raise Unavailable("cargo is not installed; give a binary with --simjoin PATH") from None
    except subprocess.CalledProcessError:
        raise Unavailable("cargo build --release failed") from None
    target = REPOSITORY / os.environ.get("CARGO_TARGET_DIR", "target")
    return find(str(target / "release" / "simjoin"))


def find(path: str) -> Path:
    """The given binary, made absolute."""
    binary = Path(path).expanduser().resolve()
    if not (binary.is_file() and os.access(binary, os.X_OK)):
        raise Unavailable(f"{path} is not a program")
    return binary


def version(binary: Path) -> str:
    """What ``simjoin --version`` says."""
    try:
        finished = process.run([binary, "--version"], limit=30)
    except OSError as error:
        raise Unavailable(f"simjoin does not start: {error.strerror}") from None
    first = finished.stdout.strip().splitlines()
    return first[0] if finished.code == 0 and first else "unknown version"


def read_outcome(finished: process.Finished, stats_text: str) -> Outcome:
    """Makes an outcome of how the process ended and what --stats wrote."""
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
    return Outcome("ok", finished.wall, pairs, phases, stats)


def run(binary: Path, arguments: Sequence[str | Path], limit: float) -> Outcome:
    """Runs simjoin with --count, --quiet and --stats added."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        stats = Path(folder) / "stats.json"
        command = [binary, *arguments, "--count", "--quiet", "--stats", stats]
        finished = process.run(command, limit)
        return read_outcome(finished, stats.read_text() if stats.is_file() else "")


def set_arguments(path: Path, cell: Cell, technique: str, threads: int) -> list[str | Path]:
    """The arguments of a self-join over a set file."""
    arguments: list[str | Path] = ["sets", path, f"--{cell.measure}", cell.threshold]
    if technique != AUTO:
        arguments += ["--technique", technique]
    return arguments + ["--threads", str(threads)]


def join_sets(
    binary: Path, path: Path, cell: Cell, technique: str, threads: int, limit: float
) -> Outcome:
    """Runs one self-join over a set file."""
    return run(binary, set_arguments(path, cell, technique, threads), limit)
