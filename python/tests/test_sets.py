"""Do joins of sets and texts find all pairs, and no others?"""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import simjoin as sj
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import oracle

ratios = st.one_of(
    # Many pairs are exactly on thresholds like these.
    st.sampled_from(["0.5", "0.8", "0.75", "0.9", "1", "1.0", "2/3", "1/3", "0.6", "0.05"]),
    st.fractions(min_value=Fraction(1, 50), max_value=1, max_denominator=50).map(str),
    st.floats(min_value=0.01, max_value=1).map(lambda value: format(Decimal(repr(value)), "f")),
)
counts = st.integers(1, 6).map(str)
tokens = st.one_of(
    st.integers(-3, 12), st.sampled_from(["a", "b", "é", "", "a b", "日本", "\n", "\0"])
)
rows = st.lists(st.lists(tokens, max_size=9), max_size=14)
# Strings and integers are compared as text.
predicates = st.sampled_from(oracle.MEASURES).flatmap(
    lambda measure: st.tuples(st.just(measure), counts if measure == "overlap" else ratios)
)


def as_text(rows: list[list[Any]]) -> list[list[str]]:
    return [[str(token) for token in row] for row in rows]


def found(table: sj.Table) -> set[tuple[int, int, int]]:
    seen = [(left, right, overlap) for left, right, overlap, *_ in table.rows()]
    assert len(seen) == len(set(seen)), "a pair came twice"
    return set(seen)


@settings(max_examples=150, deadline=None)
@given(rows, predicates, st.booleans(), st.sampled_from([None, 1, 2, 3]))
def test_self_join(
    rows: list[list[Any]], predicate: tuple[str, str], multiset: bool, threads: int | None
) -> None:
    measure, text = predicate
    expected = oracle.pairs(measure, Fraction(text), as_text(rows), multiset=multiset)
    options: dict[str, Any] = {measure: text, "multiset": multiset, "threads": threads}
    table = sj.self_join(rows, **options)
    assert found(table) == expected
    assert sj.self_join(rows, count=True, **options) == len(expected) == len(table)
    groups = sj.self_join(rows, groups=True, **options)
    assert groups.rows() == oracle.groups(len(rows), expected)
    streamed: set[tuple[int, int, int]] = set()
    for batch in sj.self_join(rows, stream=True, **options):
        streamed |= found(batch)
    assert streamed == expected
    sizes = [len(one) for one in oracle.sets(as_text(rows), multiset)]
    for left, right, overlap, similarity in table.rows():
        assert similarity == pytest.approx(shown(measure, sizes[left], sizes[right], overlap))


def shown(measure: str, left: int, right: int, common: int) -> float:
    values: dict[str, float] = {
        "jaccard": common / (left + right - common),
        "cosine": common / (left * right) ** 0.5,
        "dice": 2 * common / (left + right),
        "overlap": common,
        "containment": common / min(left, right),
    }
    return values[measure]


@settings(max_examples=80, deadline=None)
@given(rows, rows, predicates, st.booleans())
def test_join(
    left: list[list[Any]], right: list[list[Any]], predicate: tuple[str, str], multiset: bool
) -> None:
    measure, text = predicate
    sides = as_text(left), as_text(right)
    expected = oracle.pairs(measure, Fraction(text), *sides, multiset=multiset)
    options: dict[str, Any] = {measure: text, "multiset": multiset}
    assert found(sj.join(left, right, **options)) == expected
    assert sj.join(left, right, count=True, **options) == len(expected)
    both = sj.join(left, right, with_itself=True, **options).rows()
    within = oracle.pairs(measure, Fraction(text), sides[1], multiset=multiset)
    assert {row[:3] for row in both if row[4] == "left"} == expected
    assert {row[:3] for row in both if row[4] == "right"} == within


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=30),
    st.sampled_from(["0.5", "0.7", "0.8"]),
    st.sampled_from(
        [
            "prefix-bitmap",
            "bitmap",
            "ppjoin",
            "group-join",
            "skip-join",
            "all-pairs",
            "mmjoin",
            "naive",
        ]
    ),
)
def test_techniques_agree(rows: list[list[int]], threshold: str, technique: str) -> None:
    expected = oracle.pairs("jaccard", Fraction(threshold), rows)
    assert found(sj.self_join(rows, jaccard=threshold, technique=technique)) == expected
    assert (
        found(sj.self_join(rows, jaccard=threshold, technique=technique, memory="1M")) == expected
    )


texts = st.lists(st.text(alphabet="aAbB é\U0001f600", max_size=12), max_size=12)


