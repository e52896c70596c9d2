"""Does the package find the published counts?

With ``SIMJOIN_DATA`` set to the folder of ``expected.tsv``; a few minutes.
"""

from __future__ import annotations

import csv
import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import simjoin as sj

DATA = os.environ.get("SIMJOIN_DATA")
MOST_PAIRS = 10_000_000


def cells() -> Iterator[tuple[str, str, str, int]]:
    if DATA is None:
        return
    with open(Path(DATA) / "expected.tsv") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["join"] == "self" and int(row["pairs"]) <= MOST_PAIRS:
                yield row["file"], row["measure"], row["threshold"], int(row["pairs"])


def lists(name: str) -> object:
    pl = pytest.importorskip("polars")
    with lzma.open(Path(DATA or "") / "sets" / f"{name}.xz", "rt") as file:
        lines = pl.Series(file.read().splitlines())
    return lines.str.split(" ")


@pytest.mark.skipif(DATA is None, reason="SIMJOIN_DATA names no folder")
def test_published_counts_are_found() -> None:
    name, column = None, None
    checked = 0
    for file, measure, threshold, pairs in cells():
        if file != name:
            name, column = file, lists(file)
        # A float is read as its shortest decimal.
        value: Any = threshold if measure == "overlap" else float(threshold)
        options: dict[str, Any] = {measure: value}
        table = sj.self_join(column, **options)
        assert len(table) == pairs, (file, measure, threshold)
        checked += 1
    assert checked > 0
