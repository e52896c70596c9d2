"""How accurate are the predictions?

Joins of parts of a file are measured on standalone clusters of one and of two workers on this machine and compared
with predictions. Each worker has a core of its own, and each cluster a driver process of its own. On a busy machine
the CPU seconds (of all processes of the cluster) are more reliable than the elapsed seconds. The first join of a
session starts the Python workers and warms Java up, so it does not count: the first part is joined twice.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simjoin.spark._cluster import Cluster, Node
from simjoin.spark._simulate import simulate
from simjoin.spark._standalone import USUAL_JAVA, Standalone, Worker, cpu_seconds
from simjoin.spark._statistics import Statistics

HEAD = (
    "workers     records       pairs  distribution  tasks  shuffled MB  "
    "seconds  predicted  CPU seconds  predicted"
)


def run(options: argparse.Namespace, threshold: dict[str, Any]) -> int:
    """Runs all joins and prints a table, or a line of JSON for each join."""
    if not options.json:
        print(HEAD)
    for cell in cells(options, threshold):
        if options.json:
            print(json.dumps(cell), flush=True)
            continue
        print(
            f"{cell['workers']:>7}  {cell['records']:>10,}  {cell['pairs']:>10,}  "
            f"{cell['distribution']:<12}  {cell['tasks']:>5}  {cell['bytes'] / 1e6:>11.1f}  "
            f"{cell['seconds']:>7.2f}  {cell['expected_seconds']:>9.2f}  "
            f"{cell['cpu_seconds']:>11.2f}  {cell['expected_cpu_seconds']:>9.2f}",
            flush=True,
        )
    return 0


def cells(options: argparse.Namespace, threshold: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields each join with its measurement and its prediction."""
    from simjoin.spark.__main__ import lines

    texts = lines(options.file)
    sizes = options.records or [len(texts) // 4, len(texts) // 2, len(texts)]
    asked = {name: value for name, value in threshold.items() if value is not None}
    with tempfile.TemporaryDirectory(prefix="simjoin-validate-") as folder:
        parts = []
        for size in sizes:
            path = Path(folder) / f"{size}.txt"
            path.write_text("".join(f"{text}\n" for text in texts[:size]), encoding="utf-8")
            parts.append({"path": str(path), "records": size})
        for workers in options.workers:
            with Standalone([Worker(cores=1, memory=3072)] * workers) as cluster:
                request = {
                    "url": cluster.url,
                    "roots": [process.pid for process in cluster.processes],
                    "cells": parts,
                    "tokens": options.tokens,
                    "multiset": options.multiset,
                    "distribution": options.distribution,
                    "threshold": asked,
                }
                command = [sys.executable, "-m", "simjoin.spark._validate", json.dumps(request)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            for cell in json.loads(done.stdout.splitlines()[-1]):
                expected = simulate(
                    Statistics.of(texts[: cell["records"]], options.tokens, options.multiset),
                    Cluster([Node(cores=1, count=workers)]),
                    pairs=cell["pairs"],
                    distribution=options.distribution,
                    tasks=cell["tasks"],
                    **asked,
                )
                yield {
                    "workers": workers,
                    **cell,
                    "bytes": expected.bytes,
                    "expected_seconds": expected.seconds,
                    "expected_cpu_seconds": expected.core_seconds,
                }


def measured(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Measures joins by a session of this process."""
    from pyspark.sql import functions as f

    import simjoin.spark as ss

    outside = Standalone([])
    outside.url = request["url"]
    spark = outside.session({"spark.executor.memory": "2g", **USUAL_JAVA})
    options = {name: request[name] for name in ("tokens", "multiset", "distribution")}
    first = spark.read.text(request["cells"][0]["path"])
    ss.self_join(first, **options, **request["threshold"]).count()
    found = []
    for cell in request["cells"]:
        frame = spark.read.text(cell["path"])
        begin, before = time.monotonic(), cpu_seconds(request["roots"])
        plan = ss.plan(frame, **options, **request["threshold"])
        # All columns of the answer are computed, but few values come to the driver.
        total = plan.join().agg(f.count("*"), f.sum("left"), f.sum("similarity")).collect()[0][0]
        seconds = time.monotonic() - begin
        layout = plan.layout
        found.append(
            {
                "records": cell["records"],
                "pairs": total,
                "seconds": seconds,
                "cpu_seconds": cpu_seconds(request["roots"]) - before,
                "distribution": layout.distribution,
                "tasks": len(layout.tasks),
            }
        )
    spark.stop()
    outside.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(measured(json.loads(sys.argv[1]))))
