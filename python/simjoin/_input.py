"""What do people hand over, and in which form does the engine take it?

Whatever speaks Arrow goes to the engine as it is; of a table, only the columns that are needed. Object columns
of pandas are handed over as lists, which the engine copies, and anything that NumPy understands as an array.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from simjoin._errors import InputError


def side(data: Any, name: str, column: str | None, id: str | None) -> dict[str, object]:
    """One side of a join of sets."""
    found: dict[str, object] = {"data": data, "name": name, "column": column, "id": id, "ids": None}
    if _library(data) == "pandas":
        return _pandas(data, found, column, id)
    found["data"] = _narrowed(data, column, id)
    return found


def vectors(data: Any, name: str, column: str | None, id: str | None) -> dict[str, object]:
    """One side of a join of vectors."""
    found: dict[str, object] = {"data": data, "name": name, "column": column, "id": id, "ids": None}
    if _library(data) in ("pandas", "polars") and hasattr(data, "columns"):
        if column is None and id is None:
            # A column for each dimension.
            found["data"] = data.to_numpy()
            return found
        if _library(data) == "pandas":
            found["data"] = _pandas_vectors(data, name, column, id)
            return found
    if _library(data) == "pandas":
        found["data"] = _arrow_or_list(data)
        return found
    found["data"] = _array(_narrowed(data, column, id))
    return found


def elements(data: Any, name: str) -> dict[str, object]:
    """A single set."""
    found: dict[str, object] = {"data": data, "name": name, "column": None, "id": None, "ids": None}
    if _library(data) == "pandas":
        found["data"] = _arrow_or_list(data)
    else:
        found["data"] = _array(_narrowed(data, None, None))
    return found


def _library(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _array(data: Any) -> Any:
    """NumPy's array of it, where it is one and no Arrow."""
    if _is_arrow(data) or not hasattr(data, "__array__"):
        return data
    import numpy as np

    return np.asarray(data)


def _without_nulls(data: Any) -> Any:
    """Columns of Polars that hold nothing, as strings: it hands nulls over otherwise than Arrow does."""
    import polars as pl

    nothing = {pl.Null(): pl.String(), pl.List(pl.Null()): pl.List(pl.String())}
    if isinstance(data, pl.Series):
        return data.cast(nothing[data.dtype]) if data.dtype in nothing else data
    if isinstance(data, pl.DataFrame):
        kinds: Any = {name: nothing[kind] for name, kind in data.schema.items() if kind in nothing}
        return data.cast(kinds) if kinds else data
    return data


def _narrowed(data: Any, column: str | None, id: str | None) -> Any:
    """The columns that are needed, where that is easily said."""
    if _library(data) == "polars":
        data = _without_nulls(data)
    if column is None or _library(data) not in ("polars", "pyarrow"):
        return data
    names = getattr(data, "columns" if _library(data) == "polars" else "column_names", None)
    wanted = [column] if id is None or id == column else [column, id]
    if not isinstance(names, list) or any(names.count(one) != 1 for one in wanted):
        # The engine says what is wrong.
        return data
    return data.select(wanted)


def _pandas(
    data: Any, found: dict[str, object], column: str | None, id: str | None
) -> dict[str, object]:
    if not hasattr(data, "columns"):
        if column is not None or id is not None:
            raise InputError(f"{found['name']}: column and id are for tables, and this is a column")
        found["data"] = _arrow_or_list(data)
        return found
    names = [str(one) for one in data.columns]
    column = _chosen(names, str(found["name"]), column, id)
    records = data.iloc[:, names.index(column)]
    if id is None:
        found["data"], found["column"] = _arrow_or_list(records), None
        return found
    ids = data.iloc[:, names.index(id)]
    found["data"], found["ids"] = records.tolist(), ids.tolist()
    return found


def _chosen(names: list[str], side: str, column: str | None, id: str | None) -> str:
    """The column to join, as the engine chooses it."""
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
    """A column of pandas: Arrow where it is Arrow inside, or a list of its values."""
    if series.dtype == object or importlib.util.find_spec("pyarrow") is None:
        return series.tolist()
    import pyarrow as pa

    return _pyarrow(pa, series)


def _pyarrow(pa: Any, series: Any) -> Any:
    return pa.array(series, from_pandas=True)


def _pandas_vectors(data: Any, name: str, column: str | None, id: str | None) -> Any:
    names = [str(one) for one in data.columns]
    column = _chosen(names, name, column, id)
    import pyarrow as pa

    wanted = [column] if id is None else [column, id]
    return pa.table({one: _pyarrow(pa, data.iloc[:, names.index(one)]) for one in wanted})
