"""How long would a join take on a given cluster?

The prediction is the planner's arithmetic (:mod:`simjoin.spark._layouts`) on the statistics of a collection, scaled
to any number of records, and on the description of a cluster. ``python -m simjoin.spark validate`` compares it with
measured runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simjoin.spark._cluster import Cluster
from simjoin.spark._costs import CostTable
from simjoin.spark._layouts import Layout, Planner, Question, threshold_of
from simjoin.spark._statistics import Statistics


@dataclass(frozen=True)
class Prediction:
    """The expected costs of a join."""

    records: int
    layout: Layout
    #: Seconds for counting tokens, for sending records to tasks, for the tasks' joins, and for all of it.
    count_seconds: float
    route_seconds: float
    join_seconds: float
    seconds: float
    #: Seconds of all cores of all executors.
    core_seconds: float

    @property
    def bytes(self) -> float:
        """Bytes that are shuffled."""
        return self.layout.bytes

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self.layout.tasks)

    @property
    def task_seconds(self) -> tuple[float, float]:
        """Seconds of a core for the mean and for the longest task."""
        times = [task.seconds for task in self.layout.tasks]
        return (sum(times) / len(times), max(times)) if times else (0.0, 0.0)


def simulate(
    statistics: Statistics,
    cluster: Cluster,
    *,
    records: int | None = None,
    pairs: float | None = None,
    distribution: str = "auto",
    tasks: int | None = None,
    costs: CostTable | None = None,
    task_memory: int = 2 << 30,
    **threshold: Any,
) -> Prediction:
    """Predicts a join.

    >>> from simjoin.spark import Node
    >>> statistics = Statistics.of([["a", "b", "c"], ["a", "b", "d"], ["e"]] * 100)
    >>> one = simulate(statistics, Cluster([Node(cores=1)]), records=10**8, jaccard=0.5)
    >>> ten = simulate(statistics, Cluster([Node(cores=10)]), records=10**8, jaccard=0.5)
    >>> 5 < one.seconds / ten.seconds <= 10
    True

    :param statistics: the statistics of the collection, from :func:`simjoin.spark.plan` or
        :meth:`Statistics.of`
    :param records: the number of records of a larger or smaller collection of the same kind
    :param pairs: the expected number of pairs in the answer, if it is large
    :param costs: the costs of steps; by default the measured ones
    """
    measure, text = threshold_of(threshold)
    question = Question(measure, text, statistics.records[1] == 0)
    if records is not None:
        statistics = statistics.scaled(records)
    planner = Planner(statistics, question, cluster, costs, task_memory)
    layout = planner.choose(distribution, tasks)
    costs = planner.costs
    cores = max(cluster.cores, 1) if cluster.cores else planner.slots
    look = statistics.rows * costs.row + statistics.tokens * costs.count
    # Each core sends its different tokens to be summed.
    look += min(statistics.tokens, statistics.universe * cores) * costs.different
    count = costs.join + look / cores
    written = (pairs or 0.0) * costs.pair
    out = written / planner.slots
    return Prediction(
        records=statistics.rows,
        layout=layout,
        count_seconds=count,
        route_seconds=layout.route_seconds,
        join_seconds=layout.join_seconds + out,
        seconds=count + layout.seconds + out,
        core_seconds=look + layout.core_seconds + written,
    )
