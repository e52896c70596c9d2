"""Does Spark find the published numbers of pairs, and the engine's very pairs? Takes long: opt-in.

``SIMJOIN_SPARK_HEAVY=1 pytest python/tests/spark``, with the data folder in ``SIMJOIN_DATA``; the expected counts
are in its ``expected.tsv``. Every cell up to 10⁷ pairs, both distributions, kills in some;
``SIMJOIN_SPARK_WORKERS=1`` does it with one worker.
"""

from __future__ import annotations

import lzma
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import simjoin as sj
import simjoin.spark as ss
from simjoin.spark._standalone import Standalone

sys.path.insert(0, str(Path(__file__).parent))
from test_joins import kills

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(os.environ.get("SIMJOIN_DATA", "../shared/data"))
MOST = 10_000_000

pytestmark = pytest.mark.heavy


def cells() -> Iterator[Any]:
    path = FOLDER / "expected.tsv"
    if not path.is_file():
        return
    for line in path.read_text().splitlines()[1:]:
        file, kind, measure, threshold, pairs = line.split("\t")
        if kind == "self" and int(pairs) <= MOST:
            name = f"{file.removesuffix('.txt')}-{measure}-{threshold}"
            yield pytest.param(file, measure, threshold, int(pairs), id=name)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    for packed in sorted(FOLDER.glob("sets/*.txt.xz")):
        (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    return folder


def summary(answer: Any) -> tuple[int, int, int, int]:
    """The number of pairs, and sums that other pairs would not have."""
    row = answer.selectExpr(
        "count(*)",
        "coalesce(sum(left), 0)",
        "coalesce(sum(right * (left % 1009 + 1)), 0)",
        "coalesce(sum(overlap), 0)",
    ).collect()[0]
    return row[0], row[1], row[2], row[3]


@pytest.mark.parametrize(("file", "measure", "threshold", "pairs"), list(cells()))
def test_published_counts(
    spark: SparkSession, unpacked: Path, file: str, measure: str, threshold: str, pairs: int
) -> None:
    import pyarrow as pa

    path = unpacked / file
    asked: dict[str, Any] = {measure: threshold}
    rows = pa.array(path.read_text().splitlines())
    table = pa.table(sj.self_join(rows, **asked))
    left, right = table["left"].to_numpy(), table["right"].to_numpy()
    weighted = int((right * (left % 1009 + 1)).sum())
    expected = (pairs, int(left.sum()), weighted, int(table["overlap"].to_numpy().sum()))
    frame = spark.read.text(str(path))
    for distribution, tasks in (("tokens", 12), ("tiles", 8), ("auto", None)):
        told: dict[str, Any] = {**asked, "distribution": distribution, "tasks": tasks}
        assert summary(ss.self_join(frame, **told)) == expected, distribution


@pytest.mark.parametrize("distribution", ["tokens", "tiles"])
@pytest.mark.parametrize("file", ["retail.txt", "bms_webview2.txt", "acl_2grams.txt"])
def test_kills(
    spark: SparkSession, cluster: Standalone, unpacked: Path, file: str, distribution: str
) -> None:
    path = unpacked / file
    expected = sorted(sj.self_join(path.read_text().splitlines(), jaccard=0.9).rows())
    answer = ss.self_join(
        spark.read.text(str(path)),
        distribution=distribution,
        tasks=24,
        technique="ppjoin",
        jaccard=0.9,
    )
    pairs, killed = kills(spark, cluster, answer, ["worker", "executor"])
    assert pairs == expected
    assert killed == ["worker", "executor"]
