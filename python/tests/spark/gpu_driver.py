"""Runs joins with resource profiles on clusters of all levels of heterogeneity, with simulated GPUs.

    gpu_driver.py URL [CELLS]

Without cells it joins made sets, and the last line is JSON: for each level, what was run and whether it was exact.
CELLS is JSON as well, a list of a path, a measure and a threshold: the lines of those files are joined, by both
distributions, and there is a line for each: the tasks for CPUs and for GPUs, and the summary of the pairs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import simjoin.spark as ss
from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests
from simjoin.spark._standalone import Standalone, gpu_settings

sys.path.insert(0, str(Path(__file__).parent))
from collections_ import engine, found, nasty, summary

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile
    from pyspark.sql import SparkSession

XEON = ss.Node(cores=1, gpus=1, cpu_bandwidth=68, gpu_bandwidth=288)
EPYC = ss.Node(cores=1, gpus=1, cpu_bandwidth=204.8, gpu_bandwidth=897)


def made(spark: SparkSession, profile: ResourceProfile) -> None:
    """Joins generated sets on every level."""
    rows = nasty(5, 120)
    frame = spark.createDataFrame([(row,) for row in rows], "set array<string>").coalesce(1)
    # The work is divided by bandwidths, and once by measured rates.
    clusters = [
        ss.Cluster([XEON]).with_rates(*ss.measure(spark, profile)),
        ss.Cluster([XEON]),
        ss.Cluster([XEON, EPYC]),
        ss.Cluster([ss.Node(cores=0, gpus=1)]),
    ]
    answers: dict[str, list[dict[str, object]]] = {}
    for number, cluster in enumerate(clusters):
        for distribution in ("tokens", "tiles") if number == 0 else ("tokens",):
            plan = ss.plan(
                frame,
                cluster=cluster,
                profile=profile,
                distribution=distribution,
                tasks=6,
                jaccard=0.6,
            )
            answers.setdefault(cluster.level, []).append(
                {
                    "distribution": distribution,
                    "exact": found(plan.join()) == engine(rows, jaccard=0.6),
                    "cpu_tasks": plan.layout.partitions(False),
                    "gpu_tasks": plan.layout.partitions(True),
                }
            )
    print(json.dumps(answers))


def published(spark: SparkSession, profile: ResourceProfile, cells: list[Any]) -> None:
    """Joins files on a heterogeneous cluster."""
    for path, measure, threshold in cells:
        frame = spark.read.text(path)
        for distribution in ("tokens", "tiles"):
            plan = ss.plan(
                frame,
                cluster=ss.Cluster([XEON]),
                profile=profile,
                distribution=distribution,
                tasks=6,
                **{measure: threshold},
            )
            tasks = [plan.layout.partitions(gpu) for gpu in (False, True)]
            print(json.dumps([distribution, tasks, summary(plan.join())]), flush=True)


def main(url: str, cells: str | None = None) -> None:
    outside = Standalone([])
    outside.url = url
    spark = outside.session(gpu_settings("speed=5"))
    executors = ExecutorResourceRequests().cores(1).memory("700m").resource("gpu", 1)
    tasks = TaskResourceRequests().cpus(1).resource("gpu", 1)
    profile = ResourceProfileBuilder().require(executors).require(tasks).build
    if cells is None:
        made(spark, profile)
    else:
        published(spark, profile, json.loads(cells))
    spark.stop()
    outside.stop()


main(*sys.argv[1:])
