"""Does Spark find exactly the pairs of the engine?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import simjoin as sj
import simjoin.spark as ss
from simjoin.spark import _statistics
from simjoin.spark._standalone import Standalone

sys.path.insert(0, str(Path(__file__).parent))
from collections_ import engine, found, nasty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answer = TypeVar("Answer")


def sets(spark: SparkSession, rows: list[Any], kind: str = "array<string>") -> DataFrame:
    return spark.createDataFrame([(row,) for row in rows], f"set {kind}").coalesce(1)


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    return nasty(1)


@pytest.fixture(scope="module")
def frame(spark: SparkSession, rows: list[list[str]], tmp_path_factory: Any) -> DataFrame:
    """Returns a DataFrame of three files, so that there are several partitions, in order."""
    folder = tmp_path_factory.mktemp("frame")
    third = len(rows) // 3
    for part in range(3):
        last = len(rows) if part == 2 else (part + 1) * third
        lines = [json.dumps({"set": row}) for row in rows[part * third : last]]
        (folder / f"{part}.json").write_text("\n".join(lines))
    parts = [
        spark.read.schema("set array<string>").json(str(folder / f"{part}.json"))
        for part in range(3)
    ]
    return parts[0].unionAll(parts[1]).unionAll(parts[2])


@pytest.mark.parametrize(
    ("distribution", "tasks", "threshold"),
    [
        ("tokens", 1, {"jaccard": 0.8}),
        ("tokens", 9, {"jaccard": "0.5"}),
        ("tokens", 40, {"cosine": 0.7}),
        ("tiles", 7, {"jaccard": 0.8}),
        ("tiles", 12, {"dice": 0.6}),
        ("tiles", 3, {"overlap": 2}),
        ("tokens", 5, {"containment": "2/3"}),
        ("auto", None, {"jaccard": 0.6}),
    ],
)
def test_spark_finds_the_pairs_of_the_engine(
    frame: DataFrame, rows: list[list[str]], distribution: str, tasks: int | None, threshold: Any
) -> None:
    plan = ss.plan(frame, distribution=distribution, tasks=tasks, **threshold)
    if tasks and distribution == "tiles":
        assert len(plan.layout.tasks) >= tasks
    assert found(plan.join()) == engine(rows, **threshold)


def test_heavy_tokens_are_split(spark: SparkSession) -> None:
    rows = [["the", f"a{n % 40}", f"b{n % 7}"] for n in range(600)] + nasty(2, 20)
    plan = ss.plan(sets(spark, rows), distribution="tokens", tasks=6, overlap=1)
    assert plan.layout.heavy > 0
    assert len(plan.layout.tasks) > plan.layout.groups
    assert found(plan.join()) == engine(rows, overlap=1)


def test_two_collections_and_ids(spark: SparkSession) -> None:
    left, right = nasty(3, 40), nasty(4, 40)
    right += left[:10]
    one = spark.createDataFrame(
        [(f"l{n}", row) for n, row in enumerate(left)], "name string, set array<string>"
    )
    other = spark.createDataFrame(
        [(row, 1000 - n) for n, row in enumerate(right)], "words array<string>, key int"
    )
    names: dict[str, Any] = {"column": ("set", "words"), "id": ("name", "key")}
    expected = sorted(
        (f"l{a}", 1000 - b, overlap, similarity)
        for a, b, overlap, similarity in engine(left, right, jaccard=0.7)
    )
    for distribution, tasks in (("tokens", 8), ("tiles", 8)):
        answer = ss.join(one, other, distribution=distribution, tasks=tasks, jaccard=0.7, **names)
        assert [kind for _, kind in answer.dtypes] == ["string", "int", "bigint", "double"]
        assert found(answer) == expected


def test_texts_and_multisets(spark: SparkSession) -> None:
    texts = [
        "The cat sat.",
        "the cat sat down",
        "a dog",
        "",
        "Äpfel und Birnen",
        "äpfel UND birnen",
    ]
    texts += ["banana", "bananana", "bananas", "aaaa", "aaaaa"] * 2
    frame = spark.createDataFrame(
        [(n, text) for n, text in enumerate(texts)], "n long, text string"
    )
    asked: list[dict[str, Any]] = [
        {"tokens": "words", "jaccard": 0.7},
        {"tokens": "qgrams:2", "multiset": True, "jaccard": 0.6},
        {"tokens": "qgrams:3", "dice": 0.5},
    ]
    for options in asked:
        answer = ss.self_join(
            frame, column="text", id="n", distribution="tokens", tasks=4, **options
        )
        assert found(answer) == engine(texts, **options), options


def test_integers_are_tokens(spark: SparkSession) -> None:
    rows = [[1, 2, 3], [3, 2, 1, 1], [-5, 2**31 - 1], [2**31 - 1, -5, 7], []]
    answer = ss.self_join(sets(spark, rows, "array<int>"), jaccard=0.6)
    assert found(answer) == engine(rows, jaccard=0.6)


@pytest.mark.parametrize("limit", [0, 5])
def test_more_tokens_than_the_table_holds(
    frame: DataFrame, rows: list[list[str]], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_statistics, "TABLE", limit)
    plan = ss.plan(frame, jaccard=0.5, distribution="tokens", tasks=7)
    assert not plan.statistics.complete
    assert found(plan.join()) == engine(rows, jaccard=0.5)


def test_keys_that_collide_are_tried_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[f"t{n}", f"t{n + 1}", f"t{n + 2}"] for n in range(40)] * 2
    monkeypatch.setattr(_statistics, "BITS", 9)
    # 42 tokens have different keys of 9 bits for one seed in six.
    monkeypatch.setattr(_statistics, "SEEDS", 64)
    plan = ss.plan(sets(spark, rows), jaccard=0.5)
    assert plan.statistics.keys[0] > 0
    assert found(plan.join()) == engine(rows, jaccard=0.5)


def test_empty_frames_give_empty_answers(spark: SparkSession) -> None:
    collections: list[list[list[str]]] = [[], [[]], [["a"]]]
    for rows in collections:
        assert found(ss.self_join(sets(spark, rows), jaccard=0.5)) == []


def test_join_is_lazy_and_can_be_explained(
    spark: SparkSession, frame: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = ss.plan(frame, jaccard=0.8)
    tracker, context = spark.sparkContext.statusTracker(), spark.sparkContext
    context.setJobGroup("lazy", "nothing is to run here")
    answer = plan.join().where("similarity >= 0.9")
    assert list(tracker.getJobIdsForGroup("lazy")) == []
    assert answer.count() == len([pair for pair in found(plan.join()) if pair[3] >= 0.9])
    assert list(tracker.getJobIdsForGroup("lazy")) != []
    ss.self_join(frame, jaccard=0.8, explain=True)
    said = capsys.readouterr().out
    for word in ("jaccard ≥ 0.8", "tasks", "shuffled", "skew", "tokens", "tiles", "homogeneous"):
        assert word in said


def test_null_rows_are_empty_and_count(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(["a"],), (None,), (["a"],), (None,)], "set array<string>")
    found = ss.self_join(rows.coalesce(1), jaccard=1).collect()
    assert [tuple(row) for row in found] == [(0, 2, 1, 1.0)]


def test_errors_are_one_line_and_name_the_cause(spark: SparkSession, frame: DataFrame) -> None:
    def said(kind: type[Exception], data: DataFrame, **options: Any) -> str:
        with pytest.raises(kind) as raised:
            ss.self_join(data, **options)
        message = str(raised.value)
        assert "\n" not in message
        return message

    assert "no threshold was given" in said(sj.UsageError, frame)
    assert "above 1" in said(sj.UsageError, frame, jaccard=1.5)
    assert "not a number" in said(sj.UsageError, frame, jaccard=True)
    several: Any = ["set", "id"]
    assert "expected the name of one" in said(sj.UsageError, frame, column=several, jaccard=0.8)
    assert "no column `title`" in said(sj.UsageError, frame, column="title", jaccard=0.8)
    assert "unknown distribution" in said(sj.UsageError, frame, distribution="x", jaccard=0.8)
    assert "tasks 0" in said(sj.UsageError, frame, tasks=0, jaccard=0.8)
    assert "unknown tokens" in said(sj.UsageError, frame, tokens="letters", jaccard=0.8)
    assert "strings were expected" in said(sj.InputError, frame, tokens="words", jaccard=0.8)
    numbers = spark.createDataFrame([(1.5,)], "x double")
    assert "of type double" in said(sj.InputError, numbers, jaccard=0.8)
    assert "id column `x`" in said(
        sj.InputError, frame.selectExpr("set", "1.5 as x"), column="set", id="x", jaccard=0.8
    )
    inside = spark.createDataFrame([(["a", None],)], "set array<string>")
    assert "element 1 of the list is null" in said(sj.InputError, inside, jaccard=0.8)
    both = ss.Cluster([ss.Node(cores=1, gpus=1, cpu_bandwidth=1, gpu_bandwidth=4)])
    assert "profile" in said(sj.UsageError, frame, cluster=both, jaccard=0.8)


def test_measure_returns_the_rate_of_a_core(spark: SparkSession) -> None:
    cpu, gpu = ss.measure(spark)
    assert cpu > 0 and gpu is None


def test_changed_input_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("a b c\nb c a\n")
    plan = ss.plan(spark.read.text(str(path)), jaccard=0.5)
    path.write_text("a b c\nb c a\nc b a\n")
    again = spark.read.text(str(path))
    plan._sides[0].data = again.selectExpr("value as set")
    with pytest.raises(Exception, match="changed during the join"):
        plan.join().collect()


def slow(groups: int) -> list[list[str]]:
    """Returns sets whose join by the naive technique takes seconds."""
    return [row + [f"s{n % 50}" for n in range(25)] for row in nasty(7, groups)]


def kills(
    spark: SparkSession, cluster: Standalone, join: Callable[[], Answer], victims: list[str]
) -> tuple[Answer, list[str]]:
    """Runs a join and kills processes in the middle of it."""
    killed: list[str] = []
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def kill() -> None:
        while not over.wait(0.02):
            infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            # In the middle, some tasks of a stage are done and others are not.
            if any(one and 0 < one.numCompletedTasks < one.numTasks for one in infos):
                break
        for victim in victims:
            numbers = cluster.executors() if victim == "executor" else cluster.python_workers()
            if numbers and not over.is_set():
                os.kill(numbers[0], signal.SIGKILL)
                killed.append(victim)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        return join(), killed
    finally:
        over.set()
        thread.join()


def test_killed_workers_and_executors_change_nothing(
    spark: SparkSession, cluster: Standalone
) -> None:
    rows = slow(2000)
    expected = engine(rows, jaccard=0.9)
    frame = sets(spark, rows).cache()
    for distribution in ("tiles", "tokens"):
        answer = ss.self_join(
            frame, distribution=distribution, tasks=16, technique="naive", jaccard=0.9
        )
        pairs, killed = kills(spark, cluster, partial(found, answer), ["worker", "executor"])
        assert pairs == expected
        assert killed == ["worker", "executor"]


def test_gpu_stages_on_simulated_devices(cluster: Standalone) -> None:
    """This configuration of Spark differs, so it needs another driver."""
    script = Path(__file__).parent / "gpu_driver.py"
    done = subprocess.run(
        [sys.executable, str(script), cluster.url], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    answers = json.loads(done.stdout.strip().splitlines()[-1])
    assert set(answers) == {"heterogeneous", "highly heterogeneous", "homogeneous"}
    for level, runs in answers.items():
        for run in runs:
            assert run["exact"], (level, run)
            assert run["gpu_tasks"] > 0
            assert (run["cpu_tasks"] > 0) == (level != "homogeneous")
