"""Joins on a standalone Spark cluster of this machine; run by the job ``spark`` in an environment of its own.

    python -I spark_worker.py '{"workers": 2, "path": …, "records": 5000, "words": true, "tool": "minhash", …}'

The last line on standard output is a JSON object with the state, the seconds and the number of pairs.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import simjoin as sj
import simjoin.spark as ss
from pyspark.sql import DataFrame, functions as f
from simjoin.spark._standalone import USUAL_JAVA, Standalone, Worker


def part(path: Path, records: int, folder: Path) -> Path:
    """A file with the first records of another: Spark's own limit takes any. 0 is for all."""
    if not records:
        return path
    made = folder / path.name
    with path.open(encoding="utf-8") as source, made.open("w", encoding="utf-8") as target:
        target.writelines(islice(source, records))
    return made


def tokens(frame: DataFrame, words: bool) -> DataFrame:
    """Rows with a number and an array of tokens, the same for every tool."""
    text = f.lower("value") if words else f.col("value")
    pattern = "[^\\p{L}\\p{N}]+" if words else " "
    cut = f.array_distinct(f.filter(f.split(text, pattern), lambda token: token != ""))
    return frame.select(cut.alias("tokens")).where(f.size("tokens") > 0)


@dataclass(frozen=True)
class Found:
    """The number of pairs; and of simjoin the pairs themselves, and how the join was divided."""

    count: int
    pairs: pa.Table | None = None
    plan: ss.Plan | None = None


def by_simjoin(frame: DataFrame, told: dict[str, Any]) -> Found:
    """All pairs by simjoin."""
    plan = ss.plan(frame, column=frame.columns[0], id="id", jaccard=told["jaccard"])
    pairs = plan.join().toArrow()
    return Found(len(pairs), pairs, plan)


def about(plan: ss.Plan, count: int, told: dict[str, Any]) -> dict[str, Any]:
    """How a join was divided, and the seconds that are predicted for it on these workers."""
    layout, cluster = plan.layout, ss.Cluster([ss.Node(cores=1, count=told["workers"])])
    divided = {"distribution": layout.distribution, "tasks": len(layout.tasks)}
    predicted = ss.simulate(plan.statistics, cluster, pairs=count, jaccard=told["jaccard"], **divided)
    return {**divided, "predicted": predicted.seconds}


def exact(frame: DataFrame, told: dict[str, Any], found: pa.Table) -> bool:
    """Whether these are the engine's pairs of the very same rows, their overlaps and similarities included."""
    rows = frame.toArrow()
    engines = pa.table(sj.self_join(rows[0], jaccard=told["jaccard"]))
    ids = rows["id"].to_numpy()
    left, right, *rest = (column.to_numpy() for column in engines.columns)
    return canonical([ids[left], ids[right], *rest]) == canonical([one.to_numpy() for one in found.columns])


def canonical(columns: list[Any]) -> list[tuple[Any, ...]]:
    """Pairs in one order, the smaller id on the left."""
    left, right, *rest = columns
    columns = [np.minimum(left, right), np.maximum(left, right), *rest]
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def by_minhash(frame: DataFrame, told: dict[str, Any]) -> Found:
    """The pairs that MinHashLSH finds. Its distance is below the threshold, so this is a little above."""
    from pyspark.ml.feature import CountVectorizer, MinHashLSH

    counts = CountVectorizer(inputCol="tokens", outputCol="features", binary=True, vocabSize=1 << 22)
    vectors = counts.fit(frame).transform(frame).select("id", "features").cache()
    lsh = MinHashLSH(
        inputCol="features", outputCol="hashes", numHashTables=told["tables"], seed=1
    )
    model = lsh.fit(vectors)
    distance = 1 - float(told["jaccard"]) + 1e-9
    found = model.approxSimilarityJoin(vectors, vectors, distance, distCol="distance")
    return Found(found.where("datasetA.id < datasetB.id").count())


def run(told: dict[str, Any]) -> dict[str, Any]:
    """One join on a cluster that is started for it."""
    with Standalone([Worker(cores=1, memory=4096)] * told["workers"]) as cluster:
        memory = {"spark.executor.memory": "3g", "spark.driver.memory": "2g"}
        # MinHashLSH is all Java.
        spark = cluster.session({**memory, **USUAL_JAVA})
        lines = spark.read.text(str(part(Path(told["path"]), told["records"], cluster.folder)))
        cut = lines if told.get("lines") else tokens(lines, told["words"])
        frame = cut.withColumn("id", f.monotonically_increasing_id())
        # In memory, and the workers awake, before the clock starts.
        frame = frame.repartition(2 * told["workers"], "id").cache()
        frame.count()
        ss.self_join(frame.limit(100), column=frame.columns[0], id="id", jaccard=0.9).count()
        late = threading.Event()

        def stop() -> None:
            late.set()
            spark.sparkContext.cancelAllJobs()

        timer = threading.Timer(told["limit"], stop)
        timer.start()
        tool = {"simjoin": by_simjoin, "minhash": by_minhash}[told["tool"]]
        begin = time.monotonic()
        try:
            found = tool(frame, told)
            seconds = time.monotonic() - begin
            timer.cancel()
            if told.get("check") and not exact(frame, told, found.pairs):
                return {"state": "WRONG", "note": "the pairs are not the engine's"}
            more = about(found.plan, found.count, told) if found.plan else {}
            return {"state": "ok", "seconds": seconds, "pairs": found.count, **more}
        except Exception as error:  # noqa: BLE001
            lines_of = str(error).strip().splitlines()
            note = lines_of[0] if lines_of else type(error).__name__
            return {"state": "timeout" if late.is_set() else "error", "note": note[:200]}
        finally:
            timer.cancel()
            spark.stop()


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))), flush=True)
