"""Do joins of vectors find all pairs, and no others?"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import simjoin as sj
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

# On a grid of quarters every sum is exact, and many pairs have exactly the distance.
grid = st.integers(-8, 8).map(lambda number: number / 4)


def matrices(dimension: int) -> st.SearchStrategy[Any]:
    rows = st.integers(1, 25)
    kinds = st.sampled_from([np.float32, np.float64])
    made = st.tuples(kinds, rows).flatmap(
        lambda one: hnp.arrays(one[0], (one[1], dimension), elements=grid.map(float))
    )
    return st.one_of(made, made.map(np.asfortranarray), made.map(lambda array: array[::-1]))


def expected(left: Any, right: Any, within: float, itself: bool) -> set[tuple[int, int]]:
    one, other = left.astype(np.float64), right.astype(np.float64)
    distances = ((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)
    return {
        (int(a), int(b))
        for a, b in np.argwhere(distances <= within * within)
        if not itself or a < b
    }


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5).flatmap(matrices), st.sampled_from([0, 0.25, 0.5, 1, 1.25, 2.5]))
def test_self_join(points: Any, within: float) -> None:
    wanted = expected(points, points, within, True)
    table = sj.vector_join(points, within=within)
    assert {row[:2] for row in table.rows()} == wanted and len(table) == len(wanted)
    for left, right, distance in table.rows():
        apart = np.linalg.norm(points[left].astype(float) - points[right].astype(float))
        assert distance == pytest.approx(apart)
    assert sj.vector_join(points, within=within, count=True) == len(wanted)
    streamed = sj.vector_join(points, within=within, stream=True, threads=1)
    assert {row[:2] for batch in streamed for row in batch.rows()} == wanted
    rows = points.tolist()
    assert {row[:2] for row in sj.vector_join(rows, within=within).rows()} == wanted


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4).flatmap(lambda d: st.tuples(matrices(d), matrices(d))),
    st.sampled_from(["auto", "quantile", "grid", "nested-loop"]),
)
def test_join(sides: tuple[Any, Any], technique: str) -> None:
    left, right = sides
    wanted = expected(left, right, 1.25, False)
    table = sj.vector_join(left, right, within="1.25", technique=technique)
    assert {row[:2] for row in table.rows()} == wanted


def test_cosine() -> None:
    points = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 1.0], [-1.0, 0.0]])
    assert {row[:2] for row in sj.vector_join(points, cosine=0.9).rows()} == {(0, 1)}
    assert {row[:2] for row in sj.vector_join(points, cosine=0.7).rows()} == {
        (0, 1),
        (0, 2),
        (1, 2),
    }
    assert sj.vector_join(points, cosine=-1, count=True) == 6


def test_thresholds_may_be_fractions_and_have_signs() -> None:
    points = [[0.0], [0.25]]
    for within in (Fraction(1, 4), "1/4", "+0.25", "25e-2", Decimal("0.25")):
        assert sj.vector_join(points, within=within, count=True) == 1, within
    assert sj.vector_join(points, within=1 / 792, count=True) == 0


def test_groups() -> None:
    points = [[0.0], [9.0], [0.5], [9.25], [100.0]]
    groups = sj.vector_join(points, within=1, groups=True)
    assert groups.rows() == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 4)]


def test_vectors_of_every_library() -> None:
    pl, pa, pd = (pytest.importorskip(name) for name in ("polars", "pyarrow", "pandas"))
    points = [[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]]
    keys = ["a", "b", "c"]
    sides: list[Any] = [
        points,
        np.array(points),
        np.array(points, dtype=np.float16),
        np.array(points, dtype=np.int16),
        pl.Series(points),
        pl.Series(points, dtype=pl.Array(pl.Float32, 2)),
        pl.DataFrame(np.array(points)),
        pa.array(points),
        pa.array(points, pa.list_(pa.float32(), 2)),
        pd.Series(points),
        pd.DataFrame(points),
        [tuple(point) for point in points],
    ]
    for data in sides:
        assert sj.vector_join(data, within=5).rows() == [(0, 1, 5.0)], type(data)
    for table in (
        pl.DataFrame({"key": keys, "v": points}),
        pa.table({"key": keys, "v": points}),
        pd.DataFrame({"key": keys, "v": points}),
    ):
        found = sj.vector_join(table, column="v", id="key", within=5)
        assert found.rows() == [("a", "b", 5.0)]
    # Different precisions are joined in the higher one.
    narrow, wide = np.array(points, dtype=np.float32), np.array(points)
    assert len(sj.vector_join(narrow, wide, within=0)) == 3


def test_large_arrays_are_copied_in_blocks() -> None:
    points = np.arange(600_000, dtype=np.float32).reshape(-1, 3)
    assert sj.vector_join(points, within=6, count=True) == 199_999
    assert sj.vector_join(points[::2], within=11, count=True) == 99_999
