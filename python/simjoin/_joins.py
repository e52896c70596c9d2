"""The functions of the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from simjoin import _input, _native
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
    columns,
    common,
    switch,
    threshold,
    tokenized,
    whole,
)
from simjoin._progress import shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from simjoin._native import Stream, Table


def _run(
    native: Callable[..., Any],
    describe: Callable[..., dict[str, object]],
    data: list[Any],
    request: dict[str, object],
    options: Mapping[str, Any],
) -> Any:
    """Passes one side or two to the engine, and waits for the answer."""
    called = ["data"] if len(data) == 1 else ["left", "right"]
    names = [columns(one, options.get(one), len(data)) for one in ("column", "id")]
    sides = [describe(*side) for side in zip(data, called, *names, strict=True)]
    with shown(options.get("progress", False)) as show:
        return native(sides[0], sides[1] if len(sides) == 2 else None, request, show)


def _sets(form: str, data: list[Any], options: SetOptions, with_itself: bool = False) -> Any:
    measures = ("jaccard", "cosine", "dice", "overlap", "containment")
    measure, text = threshold({name: options.get(name) for name in measures}, "jaccard=0.8")
    request = common(form, options) | tokenized(options)
    request |= {"measure": measure, "threshold": text}
    request |= {"with_itself": switch("with_itself", with_itself)}
    return _run(_native.join, _input.side, data, request, options)


def _vectors(form: str, data: list[Any], options: VectorOptions) -> Any:
    measures = {name: options.get(name) for name in ("within", "cosine")}
    measure, text = threshold(measures, "within=0.25")
    request = common(form, options) | {"measure": measure, "threshold": text}
    return _run(_native.vector_join, _input.vectors, data, request, options)


def _one_or_two(left: Any, right: Any) -> list[Any]:
    return [left] if right is None else [left, right]


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
    """Finds all pairs of similar rows of one collection.

    A row is a set of tokens: a list of strings or integers, or a text that ``tokens`` splits. ``data`` is a
    column or table of PyArrow, Polars, pandas, DuckDB or another library with Arrow's interface, a list of
    lists, or a list of strings. Each pair is found once, with the smaller row number on the left.

    A row that is missing (``None``, null, or missing to pandas) is an empty set: it keeps its row number and is
    in no pair. A missing token within a list is an error.

    >>> import simjoin as sj
    >>> sj.self_join([[1, 2, 3, 4], [1, 2, 3, 4, 5], [6]], jaccard=0.8)
    simjoin.Table: 1 row
      left  right  overlap  similarity
         0      1        4         0.8
    >>> sj.self_join(["The cat", "the CAT!", "a dog"], tokens="words", jaccard=1, count=True)
    1

    One threshold is needed. It is the number that its decimal text denotes, so pairs exactly on it are found:
    ``0.8`` is 4/5. Text (``"0.8"``, ``"2/3"``, ``"1e-3"``), ``Decimal`` and ``Fraction`` work too. Up to 38
    decimals are exact; ``cosine`` takes 18.

    :param jaccard: common tokens / all tokens
    :param cosine: common tokens / √(size · size)
    :param dice: 2 · common tokens / (size + size)
    :param overlap: common tokens
    :param containment: common tokens / smaller size
    :param column: the name of the column to join, if the table has several
    :param id: the column whose values name the rows in the answer, instead of row numbers
    :param tokens: ``words`` (lower-case words) or ``qgrams:Q`` for texts. By default they are split at white
        space and letter case is kept; the command ``simjoin text`` has the default ``words``
    :param multiset: keep repeated tokens: the k-th occurrence is a token of its own
    :param count: return only the number of pairs
    :param groups: return ``row, group`` for all rows: a group is named by the first row of its connected component
    :param stream: return an iterator of tables, in little memory, while the join runs
    :param engine: ``auto`` (the CPU, and a GPU if that is faster), ``cpu``, ``gpu``, or ``hybrid`` (both together)
    :param technique: the algorithm; the answer is the same for all
    :param threads: number of threads, one per core by default
    :param memory: memory for the join in addition to input and answer, such as ``"512M"`` or ``"4G"``
    :param device_memory: memory for the join on each GPU; all free memory by default
    :param progress: show a bar, or call a function with the phase, the work done and the total work

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
    form = answer(count, groups, stream, progress)
    found: Table | Stream | int = _sets(form, [data], options)
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
    """Finds all pairs of a row on the left and a similar one on the right.

    >>> import simjoin as sj
    >>> sj.join(["salt", "pepper"], ["peppers", "sugar"], tokens="qgrams:2", cosine=0.7).rows()
    [(1, 0, 5, 0.7715167498104595)]

    Options are those of :func:`self_join`. ``column`` and ``id`` are one name for both sides, or a tuple of the
    name on the left and the name on the right.

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
    form = answer(count, False, stream, progress)
    found: Table | Stream | int = _sets(form, [left, right], options, with_itself)
    return found


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
    """Finds all pairs of vectors within a distance, or with at least a cosine.

    Vectors are the rows of an array of NumPy, a column of lists of floating-point numbers, or a list of lists.
    None may be missing. Without ``right`` the vectors are joined with themselves, each pair once.

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
        raise UsageError("`groups=True` needs one collection, but two were given")
    form = answer(count, groups, stream, progress)
    found: Table | Stream | int = _vectors(form, _one_or_two(left, right), options)
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
    """Counts the common tokens of every pair of rows, without a threshold.

    >>> import simjoin as sj
    >>> sorted(sj.overlaps([["a", "b"], ["b", "c"], ["d"]]).rows())
    [(0, 1, 1), (0, 2, 0), (1, 2, 0)]
    >>> sj.overlaps([["a", "b"], ["b", "c"], ["d"]], top=1).rows()
    [(0, 1, 1), (1, 0, 1)]

    :param positive: leave out pairs without a common token
    :param top: the number of partners of each row, those with the most common tokens; all by default

    Other options are those of :func:`self_join`.
    """
    options: OverlapOptions = {
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
    request = common(answer(count, False, stream, progress), options) | tokenized(options)
    request |= {
        "positive": switch("positive", positive),
        "top": whole("top", top, "a whole number from 1"),
    }
    data = _one_or_two(left, right)
    found: Table | Stream | int = _run(_native.overlaps, _input.side, data, request, options)
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
    """Counts or lists the common elements of two single sets.

    A set is an array, a column, a list or a set, with up to hundreds of millions of integers or strings.

    >>> import simjoin as sj
    >>> sj.intersect([7, 3, 5], {3, 7, 11})
    2
    >>> sj.intersect([7, 3, 5], {3, 7, 11}, elements=True).to_dict()
    {'element': [3, 7]}
    >>> sj.intersect(["salt", "oil"], ["oil"], containment=True)
    1.0

    :param elements: return a table of the common elements
    :param containment: return the share of the smaller set that is in the other one: 1 for a subset
    """
    if elements and containment:
        raise UsageError("elements and containment were given; expected one of them")
    form = "elements" if elements else "size"
    request = common(form, {"engine": engine, "technique": technique, "threads": threads})
    sides = _input.elements(left, "left"), _input.elements(right, "right")
    found: Any = _native.intersect(*sides, request)
    if elements:
        table: Table = found
        return table
    degree: float = found["containment"]
    count: int = found["size"]
    return degree if containment else count


@dataclass(frozen=True)
class Plan:
    """The plan of a join; its text is what ``simjoin --explain`` shows."""

    text: str
    """The plan as text."""
    techniques: list[str]
    """The technique of each part."""
    pairs: float | None
    """The expected number of pairs."""
    seconds: float | None
    """The expected seconds."""
    considered: list[list[tuple[str, float | None]]]
    """The techniques considered for each part, with their expected seconds; None if one cannot be used."""

    def __str__(self) -> str:
        return self.text


def _known(function: str, options: Mapping[str, Any], kind: Any) -> None:
    """Refuses unknown keywords, as Python does for functions that list theirs."""
    for name in options.keys() - kind.__annotations__.keys():
        raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")


def plan(left: Any, right: Any = None, **options: Unpack[SetOptions]) -> Plan:
    """Plans :func:`self_join` or :func:`join`, without running it.

    >>> import simjoin as sj
    >>> rows = [[1, 2, 3], [1, 2, 3, 4]] * 50
    >>> found = sj.plan(rows, jaccard=0.7, threads=1)
    >>> len(found.techniques) >= 1 and "expected: about" in found.text
    True
    """
    _known("plan", options, SetOptions)
    return Plan(**_sets("plan", _one_or_two(left, right), options))


def vector_plan(left: Any, right: Any = None, **options: Unpack[VectorOptions]) -> Plan:
    """Plans :func:`vector_join`, without running it."""
    _known("vector_plan", options, VectorOptions)
    return Plan(**_vectors("plan", _one_or_two(left, right), options))


def explain(left: Any, right: Any = None, **options: Unpack[SetOptions]) -> str:
    """Returns the text of :func:`plan`."""
    return plan(left, right, **options).text


@dataclass(frozen=True)
class Device:
    """A GPU. A simulated one has only a name."""

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
