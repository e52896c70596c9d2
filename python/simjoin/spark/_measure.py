"""How fast are the processors of a cluster?

The same join of generated sets is timed on one core of an executor and, with a resource profile, on a GPU. A rate
is the seconds on the machine of the :class:`~simjoin.spark.CostTable`, divided by the seconds on this processor. So
a core of that machine has the rate 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.resource import ResourceProfile
    from pyspark.sql import SparkSession

#: The generated sets: their number, their size, and the number of different tokens.
SETS, SIZE, UNIVERSE = 60_000, 40, 2000

#: Seconds of their join on a core of the machine that costs were measured on (2026-11-16).
REFERENCE = 0.138


class Timed:
    """Times the join on a worker: the shortest of several runs."""

    def __init__(self, engine: str) -> None:
        self.engine = engine

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            pass
        yield pa.record_batch({"seconds": pa.array([seconds(self.engine)])})


def seconds(engine: str) -> float:
    """Returns the seconds of the join on one core, or on the GPU of this process."""
    import numpy as np

    import simjoin as sj

    # Frequent tokens are likelier, as in real collections.
    random = np.random.default_rng(1)
    rows = (UNIVERSE * random.random((SETS, SIZE)) ** 2).astype(np.int64).tolist()
    options: dict[str, Any] = {"engine": engine, "threads": 1}
    times = []
    for _ in range(3):
        stats = sj.self_join(rows, jaccard=0.6, **options).stats
        assert stats is not None
        times.append(float(stats["seconds"]["join"]))
    return min(times)


def rates(spark: SparkSession, profile: ResourceProfile | None) -> tuple[float, float | None]:
    """Returns the rates of a core and of a GPU."""
    one = spark.range(1, numPartitions=1)
    cpu = one.mapInArrow(Timed("cpu"), "seconds double").collect()[0][0]
    if profile is None:
        return REFERENCE / cpu, None
    gpu = one.mapInArrow(Timed("gpu"), "seconds double", profile=profile).collect()[0][0]
    return REFERENCE / cpu, REFERENCE / gpu
