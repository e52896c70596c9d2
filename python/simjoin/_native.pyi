"""The native half of the package."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

__all__ = [
    "Stream",
    "Table",
    "devices",
    "intersect",
    "overlaps",
    "join",
    "nvrtc_version",
    "vector_join",
    "__version__",
]

__version__: str

@final
class Table:
    """An answer in memory: Arrow to whoever asks for it."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def schema(self) -> dict[str, str]: ...
    @property
    def stats(self) -> dict[str, Any] | None: ...
    def rows(self) -> list[tuple[Any, ...]]: ...
    def to_dict(self) -> dict[str, list[Any]]: ...
    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]: ...
    def to_arrow(self) -> pa.Table: ...
    def to_polars(self) -> pl.DataFrame: ...
    def to_pandas(self) -> pd.DataFrame: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Stream:
    """An answer on its way: an iterator of tables."""

    @property
    def stats(self) -> dict[str, Any] | None: ...
    def close(self) -> None: ...
    def __iter__(self) -> Stream: ...
    def __next__(self) -> Table: ...
    def __enter__(self) -> Stream: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def join(
    left: Mapping[str, object],
    right: Mapping[str, object] | None,
    options: Mapping[str, object],
    progress: Callable[[str, int, int], object] | None,
) -> Any: ...
def vector_join(
    left: Mapping[str, object],
    right: Mapping[str, object] | None,
    options: Mapping[str, object],
    progress: Callable[[str, int, int], object] | None,
) -> Any: ...
def overlaps(
    left: Mapping[str, object],
    right: Mapping[str, object] | None,
    options: Mapping[str, object],
    progress: Callable[[str, int, int], object] | None,
) -> Any: ...
def intersect(
    left: Mapping[str, object],
    right: Mapping[str, object],
    options: Mapping[str, object],
) -> Any: ...
def devices() -> list[dict[str, Any]]: ...
def nvrtc_version() -> tuple[int, int]: ...
