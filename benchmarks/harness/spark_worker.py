"""Runs a join on a standalone Spark cluster of this machine; started by the job ``spark`` in a virtual environment.

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


def first_records(path: Path, records: int, folder: Path) -> Path:
    """Returns a file with the first records of another, because Spark's own limit takes any records; 0 means all."""
    if not records:
        return path
    target_path = folder / path.name
    with path.open(encoding="utf-8") as source, target_path.open("w", encoding="utf-8") as target:
        target.writelines(islice(source, records))
    return target_path


def tokens(frame: DataFrame, words: bool) -> DataFrame:
    """Returns rows with arrays of tokens, the same for every tool."""
    text = f.lower("value") if words else f.col("value")
    pattern = "[^\\p{L}\\p{N}]+" if words else " "
    cut = f.array_distinct(f.filter(f.split(text, pattern), lambda token: token != ""))
    return frame.select(cut.alias("tokens")).where(f.size("tokens") > 0)


@dataclass(frozen=True)
class JoinResult:
    """The number of pairs, and for simjoin the pairs themselves and the plan of the join."""

    count: int
    pairs: pa.Table | None = None
    plan: ss.Plan | None = None


def by_simjoin(frame: DataFrame, request: dict[str, Any]) -> JoinResult:
    """Finds all pairs with simjoin."""
    plan = ss.plan(frame, column=frame.columns[0], id="id", jaccard=request["jaccard"])
    pairs = plan.join().toArrow()
    return JoinResult(len(pairs), pairs, plan)


def layout_and_prediction(plan: ss.Plan, count: int, request: dict[str, Any]) -> dict[str, Any]:
    """Returns the layout of a join, and the seconds that are predicted for it on these workers."""
    layout, cluster = plan.layout, ss.Cluster([ss.Node(cores=1, count=request["workers"])])
    divided = {"distribution": layout.distribution, "tasks": len(layout.tasks)}
    predicted = ss.simulate(plan.statistics, cluster, pairs=count, jaccard=request["jaccard"], **divided)
    return {**divided, "predicted": predicted.seconds}


def is_exact(frame: DataFrame, request: dict[str, Any], found: pa.Table) -> bool:
    """Returns whether the engine finds the same pairs of the same rows, with their overlaps and similarities."""
    rows = frame.toArrow()
    engines = pa.table(sj.self_join(rows[0], jaccard=request["jaccard"]))
    ids = rows["id"].to_numpy()
    left, right, *rest = (column.to_numpy() for column in engines.columns)
    return canonical([ids[left], ids[right], *rest]) == canonical([one.to_numpy() for one in found.columns])


def canonical(columns: list[Any]) -> list[tuple[Any, ...]]:
    """Returns pairs in one order, with the smaller id on the left."""
    left, right, *rest = columns
    columns = [np.minimum(left, right), np.maximum(left, right), *rest]
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def by_minhash(frame: DataFrame, request: dict[str, Any]) -> JoinResult:
    """Finds pairs with MinHashLSH. It wants distances below a limit, so the limit is slightly above ours."""
    from pyspark.ml.feature import CountVectorizer, MinHashLSH

    counts = CountVectorizer(inputCol="tokens", outputCol="features", binary=True, vocabSize=1 << 22)
    vectors = counts.fit(frame).transform(frame).select("id", "features").cache()
    lsh = MinHashLSH(
        inputCol="features", outputCol="hashes", numHashTables=request["tables"], seed=1
    )
    model = lsh.fit(vectors)
    distance = 1 - float(request["jaccard"]) + 1e-9
    found = model.approxSimilarityJoin(vectors, vectors, distance, distCol="distance")
    return JoinResult(found.where("datasetA.id < datasetB.id").count())


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Runs one join on a cluster that is started for it."""
    with Standalone([Worker(cores=1, memory=4096)] * request["workers"]) as cluster:
        memory = {"spark.executor.memory": "3g", "spark.driver.memory": "2g"}
        # MinHashLSH runs in Java.
        spark = cluster.session({**memory, **USUAL_JAVA})
        lines = spark.read.text(str(first_records(Path(request["path"]), request["records"], cluster.folder)))
        cut = lines if request.get("lines") else tokens(lines, request["words"])
        frame = cut.withColumn("id", f.monotonically_increasing_id())
        # The rows are in memory and the workers are awake before the time is taken.
        frame = frame.repartition(2 * request["workers"], "id").cache()
        frame.count()
        ss.self_join(frame.limit(100), column=frame.columns[0], id="id", jaccard=0.9).count()
        late = threading.Event()

        def stop() -> None:
            late.set()
            spark.sparkContext.cancelAllJobs()

        timer = threading.Timer(request["limit"], stop)
        timer.start()
        tool = {"simjoin": by_simjoin, "minhash": by_minhash}[request["tool"]]
        begin = time.monotonic()
        try:
            found = tool(frame, request)
            seconds = time.monotonic() - begin
            timer.cancel()
            if request.get("check") and not is_exact(frame, request, found.pairs):
                return {"state": "WRONG", "note": "the pairs differ from those of the engine"}
            more = layout_and_prediction(found.plan, found.count, request) if found.plan else {}
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
