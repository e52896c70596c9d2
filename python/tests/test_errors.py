"""Does every mistake cause one clear line?"""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import simjoin as sj

INPUTS: list[tuple[Any, str]] = [
    ("abc", "data: a str was given; expected an Arrow, Polars, pandas or DuckDB column"),
    (5, "data: a int was given"),
    (None, "data: a NoneType was given"),
    ({"a": ["x"], "b": ["y"]}, "data: a dict was given; expected a table, or one of its columns"),
    (pl.LazyFrame({"a": ["x"]}), "data: a LazyFrame was given; expected its rows, data.collect"),
    ([{"a": "x"}], "data: row 0 .*: a dict; expected a string, or a list of strings or integers"),
    ([["a"], 7], "data: row 1 .*: a int; expected"),
    ([["a"], float("nan")], "data: row 1 .*: a float; expected"),
    (["a", ["a"]], "data: row 1 .*: a list among strings"),
    ([["a"], "a"], "data: row 1 .*: a string among lists"),
    ([["a"], ["b", 1.5]], "data: row 1 .*: element 1 is a float; expected a string or an integer"),
    ([["a"], [True]], "data: row 1 .*: element 0 is a bool"),
    ([["a"], [None]], "data: row 1 .*: element 0 is a NoneType"),
    ([[("a", "b")]], "data: row 0 .*: element 0 is a tuple"),
    ([b"a"], "data: row 0 .*: a bytes"),
    (["\ud800"], "data: row 0 .*: text that is not Unicode"),
    ([["\ud800"]], "data: row 0 .*: element 0 is text that is not Unicode"),
    (pl.Series([1, 2]), "data: column `values` is of type Int64; strings, or lists"),
    (pl.Series("x", [1.5]), "data: column `x` is of type Float64"),
    (pa.array([["a"], ["b", None]]), "data: row 1 .*: element 1 of the list in column `values`"),
    (pa.array([[[1]]]), "data: column `values` is of type List"),
    (pl.DataFrame({"a": ["x"], "b": ["y"]}), "data: column must say which column to read"),
]


@pytest.mark.parametrize(("data", "message"), INPUTS, ids=range(len(INPUTS)))
def test_bad_input_is_one_clear_line(data: Any, message: str) -> None:
    with pytest.raises(sj.InputError, match=message) as caught:
        sj.self_join(data, jaccard=0.5)
    assert "\n" not in str(caught.value) and "--" not in str(caught.value)
    assert isinstance(caught.value, sj.Error) and isinstance(caught.value, ValueError)
    with pytest.raises(sj.InputError, match=message.replace("data:", "right:")):
        sj.join([["a"]] if not isinstance(data, list) else [["a"]], data, jaccard=0.5)


USAGES: list[tuple[dict[str, Any], str]] = [
    ({}, "no threshold was given, such as jaccard=0.8"),
    ({"jaccard": 0.5, "dice": 0.5}, "jaccard and dice were given; expected one of them"),
    ({"jaccard": 0}, "is zero; expected a number above 0"),
    ({"jaccard": 1.5}, "is above 1"),
    ({"jaccard": -0.5}, "is negative"),
    ({"jaccard": float("nan")}, "is not a number"),
    ({"jaccard": float("inf")}, "is not a number"),
    ({"jaccard": True}, "is not a number"),
    ({"jaccard": Decimal("NaN")}, "is not a number"),
    ({"jaccard": "1e-39"}, "has more than 38 decimals"),
    ({"cosine": 1 / 792}, "is too long for cosine; expected at most 18 decimals"),
    ({"jaccard": "half"}, "is not a number"),
    ({"overlap": 0}, "expected a whole number from 1"),
    ({"overlap": 1.5}, "expected a whole number from 1"),
    ({"jaccard": 0.5, "tokens": "letters"}, "unknown tokens `letters`"),
    ({"jaccard": 0.5, "tokens": "qgrams:0"}, "expected words or qgrams:Q"),
    ({"jaccard": 0.5, "tokens": str.split}, "`tokens` is a method_descriptor; expected text"),
    ({"jaccard": 0.5, "multiset": "yes"}, "`multiset` is 'yes'; expected True or False"),
    ({"jaccard": 0.5, "engine": None}, "`engine` is a NoneType; expected text such as `auto`"),
    ({"jaccard": 0.5, "technique": 1}, "`technique` is a int; expected text such as `auto`"),
    ({"jaccard": 0.5, "threads": "2"}, "threads '2' does not fit"),
    ({"jaccard": 0.5, "engine": "tpu"}, "unknown engine"),
    ({"jaccard": 0.5, "technique": "magic"}, "unknown technique"),
    ({"jaccard": 0.5, "threads": 0}, "threads 0 does not fit"),
    ({"jaccard": 0.5, "threads": -1}, "threads -1 does not fit"),
    ({"jaccard": 0.5, "threads": 5000}, "threads 5000 does not fit"),
    ({"jaccard": 0.5, "memory": "much"}, "memory .much. is not a size"),
    ({"jaccard": 0.5, "memory": -1}, "is not a size"),
    ({"jaccard": 0.5, "count": True, "groups": True}, "count and groups were given"),
    ({"jaccard": 0.5, "stream": True, "progress": True}, "`progress` cannot be combined"),
    ({"jaccard": 0.5, "engine": "cpu", "technique": "gpu-bitmap"}, "runs on a GPU"),
]


@pytest.mark.parametrize(("options", "message"), USAGES, ids=range(len(USAGES)))
def test_wrong_usage_is_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sj.UsageError, match=message) as caught:
        sj.self_join([["a"]], **options)
    assert "\n" not in str(caught.value) and "--" not in str(caught.value)