@settings(max_examples=80, deadline=None)
@given(texts, st.integers(1, 4), ratios, st.booleans())
def test_qgrams(texts: list[str], length: int, threshold: str, multiset: bool) -> None:
    grams = [oracle.qgrams(text, length) for text in texts]
    expected = oracle.pairs("dice", Fraction(threshold), grams, multiset=multiset)
    table = sj.self_join(texts, tokens=f"qgrams:{length}", dice=threshold, multiset=multiset)
    assert found(table) == expected


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(alphabet="aAbB1 ", max_size=16), max_size=12), ratios)
def test_words_fold_case_and_white_space_keeps_it(texts: list[str], threshold: str) -> None:
    lower = [oracle.words(text) for text in texts]
    expected = oracle.pairs("jaccard", Fraction(threshold), lower)
    assert found(sj.self_join(texts, tokens="words", jaccard=threshold)) == expected
    plain = [text.split() for text in texts]
    expected = oracle.pairs("jaccard", Fraction(threshold), plain)
    assert found(sj.self_join(texts, jaccard=threshold)) == expected


@pytest.mark.parametrize(
    "threshold", [0.8, "0.8", "4/5", Decimal("0.80"), Fraction(4, 5), "0.800000000000000000"]
)
def test_threshold_is_the_number_its_text_denotes(threshold: Any) -> None:
    # The threshold is exactly 4/5; the binary float is slightly larger.
    assert sj.self_join([[1, 2, 3, 4], [1, 2, 3, 4, 5]], jaccard=threshold, count=True) == 1
    assert sj.self_join([[1, 2, 3, 4], [1, 2, 3, 4, 5]], jaccard="0.8000000001", count=True) == 0


def test_numpy_numbers_are_thresholds() -> None:
    np = pytest.importorskip("numpy")
    for threshold in (np.float64(0.8), np.float32(0.8)):
        assert sj.self_join([[1, 2, 3, 4], [1, 2, 3, 4, 5]], jaccard=threshold, count=True) == 1
    assert sj.self_join([[1, 2], [1, 2]], overlap=np.int64(2), count=True) == 1


def test_thresholds_may_have_signs_exponents_and_many_decimals() -> None:
    for threshold in (1e-07, "1e-9", "+0.1", 1 / 792, "1e-38", Decimal(1) / 792, Fraction(1, 792)):
        assert sj.self_join([[1, 2], [2, 3]], jaccard=threshold, count=True) == 1, threshold
    for overlap in (1.0, "1e0", Decimal("1.0"), Fraction(1)):
        assert sj.self_join([[1, 2], [2, 3]], overlap=overlap, count=True) == 1, overlap


def test_long_thresholds_are_exact() -> None:
    # One token of 792 is common. The decimal of the float nearest to 1/792 is slightly larger.
    rows = [list(range(396)), list(range(395, 792))]
    assert sj.self_join(rows, jaccard=Fraction(1, 792), count=True) == 1
    assert sj.self_join(rows, jaccard="0.00126262626262626262", count=True) == 1
    assert sj.self_join(rows, jaccard="0.00126262626262626263", count=True) == 0
    assert sj.self_join(rows, jaccard=1 / 792, count=True) == 0
    assert sj.self_join(rows, dice="0.00252206809583858764", count=True) == 1
    assert sj.self_join(rows, dice="0.00252206809583858765", count=True) == 0


def test_empty_inputs_give_empty_answers() -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    lists: list[Any] = [[], [[]], [[], []], [""], ["", " "]]
    for empty in [
        *lists,
        pa.array([]),
        pl.Series([]),
        pa.array([[]]),
        pl.Series([[]]),
        pa.array([""]),
    ]:
        assert len(sj.self_join(empty, jaccard=0.5)) == 0
        assert sj.self_join(empty, jaccard=0.5, count=True) == 0
        assert len(sj.self_join(empty, jaccard=0.5, groups=True)) == len(empty)
        assert list(sj.self_join(empty, jaccard=0.5, stream=True)) == []
        assert len(sj.join(empty, [["a"]], jaccard=0.5)) == 0
        assert len(sj.join([["a"]], empty, jaccard=0.5)) == 0


def test_joins_span_several_batches() -> None:
    rows = [[at, at + 1, at + 2] for at in range(20_000)] + [[7, 8, 9]] * 400
    table = sj.self_join(rows, jaccard=1)
    assert len(table) == 400 * 399 // 2 + 400
    assert sum(len(batch) for batch in sj.self_join(rows, jaccard=1, stream=True)) == len(table)
    assert table.to_numpy()["left"].max() < 20_400
