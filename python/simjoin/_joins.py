"""What can be asked for?"""

from __future__ import annotations

from typing import Any

from simjoin import _native
from simjoin._errors import UsageError


def _threshold(value: Any) -> str:
    if isinstance(value, bool):
        raise UsageError(f"threshold {value!r} is no number; expected one such as 0.8")
    if isinstance(value, float):
        # The shortest decimal that reads back as the same number, without an exponent.
        return format(__import__("decimal").Decimal(repr(value)), "f")
    return str(value)


def self_join(data: Any, **options: Any) -> Any:
    return _join(data, None, **options)


def join(left: Any, right: Any, **options: Any) -> Any:
    return _join(left, right, **options)


def _join(left: Any, right: Any, *, column: str | None = None, id: str | None = None, tokens: str | None = None,
          multiset: bool = False, engine: str = "auto", technique: str = "auto", threads: int | None = None,
          memory: int | str | None = None, device_memory: int | str | None = None, with_itself: bool = False,
          count: bool = False, groups: bool = False, stream: bool = False, **measures: Any) -> Any:
    (measure, value), = measures.items()
    side = lambda data, name: {"data": data, "name": name, "column": column, "id": id, "ids": None}
    answer = "count" if count else "groups" if groups else "stream" if stream else "pairs"
    options = {
        "measure": measure, "threshold": _threshold(value), "tokens": tokens, "multiset": multiset,
        "engine": engine, "technique": technique,
        "device_memory": None if device_memory is None else str(device_memory),
        "with_itself": with_itself, "answer": answer,
        "limits": {"threads": threads, "memory": None if memory is None else str(memory)},
    }
    return _native.join(side(left, "data" if right is None else "left"),
                        None if right is None else side(right, "right"), options, None)
