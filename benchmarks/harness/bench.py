"""Runs ``simjoin bench`` and reads its output."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .cells import Cell


@dataclass(frozen=True)
class Timing:
    """The times of one technique on one cell with one number of threads.

    ``join`` is the shortest join and ``joins`` are all of them, one per turn. If the run did not finish, ``join``
    and ``pairs`` are None. Estimates are present only if simjoin made any, and ``device`` only if one was used.
    ``virtual`` is the time of the virtual clock, if the device is simulated."""

    cell: Cell
    technique: str
    threads: int
    ran: str | None = None
    pairs: int | None = None
    prepare: float = 0.0
    join: float | None = None
    runs: int = 0
    estimated_pairs: float | None = None
    estimated_seconds: float | None = None
    device: Mapping[str, float] | None = None
    candidates: int | None = None
    engine: str | None = None
    split: str | None = None
    ran_on: str | None = None
    device_share: float | None = None
    planned_device_share: float | None = None
    concurrency: float | None = None
    joins: tuple[float, ...] = ()
    virtual: float | None = None


Receiver = Callable[[Timing], None]


def parse_line(dataset: str, line: str) -> Timing:
    """Reads one line of ``simjoin bench --json``."""
    try:
        row = json.loads(line)
        finished = bool(row["finished"])
        return Timing(
            Cell(dataset, row["measure"], row["threshold"]),
            row["technique"],
            int(row["threads"]),
            row["ran"],
            int(row["pairs"]) if finished else None,
            float(row["prepare"]),
            float(row["join_min"]) if finished else None,
            int(row["runs"]),
            row.get("estimated_pairs"),
            row.get("estimated_seconds"),
            row.get("device"),
            row.get("candidates"),
            *(row.get(name) for name in
              ("engine", "split", "ran_on", "device_share", "planned_device_share", "concurrency")),
            tuple(map(float, row.get("joins", ()))),
            row.get("virtual_seconds"),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not a line of simjoin bench: {line[:80]!r} ({error})") from None


def arguments(
    path: Path, thresholds: Sequence[str], threads: int, repeat: int, limit: float
) -> list[str]:
    """Returns the arguments that time every technique except naive."""
    return ["bench", str(path), "--jaccard", ",".join(thresholds), "--threads", str(threads),
            "--repeat", str(repeat), "--limit", f"{limit:g}", "--json"]


def run(
    binary: Path, words: Sequence[str], dataset: str, receive: Receiver,
    variables: Mapping[str, str] | None = None,
) -> str | None:
    """Runs ``simjoin bench`` and calls ``receive`` with each timing as soon as it is printed; returns an error
    message, if any. ``variables`` are added to the environment."""
    # Standard error goes to a file, because an unread pipe could fill up.
    with tempfile.TemporaryFile("w+", errors="replace") as errors, subprocess.Popen(
        [str(binary), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
        text=True, errors="replace", env={**os.environ, **(variables or {})},
    ) as child:
        try:
            assert child.stdout is not None
            for line in child.stdout:
                receive(parse_line(dataset, line))
            code = child.wait()
        except ValueError as error:
            child.kill()
            return str(error)
        except BaseException:
            child.kill()
            raise
        if code == 0:
            return None
        errors.seek(0)
        lines = [line.strip() for line in errors if line.strip()]
        return lines[-1][:200] if lines else f"exit status {code}"
