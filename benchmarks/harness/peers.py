"""Installs and runs the tools that simjoin is compared with.

They have a virtual environment of their own, whose Python runs ``peer_worker.py``
for the driver.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import process
from .cells import Cell
from .paths import BENCHMARKS, CACHE, REQUIREMENTS, VENV

WORKER = Path(__file__).with_name("peer_worker.py")


@dataclass(frozen=True)
class Peer:
    """A tool from PyPI, the measures that it supports, and the steps that install it:
    each is a requirements file with further options of pip."""

    name: str
    short: str
    measures: frozenset[str]
    steps: tuple[tuple[str, tuple[str, ...]], ...]


PEERS = (
    Peer(
        "SetSimilaritySearch",
        "SSS",
        frozenset({"jaccard", "cosine"}),
        (("setsimilaritysearch.txt", ()),),
    ),
    Peer(
        "py_stringsimjoin",
        "PSJ",
        frozenset({"jaccard", "cosine", "dice", "overlap", "containment"}),
        (("build.txt", ()), ("py_stringsimjoin.txt", ("--no-build-isolation",))),
    ),
)

ROARING = Peer("pyroaring", "CRoaring", frozenset(), (("pyroaring.txt", ()),))


@dataclass(frozen=True)
class PeerOutcome:
    """The result of one run of a peer. ``state`` is ok, timeout, memory, error or unsupported;
    ``mirrored`` is the number of pairs with the larger row on the left, for a tool
    that joins two tables."""

    state: str
    seconds: float | None = None
    pairs: int | None = None
    mirrored: int | None = None
    note: str = ""

    @property
    def ok(self) -> bool:
        """Returns whether the run succeeded."""
        return self.state == "ok"


def python() -> Path:
    """Returns the Python of the peers' environment."""
    return VENV / "bin" / "python"


def create_environment(base: str) -> str | None:
    """Creates the virtual environment; returns an error message, if any."""
    if python().is_file():
        return None
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        finished = process.run([base, "-m", "venv", VENV])
    except OSError as error:
        return f"no virtual environment: {error.strerror}"
    return None if finished.code == 0 else f"no virtual environment: {finished.complaint}"


def fingerprint(peer: Peer) -> str:
    """Returns a hash of the requirements of a peer."""
    digest = hashlib.sha256()
    for name, options in peer.steps:
        digest.update((REQUIREMENTS / name).read_bytes() + " ".join(options).encode())
    return digest.hexdigest()


def install(peer: Peer) -> str | None:
    """Installs a peer unless that was done before; returns an error message, if any."""
    stamp = VENV / f"{peer.name}.stamp"
    wanted = fingerprint(peer)
    if stamp.is_file() and stamp.read_text() == wanted:
        return None
    print(f"installing {peer.name}", file=sys.stderr, flush=True)
    for name, options in peer.steps:
        command = [python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                   *options, "-r", f"requirements/{name}"]
        finished = process.run(command, limit=900, folder=BENCHMARKS)
        if finished.code is None:
            return "the installation ran out of time"
        if finished.code != 0:
            (CACHE / f"{peer.name}.log").write_text(finished.stdout + finished.stderr)
            return f"pip failed (see .cache/{peer.name}.log)"
    version = installed_version(peer)
    if version is None:
        return "installed, but cannot be imported"
    stamp.write_text(wanted)
    return None


def installed_version(peer: Peer) -> str | None:
    """Returns the version that the worker finds after importing the peer."""
    answer = ask(["version", peer.name], limit=120)
    return answer.get("version") if isinstance(answer.get("version"), str) else None


def prepare(base: str) -> dict[str, str | None]:
    """Installs all peers; returns for each the reason why it is missing, or None."""
    problem = create_environment(base)
    return {peer.name: problem or install(peer) for peer in PEERS}


def versions(missing: dict[str, str | None]) -> str:
    """Returns the versions of the peers in one line, and the reasons why some are missing."""
    parts = []
    for peer in PEERS:
        problem = missing.get(peer.name)
        parts.append(
            f"{peer.name} not installed: {problem}"
            if problem
            else f"{peer.name} {installed_version(peer) or 'unknown version'}"
        )
    return "; ".join(parts)


def ask(arguments: Sequence[str | Path], limit: float) -> dict[str, Any]:
    """Runs the worker and returns the JSON object it prints last."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    environment.pop("PYTHONPATH", None)
    try:
        finished = process.run(
            [python(), "-W", "ignore", WORKER, *arguments], limit, environment
        )
    except OSError as error:
        return {"state": "error", "note": str(error.strerror)}
    if finished.code is None:
        return {"state": "timeout"}
    lines = finished.stdout.strip().splitlines()
    try:
        answer = json.loads(lines[-1])
    except (IndexError, ValueError):
        return {"state": "error", "note": finished.complaint}
    return answer if isinstance(answer, dict) else {"state": "error", "note": "no JSON object"}


def run(peer: Peer, path: Path, cell: Cell, limit: float, memory_gib: float) -> PeerOutcome:
    """Runs one self-join with a peer. The limit includes loading the data."""
    if cell.measure not in peer.measures:
        return PeerOutcome("unsupported")
    answer = ask(
        ["join", peer.name, path, cell.measure, cell.threshold, str(memory_gib)], limit
    )
    return PeerOutcome(
        answer.get("state", "error"),
        answer.get("seconds"),
        answer.get("pairs"),
        answer.get("mirrored"),
        answer.get("note", ""),
    )


def intersect(left: Path, right: Path, runs: int, limit: float) -> PeerOutcome:
    """Returns the size of the intersection of two files of raw numbers, by CRoaring."""
    answer = ask(["intersect", left, right, str(runs)], limit)
    return PeerOutcome(
        answer.get("state", "error"), answer.get("seconds"), answer.get("pairs"),
        note=answer.get("note", ""),
    )


def exact_count(path: Path, cell: Cell, limit: float, memory_gib: float) -> int | None:
    """Returns the exact count, by a dense product over all pairs and decisions in integers;
    None if the collection is too large for that or numpy is missing."""
    answer = ask(["exact", path, cell.measure, cell.threshold, str(memory_gib)], limit)
    return answer.get("pairs") if answer.get("state") == "ok" else None

