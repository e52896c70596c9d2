"""Finds, unpacks and reads the benchmark data."""

from __future__ import annotations

import lzma
import os
import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from .cells import Cell
from .paths import DEFAULT_DATA, UNPACKED

ENVIRONMENT = "SIMJOIN_DATA"
# Cases that are timed concurrently may need the same file.
UNPACKING = threading.Lock()
REFERENCE_TECHNIQUES = {"allpairs": "all-pairs", "ppjoin": "ppjoin", "groupjoin": "group-join"}


@dataclass(frozen=True)
class ReferenceCell:
    """A line of reference-cpp.tsv."""

    cell: Cell
    technique: str
    pairs: int
    prepare_ms: int
    index_ms: int
    join_ms: int


def locate(option: str | None) -> Path | None:
    """Returns the data folder: that of the option, of the environment, or the default."""
    chosen = option or os.environ.get(ENVIRONMENT)
    folder = Path(chosen).expanduser() if chosen else DEFAULT_DATA
    return folder if folder.is_dir() else None


def is_current(packed: Path, unpacked: Path, stamp: Path) -> bool:
    """Returns whether the unpacked copy is complete and was made from this packed file."""
    if not (unpacked.is_file() and stamp.is_file()):
        return False
    return stamp.read_text() == stamp_text(packed, unpacked)


def stamp_text(packed: Path, unpacked: Path) -> str:
    """Returns the size and time of the packed file and the size of the unpacked one."""
    source = packed.stat()
    return f"{source.st_size} {source.st_mtime_ns} {unpacked.stat().st_size}\n"


def unpack(packed: Path, unpacked: Path) -> bool:
    """Unpacks an .xz file unless that was done before; returns whether it did. Threads wait for each other."""
    with UNPACKING:
        return unpack_locked(packed, unpacked)


def unpack_locked(packed: Path, unpacked: Path) -> bool:
    """Unpacks a file; the caller holds the lock."""
    stamp = unpacked.with_name(unpacked.name + ".stamp")
    if is_current(packed, unpacked, stamp):
        return False
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    partial = unpacked.with_name(unpacked.name + ".partial")
    with lzma.open(packed) as source, open(partial, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    os.replace(partial, unpacked)
    stamp.write_text(stamp_text(packed, unpacked))
    return True


def prepare(folder: Path, names: Iterable[str] | None = None) -> list[Path]:
    """Unpacks the .xz files of the data folder, or only those whose relative
    name without .xz is listed, and returns the unpacked paths."""
    wanted = None if names is None else set(names)
    result = []
    for packed in sorted(folder.rglob("*.xz")):
        name = packed.relative_to(folder).as_posix().removesuffix(".xz")
        if wanted is not None and name not in wanted:
            continue
        target = UNPACKED / name
        unpack(packed, target)
        result.append(target)
    return result


def set_names(folder: Path) -> list[str]:
    """Returns the names of all set collections."""
    return sorted(path.name.removesuffix(".txt.xz") for path in folder.glob("sets/*.txt.xz"))


def set_file(folder: Path, dataset: str) -> Path | None:
    """Returns the unpacked file of a set collection, or None if there is none."""
    found = prepare(folder, [f"sets/{dataset}.txt"])
    return found[0] if found else None


def text_file(folder: Path, name: str) -> Path | None:
    """Returns the unpacked file of a text collection, or None if there is none."""
    found = prepare(folder, [f"text/{name}.txt"])
    return found[0] if found else None


def rows(text: str, columns: list[str], name: str) -> list[list[str]]:
    """Returns the fields of a TSV text after its header, which must have these columns."""
    lines = [line.split("\t") for line in text.splitlines() if line.strip()]
    if not lines or lines[0] != columns:
        raise ValueError(f"{name}: the header must be {' '.join(columns)}")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(columns):
            raise ValueError(f"{name}: line {number} has {len(line)} fields, not {len(columns)}")
    return lines[1:]


def parse_expected(text: str) -> dict[Cell, int]:
    """Returns the exact counts of pairs by cell, from the text of expected.tsv."""
    columns = ["file", "join", "measure", "threshold", "pairs"]
    return {
        Cell(file.removesuffix(".txt"), measure, threshold): int(pairs)
        for file, join, measure, threshold, pairs in rows(text, columns, "expected.tsv")
        if join == "self"
    }


def parse_reference(text: str) -> list[ReferenceCell]:
    """Returns the times of the C++ code, from the text of reference-cpp.tsv."""
    columns = ["file", "jaccard", "algorithm", "pairs", "prepare_ms", "index_ms", "join_ms"]
    return [
        ReferenceCell(
            Cell(file.removesuffix(".txt"), "jaccard", threshold),
            REFERENCE_TECHNIQUES.get(algorithm, algorithm),
            int(pairs),
            int(prepare_ms),
            int(index_ms),
            int(join_ms),
        )
        for file, threshold, algorithm, pairs, prepare_ms, index_ms, join_ms in rows(
            text, columns, "reference-cpp.tsv"
        )
    ]


def load_expected(folder: Path) -> dict[Cell, int]:
    """Returns the exact counts of pairs by cell; empty if the data folder has none."""
    path = folder / "expected.tsv"
    return parse_expected(path.read_text()) if path.is_file() else {}


def load_reference(folder: Path) -> list[ReferenceCell]:
    """Returns the times of the C++ code; empty if the data folder has none."""
    path = folder / "reference-cpp.tsv"
    return parse_reference(path.read_text()) if path.is_file() else []


def by_key(expected: dict[Cell, int]) -> dict[tuple[str, str, Fraction], int]:
    """Returns the expected counts by the keys of the cells, so that 0.5 finds 0.50."""
    return {cell.key: pairs for cell, pairs in expected.items()}


@dataclass(frozen=True)
class Shape:
    """The number of rows of a collection, and of distinct sets."""

    rows: int
    distinct: int

    @property
    def identical_dominate(self) -> bool:
        """Returns whether most rows are repeats: there are fewer distinct sets than half the rows."""
        return 2 * self.distinct < self.rows


def shape_of(lines: Iterable[str]) -> Shape:
    """Counts rows and distinct sets; the order of tokens in a line does not matter."""
    count = 0
    seen: set[int] = set()
    for line in lines:
        count += 1
        seen.add(hash(frozenset(line.split())))
    return Shape(count, len(seen))


def load_shape(path: Path) -> Shape:
    """Returns the shape of a set file."""
    with open(path, encoding="utf-8") as lines:
        return shape_of(lines)


def count_rows(path: Path) -> int:
    """Returns the number of lines."""
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
