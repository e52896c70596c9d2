"""How are joins on Spark called?

:func:`self_join` and :func:`join` read the input once, as Spark jobs, to count tokens and to plan. Then they
return a lazy DataFrame. Neither the input nor the answer comes to the driver.

# Flow

    input ─► mapInArrow(Route) ─► blocks ─► repartitionById ─► mapInArrow(JoinTasks) ─► pairs
                                                           └─► the same for GPUs ──┘ (union)
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simjoin._errors import InputError, UnavailableError, UsageError
from simjoin._options import columns
from simjoin.spark import _statistics, _workers
from simjoin.spark._cluster import Cluster, Node
from simjoin.spark._layouts import Layout, Planner, Question, threshold_of
from simjoin.spark._statistics import Statistics

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile
    from pyspark.sql import DataFrame, SparkSession

BLOCKS = "partition int, block binary"


@dataclass
class JoinInput:
    """One input: the column to join and the ids, both in types that workers support."""

    data: DataFrame
    column: str
    id: str | None
    id_type: str = "bigint"


@dataclass
class Plan:
    """A join that is ready to run, with its layout and its expected costs."""

    statistics: Statistics
    layout: Layout
    considered: list[Layout] = field(repr=False)
    cluster: Cluster
    question: Question
    _sides: list[JoinInput] = field(repr=False)
    _options: dict[str, Any] = field(repr=False)

    def join(self) -> DataFrame:
        """Returns the pairs as a lazy DataFrame."""
        return _dataframe(self)

    def __str__(self) -> str:
        return _explanation(self)


def self_join(
    df: DataFrame,
    *,
    column: str | None = None,
    id: str | None = None,
    tokens: str | None = None,
    multiset: bool = False,
    jaccard: Any = None,
    cosine: Any = None,
    dice: Any = None,
    overlap: Any = None,
    containment: Any = None,
    distribution: str = "auto",
    tasks: int | None = None,
    cluster: Cluster | None = None,
    profile: ResourceProfile | None = None,
    engine: str = "cpu",
    technique: str = "auto",
    memory: int | str | None = None,
    explain: bool = False,
) -> DataFrame:
    """Returns all pairs of similar rows of a DataFrame.

    The answer has the columns ``left``, ``right`` (row numbers, or values of ``id``), ``overlap`` and
    ``similarity``. Each pair comes once, the earlier row on the left. The call reads ``df`` once to plan; the join
    itself runs when the answer is used, and reads ``df`` again. If the source may return other rows the second
    time, write or checkpoint it first; a join whose rows have changed is an error.

    :param column: the column to join, if there are several: strings, or arrays of strings or integers. A row that
        is null is an empty set: it keeps its row number and is in no pair
    :param id: the column that names rows in the answer: strings or integers
    :param tokens: ``words`` or ``qgrams:Q`` for strings. By default they are split at white space, and letter case
        is kept
    :param multiset: keep repeated tokens: the k-th occurrence is a token of its own
    :param jaccard: the threshold, or one of ``cosine``, ``dice``, ``overlap``, ``containment``
    :param distribution: ``tokens``, ``tiles``, or ``auto`` for the cheaper one
    :param tasks: the approximate number of tasks; by default the number that is expected to be best
    :param cluster: the cluster, if it has GPUs or differs from the running one
    :param profile: the resource profile of executors with a GPU; needed if tasks run on CPUs and on GPUs
    :param engine: the engine of CPU tasks: ``cpu``; others only if all executors have a GPU
    :param technique: the technique of the tasks; the answer does not depend on it
    :param memory: memory for the join of one task in addition to its records, such as ``"512M"``
    :param explain: print the layout and its expected costs
    """
    asked = dict(
        jaccard=jaccard, cosine=cosine, dice=dice, overlap=overlap, containment=containment
    )
    found = _plan(
        [df],
        column,
        id,
        tokens,
        multiset,
        asked,
        distribution,
        tasks,
        cluster,
        profile,
        engine,
        technique,
        memory,
    )
    if explain:
        print(found)
    return found.join()


def join(
    left: DataFrame,
    right: DataFrame,
    *,
    column: str | tuple[str, str] | None = None,
    id: str | tuple[str | None, str | None] | None = None,
    tokens: str | None = None,
    multiset: bool = False,
    jaccard: Any = None,
    cosine: Any = None,
    dice: Any = None,
    overlap: Any = None,
    containment: Any = None,
    distribution: str = "auto",
    tasks: int | None = None,
    cluster: Cluster | None = None,
    profile: ResourceProfile | None = None,
    engine: str = "cpu",
    technique: str = "auto",
    memory: int | str | None = None,
    explain: bool = False,
) -> DataFrame:
    """Returns all pairs of a row of ``left`` and a similar row of ``right``.

    ``column`` and ``id`` may be pairs of names, for the left and the right DataFrame. The other parameters are
    those of :func:`self_join`.
    """
    asked = dict(
        jaccard=jaccard, cosine=cosine, dice=dice, overlap=overlap, containment=containment
    )
    found = _plan(
        [left, right],
        column,
        id,
        tokens,
        multiset,
        asked,
        distribution,
        tasks,
        cluster,
        profile,
        engine,
        technique,
        memory,
    )
    if explain:
        print(found)
    return found.join()


def plan(
    left: DataFrame,
    right: DataFrame | None = None,
    *,
    column: str | tuple[str, str] | None = None,
    id: str | tuple[str | None, str | None] | None = None,
    tokens: str | None = None,
    multiset: bool = False,
    distribution: str = "auto",
    tasks: int | None = None,
    cluster: Cluster | None = None,
    profile: ResourceProfile | None = None,
    engine: str = "cpu",
    technique: str = "auto",
    memory: int | str | None = None,
    **threshold: Any,
) -> Plan:
    """Returns the plan of :func:`self_join` or, with two DataFrames, of :func:`join`. ``str()`` of the plan is the
    text that ``explain=True`` prints; :meth:`Plan.join` runs it.
    """
    inputs = [left] if right is None else [left, right]
    return _plan(
        inputs,
        column,
        id,
        tokens,
        multiset,
        threshold,
        distribution,
        tasks,
        cluster,
        profile,
        engine,
        technique,
        memory,
    )


def _plan(
    inputs: list[DataFrame],
    column: Any,
    id: Any,
    tokens: str | None,
    multiset: bool,
    asked: dict[str, Any],
    distribution: str,
    tasks: int | None,
    cluster: Cluster | None,
    profile: ResourceProfile | None,
    engine: str,
    technique: str,
    memory: int | str | None,
) -> Plan:
    measure, threshold = threshold_of(asked)
    question = Question(measure, threshold, len(inputs) == 1)
    # A wrong threshold or tokenizer is an error before anything runs.
    from simjoin import _native

    _native.ClusterLayout(question.spec([(None, 0, 1)], [[]]))
    _native.ClusterCounter((0, _statistics.BITS), tokens, multiset, 0, 0)
    sides = [
        _side(data, name, own, tokens)
        for data, name, own in zip(
            inputs,
            columns("column", column, len(inputs)),
            columns("id", id, len(inputs)),
            strict=True,
        )
    ]
    if cluster is None:
        cluster = Cluster([Node(cores=_context(inputs[0]).defaultParallelism)])
    if cluster.gpus and cluster.cores and profile is None:
        raise UsageError(
            "a cluster with CPUs and GPUs needs a profile: how Spark finds executors with a GPU"
        )
    statistics = _statistics.collect(
        [side.data for side in sides], [side.column for side in sides], tokens, multiset
    )
    planner = Planner(statistics, question, cluster)
    layout = planner.choose(distribution, tasks)
    options = dict(
        tokens=tokens,
        multiset=multiset,
        profile=profile,
        engine=engine,
        technique=technique,
        memory=None if memory is None else str(memory),
    )
    return Plan(statistics, layout, planner.considered, cluster, question, sides, options)


def _context(df: DataFrame) -> Any:
    try:
        return df.sparkSession.sparkContext
    except Exception as error:
        raise UnavailableError(
            "simjoin.spark needs a classic Spark session: Spark Connect has no broadcasts and profiles"
        ) from error


def _side(df: DataFrame, column: str | None, id: str | None, tokens: str | None) -> JoinInput:
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    fields = {field.name: field.dataType for field in df.schema.fields}
    if column is None:
        others = [name for name in fields if name != id]
        if len(others) != 1:
            raise UsageError(f"column is needed: there are {', '.join(others) or 'none'}")
        column = others[0]
    for name in (column, id):
        if name is not None and name not in fields:
            raise UsageError(f"there is no column `{name}`; there are {', '.join(fields)}")
    integers = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
    kind = fields[column]
    chosen = f.col(f"`{column}`")
    if isinstance(kind, t.ArrayType) and tokens is None and isinstance(kind.elementType, integers):
        chosen = chosen.cast("array<bigint>")
    elif not isinstance(kind, t.StringType) and not (
        isinstance(kind, t.ArrayType)
        and tokens is None
        and isinstance(kind.elementType, t.StringType)
    ):
        expected = "strings" if tokens else "strings, or arrays of strings or integers"
        raise InputError(
            f"column `{column}` is of type {kind.simpleString()}; {expected} were expected"
        )
    if id is None:
        return JoinInput(df.select(chosen.alias("set")), column, None)
    id_kind = fields[id]
    own = f.col(f"`{id}`")
    if isinstance(id_kind, integers):
        own = own.cast("bigint")
    elif not isinstance(id_kind, t.StringType):
        raise InputError(
            f"id column `{id}` is of type {id_kind.simpleString()}; strings or integers were expected"
        )
    both = df.select(chosen.alias("set"), own.alias("id"))
    return JoinInput(both, column, id, id_kind.simpleString())


def _dataframe(plan: Plan) -> DataFrame:
    sides, layout, statistics = plan._sides, plan.layout, plan.statistics
    context = _context(sides[0].data)
    order = context.broadcast((statistics.keys, statistics.table, statistics.complete))
    text = context.broadcast(layout.text)
    parts = [
        _processors(plan, order, text, gpu) for gpu in (False, True) if layout.partitions(gpu) > 0
    ]
    if not parts:
        empty = sides[0].data.sparkSession.createDataFrame([], _answer(sides))
        return _named(empty, sides)
    found = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
    return _named(found, sides)


def _processors(plan: Plan, order: Any, text: Any, gpu: bool) -> DataFrame:
    """Returns the pairs of the tasks for CPUs, or of those for GPUs."""
    from pyspark.sql import functions as f

    sides, layout, options = plan._sides, plan.layout, plan._options
    routed = []
    for number, side in enumerate(sides):
        route = _workers.Route(
            order,
            text,
            plan.statistics.spans[number],
            number,
            (side.column, side.id),
            options["tokens"],
            options["multiset"],
            gpu,
        )
        routed.append(side.data.mapInArrow(route, BLOCKS))
    blocks = routed[0] if len(routed) == 1 else routed[0].unionAll(routed[1])
    # Spark starts tasks in the order of their numbers.
    turns = f.from_json(f.lit(json.dumps(layout.turns(gpu))), "array<int>")
    tasks = blocks.repartitionById(layout.partitions(gpu), f.get(turns, f.col("partition")))
    engine = "gpu" if gpu else options["engine"]
    own = gpu and options["profile"] is not None
    work = _workers.JoinTasks(text, gpu, engine, options["technique"], options["memory"], own)
    if not own:
        return tasks.mapInArrow(work, _answer(sides))
    found = tasks.mapInArrow(work, _answer(sides), profile=options["profile"])
    # A separate stage: later stages need not run on nodes with GPUs.
    return found.repartition(max(plan.cluster.cores, 1), "left", "right")


def _answer(sides: list[JoinInput]) -> str:
    types = ["string" if side.id_type == "string" else "bigint" for side in sides]
    return f"left {types[0]}, right {types[-1]}, overlap bigint, similarity double"


def _named(found: DataFrame, sides: list[JoinInput]) -> DataFrame:
    """Returns the pairs with ids in their original types."""
    from pyspark.sql import functions as f

    columns = []
    for name, side in (("left", sides[0]), ("right", sides[-1])):
        own = f.col(name)
        columns.append(own.cast(side.id_type).alias(name) if side.id_type != "bigint" else own)
    return found.select(*columns, "overlap", "similarity")


def _explanation(plan: Plan) -> str:
    statistics, layout, cluster = plan.statistics, plan.layout, plan.cluster
    left, right = statistics.records
    records = f"{left:,} records" if plan.question.itself else f"{left:,} and {right:,} records"
    order = "all in the table" if statistics.complete else "the rarest by hash"
    lines = [
        f"{plan.question.measure} ≥ {plan.question.threshold}: {records}, {statistics.tokens:,} tokens, "
        f"{statistics.universe:,} different",
        f"tokens that several records have: {statistics.universe - statistics.unique:,}, {order}",
        f"cluster: {cluster.level}, {cluster.machines} node{_s(cluster.machines)}, "
        f"{cluster.cores} core{_s(cluster.cores)}, {cluster.gpus} GPU{_s(cluster.gpus)}",
    ]
    if layout.partitions(True):
        lines.append(
            f"work: {layout.shares[0]:.0%} for CPUs ({layout.partitions(False)} tasks), "
            f"{layout.shares[1]:.0%} for GPUs ({layout.partitions(True)} tasks)"
        )
    lines.append("")
    lines.append("  distribution   tasks  groups  heavy  copies  shuffled  skew  seconds")
    best: dict[str, Layout] = {}
    for one in plan.considered:
        best.setdefault(one.distribution, one)
    shown = [layout] + [one for one in best.values() if one.distribution != layout.distribution]
    for one in shown:
        mark = "►" if one is layout else " "
        lines.append(
            f"{mark} {one.distribution:<12} {len(one.tasks):>7} {one.groups:>7} {one.heavy:>6} "
            f"{one.copies:>7.2f} {_bytes(one.bytes):>9} {one.skew:>5.1f} {one.seconds:>8.1f}"
        )
    return "\n".join(lines)


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def measure(
    spark: SparkSession, profile: ResourceProfile | None = None
) -> tuple[float, float | None]:
    """Measures the speed of a core and, with a profile, of a GPU of the cluster, relative to the machine that costs
    were measured on. The results are rates for :meth:`Cluster.with_rates`.
    """
    from simjoin.spark import _measure

    return _measure.rates(spark, profile)
