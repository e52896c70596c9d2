"""Does Spark find the published numbers of pairs, and the pairs of the engine? Slow, so opt-in.

``SIMJOIN_SPARK_HEAVY=1 pytest python/tests/spark``, with the data folder in ``SIMJOIN_DATA``; the expected counts
are in its ``expected.tsv``. Every cell up to 10⁷ pairs, the smaller answers first, by both distributions; and for
every file cells with GPU stages, and cells with kills. ``SIMJOIN_SPARK_WORKERS=1`` does it with one worker.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import simjoin.spark as ss
from simjoin.spark._layouts import Planner, Question
from simjoin.spark._standalone import Standalone

sys.path.insert(0, str(Path(__file__).parent))
from collections_ import Summary, engine_summary, summary
from test_joins import kills

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(os.environ.get("SIMJOIN_DATA", "../shared/data"))
MOST = 10_000_000

pytestmark = pytest.mark.heavy


@dataclass(frozen=True)
class Cell:
    """A line of ``expected.tsv``."""

    file: str
    measure: str
    threshold: str
    pairs: int

    def __str__(self) -> str:
        return f"{self.file.removesuffix('.txt')}-{self.measure}-{self.threshold}"

    @property
    def asked(self) -> dict[str, Any]:
        return {self.measure: self.threshold}


def cells() -> list[Cell]:
    """Returns the self-joins with at most this number of pairs, the smaller answers first."""
    path = FOLDER / "expected.tsv"
    if not path.is_file():
        return []
    lines = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    found = [
        Cell(file, measure, threshold, int(pairs))
        for file, kind, measure, threshold, pairs in lines
        if kind == "self" and int(pairs) <= MOST
    ]
    return sorted(found, key=lambda cell: cell.pairs)


def of_each_file(count: int) -> list[Cell]:
    """Returns the cells of each file with the most pairs, up to a million."""
    by_file: dict[str, list[Cell]] = {}
    for cell in cells():
        if cell.pairs <= 1_000_000:
            by_file.setdefault(cell.file, []).append(cell)
    return [cell for found in by_file.values() for cell in found[-count:]]


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    for packed in sorted(FOLDER.glob("sets/*.txt.xz")):
        (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    return folder


@cache
def engines(path: Path, measure: str, threshold: str) -> Summary:
    """Returns the answer of the engine for a file, found once for all tests."""
    import pyarrow as pa

    lines = pa.array(path.read_text().splitlines())
    return engine_summary(lines, **{measure: threshold})


@cache
def plan_of(spark: SparkSession, path: Path) -> ss.Plan:
    return ss.plan(spark.read.text(str(path)), jaccard=0.8)


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_published_counts_are_found(spark: SparkSession, unpacked: Path, cell: Cell) -> None:
    path = unpacked / cell.file
    expected = engines(path, cell.measure, cell.threshold)
    assert expected[0] == cell.pairs
    # Tokens are counted once for each file, because thresholds and distributions do not affect the counts.
    counted = plan_of(spark, path)
    question = Question(cell.measure, cell.threshold, True)
    planner = Planner(counted.statistics, question, counted.cluster)
    for distribution, tasks in (("tokens", 12), ("tiles", 8)):
        layout = planner.choose(distribution, tasks)
        plan = replace(counted, question=question, layout=layout)
        assert summary(plan.join()) == expected, distribution


@pytest.mark.parametrize("distribution", ["tokens", "tiles"])
@pytest.mark.parametrize("cell", of_each_file(1), ids=str)
def test_killed_processes_change_nothing(
    spark: SparkSession, cluster: Standalone, unpacked: Path, cell: Cell, distribution: str
) -> None:
    path = unpacked / cell.file
    expected = engines(path, cell.measure, cell.threshold)
    frame = spark.read.text(str(path))
    answer = ss.self_join(frame, distribution=distribution, tasks=24, **cell.asked)
    pairs, killed = kills(spark, cluster, partial(summary, answer), ["worker", "executor"])
    assert pairs == expected
    assert killed == ["worker", "executor"]


def test_gpu_stages(cluster: Standalone, unpacked: Path) -> None:
    chosen = of_each_file(2)
    told = [[str(unpacked / cell.file), cell.measure, cell.threshold] for cell in chosen]
    script = Path(__file__).parent / "gpu_driver.py"
    done = subprocess.run(
        [sys.executable, str(script), cluster.url, json.dumps(told)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(answers) == 2 * len(chosen)
    for number, (distribution, (cpu_tasks, gpu_tasks), found) in enumerate(answers):
        cell = chosen[number // 2]
        expected = engines(unpacked / cell.file, cell.measure, cell.threshold)
        assert tuple(found) == expected, (str(cell), distribution)
        assert cpu_tasks > 0 and gpu_tasks > 0, (str(cell), distribution)
