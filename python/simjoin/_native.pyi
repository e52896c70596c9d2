"""The native half of the package."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

__all__ = [
    "ClusterCounter",
    "ClusterLayout",
    "ClusterOrder",
    "ClusterRouter",
    "ClusterSample",
    "ClusterTask",
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
    """An answer in memory, with Arrow's interface."""

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
    """An answer of a running join: an iterator of tables."""

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

@final
class ClusterCounter:
    """Counts tokens and sizes in a partition of a cluster, and draws a sample."""

    def __new__(
        cls,
        keys: tuple[int, int],
        tokens: str | None,
        multiset: bool,
        partition: int,
        sample: int,
    ) -> ClusterCounter: ...
    def add(self, name: str, array: object) -> Table: ...
    def finish(self) -> Table: ...

@final
class ClusterOrder:
    """The global order of tokens."""

    def __new__(cls, keys: tuple[int, int], table: bytes, complete: bool) -> ClusterOrder: ...
    def __len__(self) -> int: ...

@final
class ClusterLayout:
    """The tasks of a join, and the assignment of records to them."""

    def __new__(cls, text: str) -> ClusterLayout: ...
    def tasks(self) -> list[tuple[int, int, int]]: ...
    def tasks_for(self, gpu: bool) -> list[int]: ...
    def group_of(self, place: int) -> int: ...

@final
class ClusterSample:
    """A sample of records, on which layouts are evaluated."""

    def __new__(cls) -> ClusterSample: ...
    def add(self, order: ClusterOrder, side: int, records: object) -> None: ...
    def __len__(self) -> int: ...
    def bytes(self) -> int: ...
    def prefix_counts(self, layout: ClusterLayout) -> list[tuple[int, int]]: ...
    def cuts(self, layout: ClusterLayout, group: int | None) -> list[tuple[int, int]]: ...
    def loads(
        self, layout: ClusterLayout
    ) -> list[tuple[int, int, int, int, int, float, float]]: ...

@final
class ClusterRouter:
    """Sends the records of a partition to tasks."""

    def __new__(
        cls,
        order: ClusterOrder,
        layout: ClusterLayout,
        tokens: str | None,
        multiset: bool,
        start: tuple[int, int],
        gpu: bool,
    ) -> ClusterRouter: ...
    def add(self, name: str, array: object, id: str, ids: object | None) -> Table: ...
    def finish(self) -> tuple[Table, int]: ...

@final
class ClusterTask:
    """Joins the records of a task."""

    def __new__(cls, layout: ClusterLayout, place: int, gpu: bool) -> ClusterTask: ...
    def add(self, blocks: object) -> None: ...
    def run(self, engine: str, technique: str, threads: int, memory: str | None) -> Stream: ...
