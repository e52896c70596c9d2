"""Exact similarity joins for sets, text and vectors.

>>> import simjoin as sj
>>> titles = ["the cat sat", "the cat sat down", "a dog"]
>>> sj.self_join(titles, tokens="words", jaccard=0.7)
simjoin.Table: 1 row
  left  right  overlap  similarity
     0      1        3        0.75
"""

from simjoin import spark
from simjoin._errors import (
    Error,
    InputError,
    InternalError,
    MemoryLimitError,
    UnavailableError,
    UsageError,
)
from simjoin._joins import (
    Device,
    Plan,
    devices,
    explain,
    intersect,
    join,
    overlaps,
    plan,
    self_join,
    vector_join,
    vector_plan,
)
from simjoin._native import Stream, Table, __version__

__all__ = [
    "Device",
    "Error",
    "InputError",
    "InternalError",
    "MemoryLimitError",
    "Plan",
    "Stream",
    "Table",
    "UnavailableError",
    "UsageError",
    "__version__",
    "devices",
    "explain",
    "intersect",
    "join",
    "overlaps",
    "plan",
    "self_join",
    "spark",
    "vector_join",
    "vector_plan",
]
