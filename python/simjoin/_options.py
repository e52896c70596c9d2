"""Which options do joins have, and how are they passed to the engine?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypedDict

from simjoin import _gpu
from simjoin._errors import UsageError

Number = float | int | str | Decimal | Fraction
"""A threshold: the number that its decimal text denotes. ``0.8`` is 4/5."""

Names = str | tuple[str | None, str | None] | None
"""A name for both sides, or one for each."""

Size = int | str | None
"""Bytes, or text such as ``512M`` or ``4G``."""

Progress = bool | Callable[[str, int, int], object]
"""Whether to show a bar, or a function to call with the phase, the work done and the total work."""


class Common(TypedDict, total=False):
    """Options of every join."""

    column: Names
    id: Names
    engine: str
    technique: str
    threads: int | None
    memory: Size
    device_memory: Size
    progress: Progress


class TokenOptions(Common, total=False):
    """Options of all functions that make sets of texts."""

    tokens: str | None
    multiset: bool


class SetOptions(TokenOptions, total=False):
    """Options of joins of sets and texts."""

    jaccard: Number | None
    cosine: Number | None
    dice: Number | None
    overlap: Number | None
    containment: Number | None


class OverlapOptions(TokenOptions, total=False):
    """Options of overlaps."""

    positive: bool
    top: int | None


class VectorOptions(Common, total=False):
    """Options of joins of vectors."""

    within: Number | None
    cosine: Number | None


def common(form: str, options: Mapping[str, Any]) -> dict[str, object]:
    """Returns the options of every kind of join, in the form that the engine needs."""
    engine = text("engine", options.get("engine", "auto"), "`auto`")
    _gpu.set_variable_for(engine)
    return {
        "engine": engine,
        "technique": text("technique", options.get("technique", "auto"), "`auto`"),
        "device_memory": size(options.get("device_memory")),
        "answer": form,
        "limits": limits(options.get("threads"), options.get("memory")),
    }


def tokenized(options: Mapping[str, Any]) -> dict[str, object]:
    """Returns the options that determine how texts become sets."""
    tokens = options.get("tokens")
    return {
        "tokens": None if tokens is None else text("tokens", tokens, "`words` or `qgrams:3`"),
        "multiset": switch("multiset", options.get("multiset", False)),
    }


def text(name: str, value: Any, examples: str) -> str:
    """Checks that an option is text."""
    if isinstance(value, str):
        return value
    raise UsageError(f"`{name}` is a {type(value).__name__}; expected text such as {examples}")


def switch(name: str, value: Any) -> bool:
    """Checks that an option is true or false, as a bool of Python or NumPy."""
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise UsageError(f"`{name}` is {value!r}; expected True or False")


def whole(name: str, value: Any, expected: str) -> int | None:
    """Checks that an option is a whole number from 1, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise UsageError(f"{name} {value!r} does not fit; expected {expected}")
    return int(value)


def decimal(name: str, value: Any) -> str:
    """Writes a threshold as text. A float becomes the shortest decimal that denotes it."""
    if isinstance(value, bool):
        raise UsageError(f"{name} {value!r} is not a number; expected one such as 0.8")
    if isinstance(value, float):
        # NumPy's double is a float, but has a representation of its own.
        return float.__repr__(value)
    return str(value)


def threshold(measures: Mapping[str, Any], example: str) -> tuple[str, str]:
    """Returns the one measure that was given, and its threshold."""
    given = [(name, value) for name, value in measures.items() if value is not None]
    if not given:
        raise UsageError(f"no threshold was given, such as {example}")
    if len(given) > 1:
        names = " and ".join(name for name, _ in given)
        raise UsageError(f"{names} were given; expected one of them")
    name, value = given[0]
    return name, decimal(name, value)


def size(value: Size) -> str | None:
    """Writes a number of bytes as the engine reads it."""
    return None if value is None else str(value)


def limits(threads: int | None, memory: Size) -> dict[str, object]:
    """Returns the threads and the memory that a join may use."""
    return {
        "threads": whole("threads", threads, "a number from 1 to 1024"),
        "memory": size(memory),
    }


def answer(count: bool, groups: bool, stream: bool, progress: Progress = False) -> str:
    """Returns the form of the answer."""
    forms = {"count": count, "groups": groups, "stream": stream}
    given = [name for name, wanted in forms.items() if wanted]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} were given; expected one of them")
    if stream and progress is not False:
        raise UsageError("`progress` cannot be combined with `stream=True`")
    return given[0] if given else "pairs"


def columns(option: str, value: Any, sides: int) -> list[str | None]:
    """Returns the name of one column for each side."""
    if value is None or isinstance(value, str):
        return [value] * sides
    named = [one is None or isinstance(one, str) for one in value] if type(value) is tuple else []
    if sides == 2 and named == [True, True]:
        return list(value)
    pair = ", or a tuple of a name on the left and one on the right" if sides == 2 else ""
    raise UsageError(
        f"`{option}={value!r}` does not fit; expected the name of one column{pair} "
        "(several columns cannot be joined yet)"
    )
