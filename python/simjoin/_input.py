"""How are the data of each library passed to the engine?

Objects with Arrow's interface are passed unchanged; of a table, only the needed columns. Object
columns of pandas become lists, which the engine copies, and other data that NumPy understands become an array.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from simjoin._errors import InputError


def side(data: Any, name: str, column: str | None, id: str | None) -> dict[str, object]:
    """Returns one side of a join of sets."""
    _check(data, name)
    if _library(data) == "pandas":
        return _pandas(data, name, column, id)
    return _side(_narrowed(data, column, id), name, column, id)


def vectors(data: Any, name: str, column: str | None, id: str | None) -> dict[str, object]:
    """Returns one side of a join of vectors."""
    _check(data, name)
    library = _library(data)
    if library in ("pandas", "polars") and hasattr(data, "columns"):
        if column is None and id is None:
            # A column for each dimension.
            return _side(data.to_numpy(), name)
        if library == "pandas":
            data = _pandas_vectors(data, name, column, id)
    elif library == "pandas":
        data = _arrow_or_list(data)
    return _side(_array(_narrowed(data, column, id)), name, column, id)


def elements(data: Any, name: str) -> dict[str, object]:
    """Returns a single set."""
    _check(data, name)
    if _library(data) == "pandas":
        return _side(_arrow_or_list(data), name)
    return _side(_array(_narrowed(data, None, None)), name)


def _side(
    data: Any, name: str, column: str | None = None, id: str | None = None, ids: Any = None
) -> dict[str, object]:
    return {"data": data, "name": name, "column": column, "id": id, "ids": ids}


def _check(data: Any, name: str) -> None:
    """Refuses data that can be iterated, or look like a table, but hold no rows."""
    if isinstance(data, Mapping) and not _is_arrow(data):
        kind = type(data).__name__
        raise InputError(
            f"{name}: a {kind} was given; expected a table, or one of its columns, data['name']"
        )
    if _library(data) == "polars" and type(data).__name__ == "LazyFrame":
        raise InputError(f"{name}: a LazyFrame was given; expected its rows, data.collect()")


def _library(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _array(data: Any) -> Any:
    """Returns data as an array of NumPy, if they can be one and have no Arrow interface."""
    if _is_arrow(data) or not hasattr(data, "__array__"):
        return data
    import numpy as np

    return np.asarray(data)


def _without_nulls(data: Any) -> Any:
    """Casts columns of Polars without values to strings, because Polars exports nulls unlike Arrow."""
    import polars as pl

    nothing = {pl.Null(): pl.String(), pl.List(pl.Null()): pl.List(pl.String())}
    if isinstance(data, pl.Series):
        return data.cast(nothing[data.dtype]) if data.dtype in nothing else data
    if isinstance(data, pl.DataFrame):
        kinds: Any = {name: nothing[kind] for name, kind in data.schema.items() if kind in nothing}
        return data.cast(kinds) if kinds else data
    return data


def _narrowed(data: Any, column: str | None, id: str | None) -> Any:
    """Selects the columns that are needed, if the library makes that easy."""
    if _library(data) == "polars":
        data = _without_nulls(data)
    if column is None or _library(data) not in ("polars", "pyarrow"):
        return data
    names = getattr(data, "columns" if _library(data) == "polars" else "column_names", None)
    wanted = [column] if id is None or id == column else [column, id]
    if not isinstance(names, list) or any(names.count(one) != 1 for one in wanted):
        # The engine reports the error.
        return data
    return data.select(wanted)


def _pandas(data: Any, name: str, column: str | None, id: str | None) -> dict[str, object]:
    if not hasattr(data, "columns"):
        if column is not None or id is not None:
            raise InputError(f"{name}: `column` and `id` need a table, but this is a column")
        return _side(_arrow_or_list(data), name)
    names = [str(one) for one in data.columns]
    column = _chosen(names, name, column, id)
    records = data.iloc[:, names.index(column)]
    if id is None:
        return _side(_arrow_or_list(records), name)
    ids = data.iloc[:, names.index(id)]
    return _side(_values(records), name, ids=ids.tolist())


def _chosen(names: list[str], side: str, column: str | None, id: str | None) -> str:
    """Chooses the column to join as the engine does."""
    shown = ", ".join(f"`{one}`" for one in names[:40])
    for option, wanted in (("column", column), ("id", id)):
        if wanted is not None and names.count(wanted) != 1:
            many = wanted in names
            raise InputError(
                f"{side}: more than one column is called `{wanted}` ({option})"
                if many
                else f"{side}: no column `{wanted}` ({option}); the columns are {shown}"
            )
    if column is not None:
        return column
    others = [one for one in names if one != id]
    if len(others) != 1:
        raise InputError(f"{side}: column must say which column to read; the columns are {shown}")
    return others[0]


def _arrow_or_list(series: Any) -> Any:
    """Returns a column of pandas as Arrow, or, if it holds objects, as a list of its values."""
    if series.dtype == object or importlib.util.find_spec("pyarrow") is None:
        return _values(series)
    import pyarrow as pa

    return _pyarrow(pa, series)


def _values(series: Any) -> list[Any]:
    """Returns the values of a column of pandas; values that are missing to pandas become None."""
    missing = series.isna()
    if not missing.any():
        values: list[Any] = series.tolist()
        return values
    return [None if no else one for one, no in zip(series.tolist(), missing, strict=True)]


def _pyarrow(pa: Any, series: Any) -> Any:
    return pa.array(series, from_pandas=True)


def _pandas_vectors(data: Any, name: str, column: str | None, id: str | None) -> Any:
    names = [str(one) for one in data.columns]
    column = _chosen(names, name, column, id)
    import pyarrow as pa

    wanted = [column] if id is None else [column, id]
    return pa.table({one: _pyarrow(pa, data.iloc[:, names.index(one)]) for one in wanted})
