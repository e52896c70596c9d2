"""Are the data of every library read and returned correctly?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import simjoin as sj

TITLES = ["the cat sat", "The cat sat down", "a dog", "", "the cat sat"]
LISTS = [
    ["the", "cat", "sat"],
    ["the", "cat", "sat", "down"],
    ["a", "dog"],
    [],
    ["the", "cat", "sat"],
]
NUMBERS = [[1, 2, 3], [1, 2, 3, 4], [5, 6], [], [3, 2, 1]]
KEYS = ["k0", "k1", "k2", "k3", "k4"]
PAIRS = {(0, 1), (0, 4), (1, 4)}
OPTIONS: dict[str, Any] = {"tokens": "words", "jaccard": 0.75}


def pairs(table: sj.Table) -> set[tuple[Any, Any]]:
    return {(min(row[:2]), max(row[:2])) for row in table.rows()}


def named(found: set[tuple[Any, Any]]) -> set[tuple[str, str]]:
    return {(KEYS[left], KEYS[right]) for left, right in found}


def test_lists_are_collections() -> None:
    assert pairs(sj.self_join(TITLES, **OPTIONS)) == PAIRS
    assert pairs(sj.self_join(tuple(TITLES), **OPTIONS)) == PAIRS
    assert pairs(sj.self_join(iter(TITLES), **OPTIONS)) == PAIRS
    assert pairs(sj.self_join(LISTS, jaccard=0.75)) == PAIRS
    assert pairs(sj.self_join(NUMBERS, jaccard=0.75)) == PAIRS
    assert pairs(sj.self_join([set(row) for row in NUMBERS], jaccard=0.75)) == PAIRS
    # Numbers are compared as their text.
    assert len(sj.join([[1, 2**80]], [["1", str(2**80)]], jaccard=1)) == 1


def test_missing_rows_are_empty_and_count() -> None:
    lists: list[Any] = [None, ["a", "b"], None, ["b", "a"], [], None]
    assert pairs(sj.self_join(lists, jaccard=0.5)) == {(1, 3)}
    texts: list[Any] = [None, None, "a b", "", "B A", None]
    assert pairs(sj.self_join(texts, tokens="words", jaccard=0.5)) == {(2, 4)}
    assert pairs(sj.self_join(texts, tokens="qgrams:2", dice=0.1)) == set()
    assert len(sj.join(texts, lists, jaccard=0.5)) == 2
    for nothing in ([None], [None] * 20_000):
        assert len(sj.self_join(nothing, jaccard=0.5)) == 0
        assert len(sj.self_join(nothing, jaccard=0.5, groups=True)) == len(nothing)
    # The first batch does not determine the type of the rows.
    late = [None] * 20_000 + [["a"], ["a"]]
    assert pairs(sj.self_join(late, jaccard=1)) == {(20_000, 20_001)}
    assert pairs(sj.self_join([None] * 9000 + ["a", None] * 2, jaccard=1)) == {(9000, 9002)}
    stats = sj.self_join(lists, jaccard=0.5).stats
    assert stats is not None and stats["records"] == 6


def test_missing_values_of_pandas_are_empty_rows() -> None:
    pd = pytest.importorskip("pandas")
    for missing in (None, float("nan"), pd.NA, pd.NaT):
        titles = pd.Series(["a b", missing, "b a"], dtype=object)
        assert pairs(sj.self_join(titles, jaccard=1)) == {(0, 2)}
        frame = pd.DataFrame({"key": ["x", "y", "z"], "title": titles})
        assert pairs(sj.self_join(frame, column="title", jaccard=1)) == {(0, 2)}
        named = sj.self_join(frame, column="title", id="key", jaccard=1)
        assert pairs(named) == {("x", "z")}
        lists = pd.Series([[1, 2], missing, [2, 1]], dtype=object)
        assert pairs(sj.self_join(lists, jaccard=1)) == {(0, 2)}


def test_nulls_of_arrow_are_empty_rows() -> None:
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    texts = [None, "a b", None, "b a", ""]
    lists = [None, [1, 2], None, [2, 1], []]
    pairs_of = [None, [1, 2], None, [2, 1], [3, 4]]
    columns = [
        pa.array(texts),
        pa.array(texts, pa.large_string()),
        pa.array(texts, pa.string_view()),
        pa.array(texts).dictionary_encode(),
        pa.array(lists),
        pa.array(lists, pa.large_list(pa.int8())),
        pa.array(pairs_of, pa.list_(pa.int32(), 2)),
        # Values that a null hides are not part of a row.
        pa.ListArray.from_arrays(
            [0, 2, 4, 6, 8, 9],
            [2, 1, 1, 2, 2, 1, 2, 1, 9],
            mask=pa.array([True, False, True, False, False]),
        ),
        pa.chunked_array([texts[:2], texts[2:]]),
        pl.Series(texts),
        pl.Series(texts, dtype=pl.Categorical),
        pl.Series(lists),
        pl.Series(pairs_of, dtype=pl.Array(pl.Int32, 2)),
        pd.Series(texts, dtype="string"),
        pd.Series(lists, dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    ]
    for column in columns:
        table = sj.self_join(column, jaccard=1)
        assert pairs(table) == {(1, 3)}, column
        assert table.stats is not None and table.stats["records"] == 5
        if not isinstance(column, pd.Series):
            assert pairs(sj.self_join(column[1:], jaccard=1)) == {(0, 2)}, column
    frame = pl.DataFrame({"t": texts, "i": [5, 6, 7, 8, 9], "n": [None] * 5})
    assert pairs(sj.self_join(frame, column="t", id="i", jaccard=1)) == {(6, 8)}
    assert pairs(sj.self_join(frame[["i", "t"]], id="i", jaccard=1)) == {(6, 8)}
    assert sj.overlaps(frame, column="t", positive=True).rows() == [(1, 3, 2)]
    for nothing in (frame["n"], pa.nulls(5), pa.nulls(5, pa.string())):
        assert len(sj.self_join(nothing, jaccard=1)) == 0
    named = pl.DataFrame({"t": ["a"], "i": ["x"], "n": [None]}, schema_overrides={"n": pl.String})
    with pytest.raises(sj.InputError, match="data: row 0 .*: null in id column `n`"):
        sj.self_join(named, column="t", id="n", jaccard=1)


def test_pyarrow_columns_and_tables() -> None:
    pa = pytest.importorskip("pyarrow")
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert pairs(sj.self_join(pa.array(TITLES, kind), **OPTIONS)) == PAIRS
    assert pairs(sj.self_join(pa.array(TITLES).dictionary_encode(), **OPTIONS)) == PAIRS
    chunked = pa.chunked_array([TITLES[:2], [], TITLES[2:]])
    assert pairs(sj.self_join(chunked, **OPTIONS)) == PAIRS
    for kind in (pa.list_, pa.large_list):
        for element in (pa.int64(), pa.uint8(), pa.int16()):
            assert pairs(sj.self_join(pa.array(NUMBERS, kind(element)), jaccard=0.75)) == PAIRS
        for element in (pa.string(), pa.large_string(), pa.string_view()):
            assert pairs(sj.self_join(pa.array(LISTS, kind(element)), jaccard=0.75)) == PAIRS
    fixed = pa.array([[1, 2], [2, 1], [3, 4]], pa.list_(pa.int32(), 2))
    assert pairs(sj.self_join(fixed, jaccard=1)) == {(0, 1)}
    # Only the rows of a slice are read, even if they are lists.
    assert pairs(sj.self_join(pa.array(NUMBERS)[1:], jaccard=0.75)) == {(0, 3)}
    assert pairs(sj.self_join(pa.array(TITLES)[1:], **OPTIONS)) == {(0, 3)}
    table = pa.table({"key": KEYS, "title": TITLES, "other": NUMBERS})
    assert pairs(sj.self_join(table, column="title", **OPTIONS)) == PAIRS
    assert pairs(sj.self_join(table, column="title", id="key", **OPTIONS)) == named(PAIRS)
    assert pairs(sj.self_join(table.to_batches()[0], column="title", **OPTIONS)) == PAIRS
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
    assert pairs(sj.self_join(reader, column="title", id="key", **OPTIONS)) == named(PAIRS)
    assert pairs(sj.self_join(pa.array([[], []]), jaccard=1)) == set()
    result = sj.self_join(table, column="title", **OPTIONS)
    assert pa.table(result).equals(result.to_arrow())
    assert result.to_arrow().column_names == ["left", "right", "overlap", "similarity"]
    assert pa.RecordBatchReader.from_stream(result).read_all().num_rows == 3
    stream = sj.self_join(table, column="title", stream=True, **OPTIONS)
    assert pa.table(stream).num_rows == 3


def test_python_generator_can_feed_a_join() -> None:
    """The producer needs the interpreter, which the waiting thread has released."""
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema({"title": pa.string()})
    produced = (pa.record_batch({"title": [title]}) for title in TITLES)
    reader = pa.RecordBatchReader.from_batches(schema, produced)
    assert pairs(sj.self_join(reader, **OPTIONS)) == PAIRS

    def broken() -> Any:
        yield pa.record_batch({"title": ["a"]})
        raise ValueError("the well is dry")

    with pytest.raises(sj.InputError, match="data: .*the well is dry"):
        sj.self_join(pa.RecordBatchReader.from_batches(schema, broken()), **OPTIONS)
    # The answer may be read through Arrow by a thread that holds the interpreter.
    produced = (pa.record_batch({"title": [title]}) for title in TITLES)
    reader = pa.RecordBatchReader.from_batches(schema, produced)
    pl = pytest.importorskip("polars")
    assert pl.DataFrame(sj.self_join(reader, stream=True, **OPTIONS)).height == 3


def test_polars_series_and_frames() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"key": KEYS, "title": TITLES, "numbers": NUMBERS, "words": LISTS})
    assert pairs(sj.self_join(frame["title"], **OPTIONS)) == PAIRS
    assert pairs(sj.self_join(frame["numbers"], jaccard=0.75)) == PAIRS
    assert pairs(sj.self_join(frame["words"], jaccard=0.75)) == PAIRS
    assert pairs(sj.self_join(frame["title"].cast(pl.Categorical), **OPTIONS)) == PAIRS
    words = frame["words"].cast(pl.List(pl.Categorical))
    assert pairs(sj.self_join(words, jaccard=0.75)) == PAIRS
    array = pl.Series([[1, 2], [2, 1], [3, 4]], dtype=pl.Array(pl.Int32, 2))
    assert pairs(sj.self_join(array, jaccard=1)) == {(0, 1)}
    assert pairs(sj.self_join(frame, column="title", id="key", **OPTIONS)) == named(PAIRS)
    assert pairs(sj.self_join(frame[1:], column="numbers", jaccard=0.75)) == {(0, 3)}
    several = pl.concat([frame[:2], frame[2:]], rechunk=False)
    assert pairs(sj.self_join(several["title"], **OPTIONS)) == PAIRS
    result = sj.self_join(frame, column="title", **OPTIONS)
    assert pl.DataFrame(result).equals(result.to_polars())
    assert result.to_polars().schema == {
        "left": pl.Int64,
        "right": pl.Int64,
        "overlap": pl.Int64,
        "similarity": pl.Float64,
    }
    indexed = frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    joined = result.to_polars().join(indexed, left_on="left", right_on="row")
    assert joined.height == 3


@pytest.mark.parametrize("backend", ["object", "string", "arrow"])
def test_pandas_series_and_frames(backend: str) -> None:
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    kinds = {"object": object, "string": "string", "arrow": pd.ArrowDtype(pa.string())}
    titles = pd.Series(TITLES, dtype=kinds[backend], index=range(10, 15))
    assert pairs(sj.self_join(titles, **OPTIONS)) == PAIRS
    lists = pd.Series(NUMBERS)
    if backend == "arrow":
        lists = lists.astype(pd.ArrowDtype(pa.list_(pa.int64())))
    assert pairs(sj.self_join(lists, jaccard=0.75)) == PAIRS
    frame = pd.DataFrame({"key": KEYS, "title": TITLES, "numbers": lists})
    assert pairs(sj.self_join(frame, column="title", **OPTIONS)) == PAIRS
    assert pairs(sj.self_join(frame, column="title", id="key", **OPTIONS)) == named(PAIRS)
    assert pairs(sj.self_join(frame, column="numbers", id="key", jaccard=0.75)) == named(PAIRS)
    # Columns of objects with arrays, as pandas reads them from a file.
    arrays = pd.Series([np.array(row) for row in NUMBERS])
    assert pairs(sj.self_join(arrays, jaccard=0.75)) == PAIRS
    with pytest.raises(sj.InputError, match="no column `x`"):
        sj.self_join(frame, column="x", **OPTIONS)
    with pytest.raises(sj.InputError, match="column must say which column to read"):
        sj.self_join(frame, **OPTIONS)
    result = sj.self_join(titles, **OPTIONS).to_pandas()
    assert list(result.columns) == ["left", "right", "overlap", "similarity"]
    assert [str(kind) for kind in result.dtypes] == ["int64", "int64", "int64", "float64"]
    assert result["left"].is_monotonic_increasing or len(result) == 3


def test_duckdb_relations() -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(
        "create table titles (key text, title text, words text[], numbers integer[])"
    )
    for row in zip(KEYS, TITLES, LISTS, NUMBERS, strict=True):
        connection.execute("insert into titles values (?, ?, ?, ?)", row)
    relation = connection.table("titles").order("key")
    assert pairs(sj.self_join(relation, column="title", **OPTIONS)) == PAIRS
    assert pairs(sj.self_join(relation, column="title", id="key", **OPTIONS)) == named(PAIRS)
    assert pairs(sj.self_join(relation, column="words", jaccard=0.75)) == PAIRS
    numbers = connection.sql("select numbers from titles order by key")
    assert pairs(sj.self_join(numbers, jaccard=0.75)) == PAIRS
    result = sj.self_join(relation, column="title", **OPTIONS)  # noqa: F841 (by name in the query)
    assert connection.sql("select count(*), max(overlap) from result").fetchall() == [(3, 3)]
    stream = sj.self_join(relation, column="title", stream=True, **OPTIONS)  # noqa: F841
    assert connection.sql("select count(*) from stream").fetchall() == [(3,)]


def test_numpy_rows_are_sets() -> None:
    rows = np.array([[1, 2, 3], [3, 2, 1], [4, 5, 6]], dtype=np.uint16)
    assert pairs(sj.self_join(rows, jaccard=1)) == {(0, 1)}


def test_sides_can_come_from_different_libraries() -> None:
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    left = pl.DataFrame({"a": TITLES[:2], "i": [10, 11]})
    right = pa.table({"b": TITLES[2:], "j": [20, 21, 22]})
    table = sj.join(left, right, column=("a", "b"), id=("i", "j"), **OPTIONS)
    assert {row[:2] for row in table.rows()} == {(10, 22), (11, 22)}
    assert table.schema["left"] == "int64"
    mixed = sj.join(left, ["the cat sat"], column=("a", None), **OPTIONS)
    assert {row[:2] for row in mixed.rows()} == {(0, 0), (1, 0)}


def test_ids_are_integers_only_if_all_are() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"t": ["a", "a"], "n": [7, -9], "s": ["x", "y"]})
    assert sj.self_join(frame, column="t", id="n", jaccard=1).rows() == [(7, -9, 1, 1.0)]
    assert sj.self_join(frame, column="t", id="s", jaccard=1).rows() == [("x", "y", 1, 1.0)]
    groups = sj.self_join(frame, column="t", id="s", jaccard=1, groups=True)
    assert groups.rows() == [("x", "x"), ("y", "x")]
    twice = pl.DataFrame({"t": ["a", "b"], "n": [1, 1]})
    with pytest.raises(sj.InputError, match="data: row 1 .* the id `1` was already used at row 0"):
        sj.self_join(twice, column="t", id="n", jaccard=1)


def test_table_has_text_shape_and_statistics() -> None:
    table = sj.self_join([["a"]] * 6, jaccard=1)
    assert len(table) == 15 and table.shape == (15, 4)
    text = repr(table)
    assert text.startswith("simjoin.Table: 15 rows\n") and text.endswith("…")
    assert table.column_names == list(table.to_dict()) == list(table.to_numpy())
    stats = table.stats
    assert stats is not None and stats["pairs"] == 15 and stats["records"] == 6
    assert set(stats["seconds"]) == {"read", "prepare", "join", "total"}
    assert repr(sj.self_join([["a"]], jaccard=1, stream=True)).startswith("simjoin.Stream of left")
