"""What can be told to a join, and how is it written down for the engine?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypedDict

from simjoin._errors import UsageError

Number = float | int | str | Decimal | Fraction
"""A threshold: the number that its decimal text denotes. ``0.8`` is 4/5."""

Names = str | tuple[str | None, str | None] | None
"""A name for both sides, or one for each."""

Size = int | str | None
"""Bytes, or text such as ``512M`` or ``4G``."""

Progress = bool | Callable[[str, int, int], object]
"""Whether to show a bar, or what to call with the phase, the work done and the work in all."""


class Common(TypedDict, total=False):
    """Options of every join."""

    column: Names
    id: Names
    technique: str
    threads: int | None
    memory: Size
    progress: Progress


class SetOptions(Common, total=False):
    """Options of joins of sets and texts."""

    jaccard: Number | None
    cosine: Number | None
    dice: Number | None
    overlap: Number | None
    containment: Number | None
    tokens: str | None
    multiset: bool
    engine: str
    device_memory: Size


class OverlapOptions(Common, total=False):
    """Options of overlaps."""

    tokens: str | None
    multiset: bool
    positive: bool
    top: int | None
    engine: str
    device_memory: Size


class VectorOptions(Common, total=False):
    """Options of joins of vectors."""

    within: Number | None
    cosine: Number | None
    engine: str
    device_memory: Size


def decimal(name: str, value: Any) -> str:
    """A threshold as decimal text. A float is read by the shortest text that denotes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise UsageError(f"{name} {value!r} is no number; expected one such as 0.8")
    if isinstance(value, float):
        # NumPy's double is a float, but writes itself otherwise.
        value = Decimal(float.__repr__(value))
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def threshold(measures: Mapping[str, Any], example: str) -> tuple[str, str]:
    """The one measure that was given, and its threshold."""
    given = [(name, value) for name, value in measures.items() if value is not None]
    if not given:
        raise UsageError(f"no threshold was given, such as {example}")
    if len(given) > 1:
        names = " and ".join(name for name, _ in given)
        raise UsageError(f"{names} were given; expected one of them")
    name, value = given[0]
    return name, decimal(name, value)


def size(value: Size) -> str | None:
    """A number of bytes as the engine reads it."""
    return None if value is None else str(value)


def limits(threads: int | None, memory: Size) -> dict[str, object]:
    """What a join may take."""
    if threads is not None and (isinstance(threads, bool) or threads < 1):
        raise UsageError(f"threads {threads!r} does not fit; expected a number from 1 to 1024")
    return {"threads": threads, "memory": size(memory)}


def answer(count: bool, groups: bool, stream: bool) -> str:
    """The form of the answer."""
    forms = {"count": count, "groups": groups, "stream": stream}
    given = [name for name, wanted in forms.items() if wanted]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} were given; expected one of them")
    return given[0] if given else "pairs"


def pair(names: Names) -> tuple[str | None, str | None]:
    """The name for the left side and the one for the right."""
    if names is None or isinstance(names, str):
        return names, names
    left, right = names
    return left, right