def test_unknown_keywords_are_type_errors() -> None:
    functions: list[Any] = [sj.self_join, sj.plan, sj.explain, sj.vector_join, sj.vector_plan]
    for function in functions:
        with pytest.raises(TypeError, match="unexpected keyword argument 'jacard'"):
            function([["a"]], cosine=0.5, jacard=0.5)


@pytest.mark.parametrize("option", ["column", "id"])
@pytest.mark.parametrize("names", [["name", "city"], ("name", "city"), ["name"], 0])
def test_several_columns_are_refused(option: str, names: Any) -> None:
    table = pl.DataFrame({"name": ["x", "x"], "city": ["y", "z"]})
    points = pl.DataFrame({"name": [[1.0]], "city": [[2.0]]})
    message = rf"`{option}=.* does not fit; expected the name of one column \(several columns"
    calls: list[tuple[Any, Any, dict[str, Any]]] = [
        (sj.self_join, table, {"jaccard": 1}),
        (sj.plan, table, {"jaccard": 1}),
        (sj.overlaps, table, {}),
        (sj.vector_join, points, {"within": 1}),
    ]
    for function, data, options in calls:
        with pytest.raises(sj.UsageError, match=message):
            function(data, **{option: names}, **options)
    two_sided: list[Any] = [sj.join, sj.plan, sj.overlaps]
    wrong = [("name", "city", "name"), ("name",), ("name", 1), ["name", "city"]]
    for function, names in itertools.product(two_sided, wrong):
        options = {} if function is sj.overlaps else {"jaccard": 1}
        with pytest.raises(sj.UsageError, match="or a tuple of a name on the left and one on"):
            function(table, table, **{option: names}, **options)


def test_tokenizers_need_texts() -> None:
    with pytest.raises(sj.InputError, match="strings were expected"):
        sj.self_join([["a"]], tokens="words", jaccard=0.5)


def test_memory_limit_too_small_is_an_error() -> None:
    rows = [[at, at + 1] for at in range(20_000)]
    with pytest.raises(sj.MemoryLimitError, match="needs .* bytes of memory"):
        sj.overlaps(rows, top=1, memory=1000)


def test_arrays_larger_than_the_memory_are_an_error() -> None:
    message = f"needs {2**50} bytes of memory, more than this machine can give"
    for number in (np.float32(0), np.float64(0), np.int16(0)):
        size = 4 if number.dtype == np.float32 else 8
        points = np.broadcast_to(number, (2**49 // size, 2))
        with pytest.raises(sj.MemoryLimitError, match=f"data {message}"):
            sj.vector_join(points, within=1, count=True)


def test_errors_name_bad_vectors_and_sets() -> None:
    for data, message in [
        (np.zeros(3), "1 dimensions of float64; expected two dimensions"),
        (np.zeros((2, 2), dtype=complex), "complex128; expected two dimensions"),
        (np.array([[0.0, np.nan]]), "row 0 .*: element 1 is NaN"),
        (np.zeros((2, 0)), "no dimension"),
        ([[1.0], [1.0, 2.0]], "row 1 .*: a vector of dimension 2; the first has 1"),
        ([[1.0], ["x"]], "row 1 .*: element 0 is a str; expected a number"),
        ([[]], "row 0 .*: a vector of dimension 0"),
        ([], "no vectors: the input is empty"),
        ("abc", "a str was given"),
        (pl.Series([["a"]]), "lists of 32-bit or 64-bit floating-point numbers were expected"),
        (pl.Series([[1.0, None]]), "row 0 .*: null in a list"),
    ]:
        with pytest.raises(sj.InputError, match=message):
            sj.vector_join(data, within=1)
    with pytest.raises(sj.InputError, match="right: vectors of dimension 3; those of left have 2"):
        sj.vector_join(np.zeros((1, 2)), np.zeros((1, 3)), within=1)
    with pytest.raises(sj.UsageError, match="no threshold was given, such as within=0.25"):
        sj.vector_join(np.zeros((1, 2)))
    with pytest.raises(sj.UsageError, match="is negative"):
        sj.vector_join(np.zeros((1, 2)), within=-1)
    with pytest.raises(sj.UsageError, match="unknown engine"):
        sj.vector_join(np.zeros((1, 2)), within=1, engine="tpu")
    for data, message in [
        (5, "left: a int was given"),
        ([1.5], "left: element 0 .*: a float; expected a string or an integer"),
        (np.zeros((2, 2), dtype=int), "expected one dimension of integers"),
        (np.zeros(2), "expected one dimension of integers"),
        (pl.Series([1, None]), "left: row 1 .*: null"),
        (pl.Series([[1]]), "strings or integers were expected"),
    ]:
        with pytest.raises(sj.InputError, match=message):
            sj.intersect(data, [1])
    with pytest.raises(sj.UsageError, match="top 0 does not fit"):
        sj.overlaps([["a"]], top=0)


def test_engine_gpu_without_a_device_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMJOIN_SIMULATED_GPU", raising=False)
    if sj.devices():
        pytest.skip("there is one")
    with pytest.raises(sj.UnavailableError, match="no NVIDIA driver"):
        sj.self_join([["a"]], jaccard=1, engine="gpu")
    with pytest.raises(sj.UnavailableError, match="no NVIDIA driver"):
        sj.overlaps([["a"]], engine="gpu", device_memory="1G")
    with pytest.raises(sj.UnavailableError, match="no NVIDIA driver"):
        sj.vector_join(np.zeros((1, 2)), within=1, engine="gpu", device_memory="1G")
    with pytest.raises(sj.UnavailableError, match="no NVIDIA driver"):
        sj.intersect([1], [1], engine="gpu")
