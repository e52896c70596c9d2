"""What can be asked for?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from simjoin import _gpu, _input, _native
from simjoin._errors import UsageError
from simjoin._options import (
    Names,
    Number,
    OverlapOptions,
    Progress,
    SetOptions,
    Size,
    VectorOptions,
    answer,
    limits,
    pair,
    size,
    threshold,
)
from simjoin._progress import shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from simjoin._native import Stream, Table


def _set_options(form: str, options: SetOptions, with_itself: bool = False) -> dict[str, object]:
    names = ("jaccard", "cosine", "dice", "overlap", "containment")
    measure, text = threshold({name: options.get(name) for name in names}, "jaccard=0.8")
    engine = options.get("engine", "auto")
    _gpu.offer_for(engine)
    return {
        "measure": measure,
        "threshold": text,
        "tokens": options.get("tokens"),
        "multiset": options.get("multiset", False),
        "engine": engine,
        "technique": options.get("technique", "auto"),
        "device_memory": size(options.get("device_memory")),
        "with_itself": with_itself,
        "answer": form,
        "limits": limits(options.get("threads"), options.get("memory")),
    }


def _sides(
    left: Any, right: Any, both: bool, column: Names, id: Names, take: Any
) -> tuple[dict[str, object], dict[str, object] | None]:
    (left_column, right_column), (left_id, right_id) = pair(column), pair(id)
    one = take(left, "left" if both else "data", left_column, left_id)
    return one, take(right, "right", right_column, right_id) if both else None


def _sets(
    left: Any,
    right: Any,
    both: bool,
    form: str,
    options: SetOptions,
    with_itself: bool = False,
) -> Any:
    told = _set_options(form, options, with_itself)
    progress = options.get("progress", False)
    _no_progress_of_streams(form, progress)
    sides = _sides(left, right, both, options.get("column"), options.get("id"), _input.side)
    with shown(progress) as show:
        return _native.join(*sides, told, show)


def _no_progress_of_streams(form: str, progress: Progress) -> None:
    if form == "stream" and progress is not False:
        raise UsageError("progress is not for streams: whoever reads one sees how far it is")


@overload
def self_join(data: Any, *, count: Literal[True], **options: Unpack[SetOptions]) -> int: ...
@overload
def self_join(data: Any, *, stream: Literal[True], **options: Unpack[SetOptions]) -> Stream: ...
@overload
def self_join(data: Any, *, groups: bool = False, **options: Unpack[SetOptions]) -> Table: ...
def self_join(
    data: Any,
    *,
    jaccard: Number | None = None,
    cosine: Number | None = None,
    dice: Number | None = None,
    overlap: Number | None = None,
    containment: Number | None = None,
    column: Names = None,
    id: Names = None,
    tokens: str | None = None,
    multiset: bool = False,
    count: bool = False,
    groups: bool = False,
    stream: bool = False,
    engine: str = "auto",
    technique: str = "auto",
    threads: int | None = None,
    memory: Size = None,
    device_memory: Size = None,
    progress: Progress = False,
) -> Table | Stream | int:
    """All pairs of similar rows of one collection.

    A row is a set of tokens: a list of strings or integers, or a text that ``tokens`` cuts up. ``data`` is a
    column or table of PyArrow, Polars, pandas, DuckDB or anything else that speaks Arrow, a list of lists, or a
    list of strings. Each pair comes once, the smaller row number on the left.

    >>> import simjoin as sj
    >>> sj.self_join([[1, 2, 3, 4], [1, 2, 3, 4, 5], [6]], jaccard=0.8)
    simjoin.Table: 1 row
      left  right  overlap  similarity
         0      1        4         0.8
    >>> sj.self_join(["The cat", "the CAT!", "a dog"], tokens="words", jaccard=1, count=True)
    1

    One threshold is needed. It is the number that its decimal text denotes, so pairs that sit on it exactly are
    found: ``0.8`` is 4/5; text (``"0.8"``, ``"2/3"``), ``Decimal`` and ``Fraction`` work too.

    :param jaccard: common tokens / all tokens
    :param cosine: common tokens / √(size · size)
    :param dice: 2 · common tokens / (size + size)
    :param overlap: common tokens
    :param containment: common tokens / smaller size
    :param column: the column to join, where there are several
    :param id: the column that names rows in the answer, in place of their numbers
    :param tokens: ``words`` or ``qgrams:Q`` for texts; without it they are split at white space
    :param multiset: keep repeated tokens: the k-th occurrence is a token of its own
    :param count: answer with the number of pairs alone
    :param groups: answer with ``row, group``, the smallest row of each row's connected component
    :param stream: answer with an iterator of tables while the join goes on, in little memory
    :param engine: ``auto``, the CPU, and a GPU where that pays; ``cpu``, ``gpu``, or ``hybrid`` for both at once
    :param technique: how to join; the answer is the same
    :param threads: number of threads, one per core by default
    :param memory: memory for the join beside the input, such as ``"512M"`` or ``"4G"``
    :param device_memory: memory for the join on each GPU, all that is free by default
    :param progress: show a bar, or call a function with phase, work done and work in all

    >>> sj.self_join([["a"], ["b"], ["a"]], jaccard=1, groups=True).rows()
    [(0, 0), (1, 1), (2, 0)]
    >>> with sj.self_join([["a"]] * 3, jaccard=1, stream=True) as batches:
    ...     sum(len(batch) for batch in batches)
    3
    """
    options: SetOptions = {
        "jaccard": jaccard,
        "cosine": cosine,
        "dice": dice,
        "overlap": overlap,
        "containment": containment,
        "column": column,
        "id": id,
        "tokens": tokens,
        "multiset": multiset,
        "engine": engine,
        "technique": technique,
        "threads": threads,
        "memory": memory,
        "device_memory": device_memory,
        "progress": progress,
    }
    found: Table | Stream | int = _sets(data, None, False, answer(count, groups, stream), options)
    return found


@overload
def join(
    left: Any,
    right: Any,
    *,
    count: Literal[True],
    with_itself: bool = False,
    **options: Unpack[SetOptions],
) -> int: ...
@overload
def join(
    left: Any,
    right: Any,
    *,
    stream: Literal[True],
    with_itself: bool = False,
    **options: Unpack[SetOptions],
) -> Stream: ...
@overload
def join(
    left: Any, right: Any, *, with_itself: bool = False, **options: Unpack[SetOptions]
) -> Table: ...
def join(
    left: Any,
    right: Any,
    *,
    jaccard: Number | None = None,
    cosine: Number | None = None,
    dice: Number | None = None,
    overlap: Number | None = None,
    containment: Number | None = None,
    column: Names = None,
    id: Names = None,
    tokens: str | None = None,
    multiset: bool = False,
    with_itself: bool = False,
    count: bool = False,
    stream: bool = False,
    engine: str = "auto",
    technique: str = "auto",
    threads: int | None = None,
    memory: Size = None,
    device_memory: Size = None,
    progress: Progress = False,
) -> Table | Stream | int:
    """All pairs of a row on the left and a similar one on the right.

    >>> import simjoin as sj
    >>> sj.join(["salt", "pepper"], ["peppers", "sugar"], tokens="qgrams:2", cosine=0.7).rows()
    [(1, 0, 5, 0.7715167498104595)]

    Options are those of :func:`self_join`; ``column`` and ``id`` may be a name for each side.

    :param with_itself: join the right side with itself as well: new rows with old ones and with each other. A
        column ``left_input`` tells the two kinds of pairs apart

    >>> sj.join([["a"]], [["a"], ["a"]], jaccard=1, with_itself=True).to_dict()["left_input"]
    ['left', 'left', 'right']
    """
    options: SetOptions = {
        "jaccard": jaccard,
        "cosine": cosine,
        "dice": dice,
        "overlap": overlap,
        "containment": containment,
        "column": column,
        "id": id,
        "tokens": tokens,
        "multiset": multiset,
        "engine": engine,
        "technique": technique,
        "threads": threads,
        "memory": memory,
        "device_memory": device_memory,
        "progress": progress,
    }
    form = answer(count, False, stream)
    found: Table | Stream | int = _sets(left, right, True, form, options, with_itself)
    return found


def _vector_options(form: str, options: VectorOptions) -> dict[str, object]:
    measures = {name: options.get(name) for name in ("within", "cosine")}
    measure, text = threshold(measures, "within=0.25")
    engine = options.get("engine", "auto")
    _gpu.offer_for(engine)
    return {
        "measure": measure,
        "threshold": text,
        "engine": engine,
        "technique": options.get("technique", "auto"),
        "device_memory": size(options.get("device_memory")),
        "answer": form,
        "limits": limits(options.get("threads"), options.get("memory")),
    }


def _vectors(left: Any, right: Any, form: str, options: VectorOptions) -> Any:
    told = _vector_options(form, options)
    progress = options.get("progress", False)
    _no_progress_of_streams(form, progress)
    both = right is not None
    sides = _sides(left, right, both, options.get("column"), options.get("id"), _input.vectors)
    with shown(progress) as show:
        return _native.vector_join(*sides, told, show)


@overload
def vector_join(
    left: Any, right: Any = None, *, count: Literal[True], **options: Unpack[VectorOptions]
) -> int: ...
@overload
def vector_join(
    left: Any, right: Any = None, *, stream: Literal[True], **options: Unpack[VectorOptions]
) -> Stream: ...
@overload
def vector_join(
    left: Any, right: Any = None, *, groups: bool = False, **options: Unpack[VectorOptions]
) -> Table: ...
def vector_join(
    left: Any,
    right: Any = None,
    *,
    within: Number | None = None,
    cosine: Number | None = None,
    column: Names = None,
    id: Names = None,
    count: bool = False,
    groups: bool = False,
    stream: bool = False,
    engine: str = "auto",
    technique: str = "auto",
    threads: int | None = None,
    memory: Size = None,
    device_memory: Size = None,
    progress: Progress = False,
) -> Table | Stream | int:
    """All pairs of vectors within a distance, or of at least a cosine.

    Vectors are the rows of an array of NumPy, a column of lists of floating-point numbers, or a list of lists.
    Without ``right`` the vectors are joined with themselves, each pair once.

    >>> import numpy as np
    >>> import simjoin as sj
    >>> points = np.array([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]])
    >>> sj.vector_join(points, within=5)
    simjoin.Table: 1 row
      left  right  distance
         0      1       5.0

    :param within: the largest Euclidean distance
    :param cosine: the smallest cosine; the distance is 1 − cosine then

    Other options are those of :func:`self_join`.
    """
    options: VectorOptions = {
        "within": within,
        "cosine": cosine,
        "column": column,
        "id": id,
        "engine": engine,
        "technique": technique,
        "threads": threads,
        "memory": memory,
        "device_memory": device_memory,
        "progress": progress,
    }
    if groups and right is not None:
        raise UsageError("groups are for one collection, and two were given")
    found: Table | Stream | int = _vectors(left, right, answer(count, groups, stream), options)
    return found


@overload
def overlaps(
    left: Any, right: Any = None, *, count: Literal[True], **options: Unpack[OverlapOptions]
) -> int: ...
@overload
def overlaps(
    left: Any, right: Any = None, *, stream: Literal[True], **options: Unpack[OverlapOptions]
) -> Stream: ...
@overload
def overlaps(left: Any, right: Any = None, **options: Unpack[OverlapOptions]) -> Table: ...
def overlaps(
    left: Any,
    right: Any = None,
    *,
    positive: bool = False,
    top: int | None = None,
    column: Names = None,
    id: Names = None,
    tokens: str | None = None,
    multiset: bool = False,
    count: bool = False,
    stream: bool = False,
    engine: str = "auto",
    technique: str = "auto",
    threads: int | None = None,
    memory: Size = None,
    device_memory: Size = None,
    progress: Progress = False,
) -> Table | Stream | int:
    """The number of common tokens of every pair of rows, without a threshold.

    >>> import simjoin as sj
    >>> sorted(sj.overlaps([["a", "b"], ["b", "c"], ["d"]]).rows())
    [(0, 1, 1), (0, 2, 0), (1, 2, 0)]
    >>> sj.overlaps([["a", "b"], ["b", "c"], ["d"]], top=1).rows()
    [(0, 1, 1), (1, 0, 1)]

    :param positive: leave out pairs that have nothing in common
    :param top: for each row only so many partners, those with the most in common

    Other options are those of :func:`self_join`.
    """
    if top is not None and (isinstance(top, bool) or top < 1):
        raise UsageError(f"top {top!r} does not fit; expected a whole number from 1")
    form = answer(count, False, stream)
    _no_progress_of_streams(form, progress)
    _gpu.offer_for(engine)
    told = {
        "tokens": tokens,
        "multiset": multiset,
        "positive": positive,
        "top": top,
        "engine": engine,
        "technique": technique,
        "device_memory": size(device_memory),
        "answer": form,
        "limits": limits(threads, memory),
    }
    sides = _sides(left, right, right is not None, column, id, _input.side)
    with shown(progress) as show:
        found: Table | Stream | int = _native.overlaps(*sides, told, show)
    return found


@overload
def intersect(
    left: Any,
    right: Any,
    *,
    elements: Literal[True],
    engine: str = "auto",
    technique: str = "auto",
    threads: int | None = None,
) -> Table: ...
@overload
def intersect(
    left: Any,
    right: Any,
    *,
    containment: Literal[True],
    engine: str = "auto",
    technique: str = "auto",
    threads: int | None = None,
) -> float: ...
@overload
def intersect(
    left: Any,
    right: Any,
    *,
    engine: str = "auto",
    technique: str = "auto",
    threads: int | None = None,
) -> int: ...
def intersect(
    left: Any,
    right: Any,
    *,
    elements: bool = False,
    containment: bool = False,
    engine: str = "auto",
    technique: str = "auto",
    threads: int | None = None,
) -> Table | float | int:
    """What two single sets have in common: how many elements, or which.

    A set is an array, a column, a list or a set of integers or strings, of up to hundreds of millions.

    >>> import simjoin as sj
    >>> sj.intersect([7, 3, 5], {3, 7, 11})
    2
    >>> sj.intersect([7, 3, 5], {3, 7, 11}, elements=True).to_dict()
    {'element': [3, 7]}
    >>> sj.intersect(["salt", "oil"], ["oil"], containment=True)
    1.0

    :param elements: answer with a table of the elements
    :param containment: answer with the part of the smaller set that is in the other one: 1 for a subset
    """
    if elements and containment:
        raise UsageError("elements and containment were given; expected one of them")
    form = "elements" if elements else "size"
    _gpu.offer_for(engine)
    told = {
        "engine": engine,
        "technique": technique,
        "answer": form,
        "limits": limits(threads, None),
    }
    sides = _input.elements(left, "left"), _input.elements(right, "right")
    found: Any = _native.intersect(*sides, told)
    if elements:
        table: Table = found
        return table
    degree: float = found["containment"]
    count: int = found["size"]
    return degree if containment else count


@dataclass(frozen=True)
class Plan:
    """What a join is going to do; as text, what ``simjoin --explain`` shows."""

    text: str
    """The plan in words."""
    techniques: list[str]
    """The technique of each part."""
    pairs: float | None
    """The expected number of pairs."""
    seconds: float | None
    """The expected seconds."""
    considered: list[list[tuple[str, float | None]]]
    """What each part could be done by, with the seconds that it would take, if it can."""

    def __str__(self) -> str:
        return self.text


def plan(left: Any, right: Any = None, **options: Unpack[SetOptions]) -> Plan:
    """What :func:`self_join` or :func:`join` would do, without doing it.

    >>> import simjoin as sj
    >>> rows = [[1, 2, 3], [1, 2, 3, 4]] * 50
    >>> found = sj.plan(rows, jaccard=0.7, threads=1)
    >>> len(found.techniques) >= 1 and "expected: about" in found.text
    True
    """
    return Plan(**_sets(left, right, right is not None, "plan", options))


def vector_plan(left: Any, right: Any = None, **options: Unpack[VectorOptions]) -> Plan:
    """What :func:`vector_join` would do, without doing it."""
    return Plan(**_vectors(left, right, "plan", options))


def explain(left: Any, right: Any = None, **options: Unpack[SetOptions]) -> str:
    """:func:`plan` in words."""
    return plan(left, right, **options).text


@dataclass(frozen=True)
class Device:
    """A GPU. Of a simulated one only the name is known."""

    name: str
    ordinal: int | None
    memory: int | None
    capability: tuple[int, int] | None
    driver: tuple[int, int] | None


def devices() -> list[Device]:
    """Lists the GPUs of this machine. The list is empty if none can be used; a join with `engine="gpu"` says why.

    >>> import simjoin as sj
    >>> isinstance(sj.devices(), list)
    True
    """
    return [Device(**device) for device in _native.devices()]
