"""Are overlaps and intersections correct?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simjoin as sj
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import oracle

rows = st.lists(st.lists(st.integers(0, 12), max_size=8), max_size=12)


@settings(max_examples=80, deadline=None)
@given(rows, st.sampled_from(["auto", "index", "bitmap", "product"]))
def test_overlaps_of_all_pairs_are_exact(rows: list[list[int]], technique: str) -> None:
    sets = oracle.sets(rows)
    common = oracle.overlaps(sets, sets)
    expected = {
        (a, b, int(common[a, b])) for a in range(len(rows)) for b in range(a + 1, len(rows))
    }
    table = sj.overlaps(rows, technique=technique)
    assert set(table.rows()) == expected and len(table) == len(expected)
    positive = {row for row in expected if row[2] > 0}
    assert set(sj.overlaps(rows, positive=True, technique=technique).rows()) == positive
    assert sj.overlaps(rows, positive=True, count=True) == len(positive)
    assert sum(len(batch) for batch in sj.overlaps(rows, stream=True)) == len(expected)


@settings(max_examples=60, deadline=None)
@given(rows, rows, st.integers(1, 3))
def test_two_sides_and_top_partners_are_exact(
    left: list[list[int]], right: list[list[int]], top: int
) -> None:
    common = oracle.overlaps(oracle.sets(left), oracle.sets(right))
    expected = {(a, b, int(common[a, b])) for a in range(len(left)) for b in range(len(right))}
    assert set(sj.overlaps(left, right).rows()) == expected
    best = set()
    for a in range(len(left)):
        partners = sorted((-int(common[a, b]), b) for b in range(len(right)) if common[a, b] > 0)
        best |= {(a, b, -negative) for negative, b in partners[:top]}
    assert set(sj.overlaps(left, right, top=top).rows()) == best


elements = st.one_of(
    st.lists(st.integers(0, 60)),
    st.lists(st.integers(-3, 2**70)),
    st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["a", "b", "7", "é"]))),
)


@settings(max_examples=150, deadline=None)
@given(elements, elements)
def test_intersections_are_exact(left: list[Any], right: list[Any]) -> None:
    one, other = {str(x) for x in left}, {str(x) for x in right}
    assert sj.intersect(left, right) == len(one & other)
    table = sj.intersect(left, right, elements=True)
    assert {str(row[0]) for row in table.rows()} == one & other and len(table) == len(one & other)
    smaller = min(len(one), len(other))
    degree = len(one & other) / smaller if smaller else 0.0
    assert sj.intersect(set(left), iter(right), containment=True) == degree


def test_engine_can_be_chosen() -> None:
    table = sj.overlaps([["a"], ["a"]], engine="cpu")
    assert (
        table.rows() == [(0, 1, 1)] and table.stats is not None and table.stats["engine"] == "cpu"
    )
    assert sj.intersect([1, 2], [2], engine="cpu") == 1
    with pytest.raises(sj.UsageError, match="unknown engine"):
        sj.overlaps([["a"]], engine="tpu")
    with pytest.raises(sj.UsageError, match="unknown engine"):
        sj.intersect([1], [1], engine="tpu")


def test_columns_of_every_library_are_intersected() -> None:
    pl, pa, pd = (pytest.importorskip(name) for name in ("polars", "pyarrow", "pandas"))
    numbers = [5, 3, 3, 9, 2**40]
    sides: list[Any] = [
        numbers,
        np.array(numbers),
        np.array(numbers, dtype=np.uint64),
        pl.Series(numbers),
        pa.array(numbers),
        pd.Series(numbers),
        pl.Series([str(number) for number in numbers]),
    ]
    for one in sides:
        for other in sides:
            assert sj.intersect(one, other) == 4
    for one in sides[:-1]:
        found = sj.intersect(one, [2**40, 9], elements=True)
        assert sorted(found.to_dict()["element"]) == [9, 2**40]
    for technique in ("blocks", "merge", "gallop", "bitmap"):
        left, right = np.arange(100_000), np.arange(50_000, 300_000, 2, dtype=np.uint32)
        assert sj.intersect(left, right, technique=technique, threads=2) == 25_000
    assert sj.intersect(np.arange(3)[::-1], [0, 2], elements=True).rows() == [(0,), (2,)]
