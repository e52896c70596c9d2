"""The input and the result of every job."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from . import data, simjoin, statistics
from .cells import Cell
from .simjoin import Outcome
from .table import Table


@dataclass(frozen=True)
class Context:
    """The data, the binary and the options that all jobs share."""

    folder: Path
    binary: Path
    runs: int
    limit: float
    datasets: list[str] | None = None
    thresholds: list[str] | None = None

    def join(self, path: Path, cell: Cell, technique: str, threads: int) -> Outcome:
        """Runs simjoin once on a set file."""
        return simjoin.join_sets(self.binary, path, cell, technique, threads, self.limit)

    def measure(self, path: Path, cell: Cell, technique: str, threads: int) -> list[Outcome]:
        """Runs simjoin several times on a set file; a long run is not repeated."""
        say(f"{cell}: simjoin {technique}, {threads} {'thread' if threads == 1 else 'threads'}")
        return statistics.repeat(
            lambda: self.join(path, cell, technique, threads), lambda one: one.wall, self.runs
        )


@dataclass(frozen=True)
class Report:
    """The table of a job, its exit status, further facts for the record, and the tables that are also
    recorded as CSV, each with the end of its file name."""

    table: Table
    status: int = 0
    facts: tuple[tuple[str, str], ...] = ()
    csv: tuple[tuple[str, Table], ...] = ()


def say(line: str) -> None:
    """Prints a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def files(context: Context, cells: list[Cell]) -> dict[str, Path]:
    """Returns the unpacked set files of the cells' datasets; prints which are missing."""
    found: dict[str, Path] = {}
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        path = data.set_file(context.folder, dataset)
        if path is None:
            say(f"{dataset}: not in the data folder, omitted")
        else:
            found[dataset] = path
    return found


def disagreements(outcomes: list[Outcome], exact: int | None) -> list[int]:
    """Returns the counts that differ from the exact one."""
    return [
        one.pairs for one in outcomes if one.pairs is not None and one.pairs != exact
    ] if exact is not None else []
