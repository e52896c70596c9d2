"""A driver with resource profiles: joins on clusters of all levels of heterogeneity, with simulated GPUs.

The last line is JSON: for each level, what was run and whether it was exact.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import simjoin.spark as ss
from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests
from simjoin.spark._standalone import Standalone, gpu_settings

sys.path.insert(0, str(Path(__file__).parent))
from collections_ import engine, found, nasty


def main(url: str) -> None:
    outside = Standalone([])
    outside.url = url
    spark = outside.session(gpu_settings("speed=5"))
    executors = ExecutorResourceRequests().cores(1).memory("700m").resource("gpu", 1)
    tasks = TaskResourceRequests().cpus(1).resource("gpu", 1)
    profile = ResourceProfileBuilder().require(executors).require(tasks).build
    rows = nasty(5, 120)
    frame = spark.createDataFrame([(row,) for row in rows], "set array<string>").coalesce(1)
    xeon = ss.Node(cores=1, gpus=1, cpu_bandwidth=68, gpu_bandwidth=288)
    epyc = ss.Node(cores=1, gpus=1, cpu_bandwidth=204.8, gpu_bandwidth=897)
    # By bandwidths, and once by what was measured.
    clusters = [
        ss.Cluster([xeon]).with_rates(*ss.measure(spark, profile)),
        ss.Cluster([xeon]),
        ss.Cluster([xeon, epyc]),
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
    spark.stop()
    outside.stop()
    print(json.dumps(answers))


main(sys.argv[1])
