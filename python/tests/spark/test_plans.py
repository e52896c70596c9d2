"""Do plans, the cost model and the simulator work as documented? These tests need no cluster."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import simjoin as sj
import simjoin.spark as ss
from simjoin.spark import _costs
from simjoin.spark.__main__ import main
from simjoin.spark._layouts import TABLE, Planner, Question

XEON = ss.Node(cores=8, gpus=1, cpu_bandwidth=68, gpu_bandwidth=288, count=2)
EPYC = ss.Node(cores=8, gpus=1, cpu_bandwidth=204.8, gpu_bandwidth=897)


def collection(records: int, universe: int, size: int, seed: int = 1) -> list[list[str]]:
    """Returns sets whose tokens have different frequencies."""
    generator = random.Random(seed)
    return [
        [f"t{int(universe * generator.random() ** 3)}" for _ in range(size)] for _ in range(records)
    ]


@pytest.fixture(scope="module")
def sparse() -> ss.Statistics:
    return ss.Statistics.of(collection(3000, 4000, 8))


@pytest.fixture(scope="module")
def dense() -> ss.Statistics:
    return ss.Statistics.of(collection(1500, 200, 60))


def planner(statistics: ss.Statistics, cluster: ss.Cluster, threshold: str = "0.8") -> Planner:
    return Planner(statistics, Question("jaccard", threshold, True), cluster)


def test_clusters_of_the_paper_have_its_levels_and_workloads() -> None:
    """Examples 2 and 3 of the paper."""
    plain = ss.Cluster([ss.Node(cores=8, cpu_bandwidth=68, count=2)])
    assert (plain.level, plain.workload()) == ("homogeneous", (1.0, 0.0))
    one, two = ss.Cluster([XEON]), ss.Cluster([XEON, EPYC])
    assert (one.level, two.level) == ("heterogeneous", "highly heterogeneous")
    assert one.workload()[0] == pytest.approx(68 / (68 + 288))
    assert two.workload()[0] == pytest.approx(272.8 / (272.8 + 1185))
    gpus = ss.Cluster([ss.Node(cores=0, gpus=2)])
    assert (gpus.level, gpus.workload()) == ("homogeneous", (0.0, 1.0))
    assert ss.Cluster([XEON, ss.Node(cores=4, cpu_bandwidth=68)]).level == "mixed"


def test_rates_count_processors() -> None:
    cluster = ss.Cluster([XEON, EPYC]).with_rates(1.0, 16.0)
    # The cluster has 24 cores of rate 1 and 3 GPUs of rate 16.
    assert cluster.workload() == pytest.approx((24 / 72, 48 / 72))
    assert cluster.slots(True) == [16.0] * 3
    assert cluster.slots(False) == [1.0] * 24


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ss.Node(cores=0),
        lambda: ss.Node(cores=-1, gpus=2),
        lambda: ss.Node(cpu_bandwidth=0),
        lambda: ss.Cluster([]),
        lambda: ss.Cluster([ss.Node()], network=0),
        lambda: ss.Cluster([ss.Node(cores=1, gpus=1)]).workload(),
    ],
)
def test_invalid_clusters_are_refused(wrong: Any) -> None:
    with pytest.raises(sj.UsageError):
        wrong()


def test_the_workload_table_divides_by_rising_frequency(sparse: ss.Statistics) -> None:
    cluster = ss.Cluster([XEON])
    layout = planner(sparse, cluster).choose("tokens", 40)
    assert layout.cut is not None and layout.cut >= TABLE
    spec = json.loads(layout.text)
    # Rare tokens are for CPUs; those from the cut on are for GPUs, in separate groups.
    cpu, gpu = spec["zones"]
    assert cpu[0] == layout.cut and gpu[0] is None and cpu[1] + cpu[2] == gpu[1]
    probe = planner(sparse, cluster)
    from simjoin import _native

    whole = _native.ClusterLayout(probe.question.spec([(None, 0, 1)], [[]]))
    counts = probe.sample.prefix_counts(whole)
    below = sum(count for place, count in counts if place < layout.cut)
    total = sum(count for _, count in counts)
    most = max(count for _, count in counts)
    share = cluster.workload()[0]
    assert share * total <= below <= share * total + most
    assert layout.partitions(False) > 0 and layout.partitions(True) > 0


def test_tiles_are_divided_by_work(dense: ss.Statistics) -> None:
    cluster = ss.Cluster([XEON]).with_rates(1.0, 100.0)
    layout = planner(dense, cluster).choose("tiles", 60)
    cpu = sum(task.seconds for task in layout.tasks if not task.gpu)
    total = sum(task.seconds for task in layout.tasks)
    assert cpu / total == pytest.approx(cluster.workload()[0], abs=0.05)


def test_long_prefixes_are_for_tiles_and_rare_tokens_for_groups() -> None:
    """The layout that moves fewer bytes is chosen if the work is the same."""
    cluster = ss.Cluster([ss.Node(cores=16, count=4)])
    thick = ss.Statistics.of(collection(1500, 200, 60)).scaled(2_000_000)
    thin = ss.Statistics.of(collection(4000, 50_000, 6)).scaled(20_000_000)
    few = planner(thick, cluster, "0.5")
    assert few.choose().distribution == "tiles"
    assert few.tiles(64).bytes < few.tokens(64).bytes
    many = planner(thin, cluster)
    assert many.choose().distribution == "tokens"
    assert many.tokens(64).bytes < many.tiles(64).bytes


def test_heavy_tokens_get_ranges() -> None:
    rows = [["the", f"x{n}", f"y{n % 50}"] for n in range(2000)]
    layout = planner(ss.Statistics.of(rows), ss.Cluster([ss.Node(cores=8)]), "0.3").tokens(8)
    assert layout.heavy > 0 and len(layout.tasks) > layout.groups


def test_memory_makes_more_tasks(sparse: ss.Statistics) -> None:
    cluster = ss.Cluster([ss.Node(cores=2)])
    large = sparse.scaled(50_000_000)
    small = Planner(large, Question("jaccard", "0.8", True), cluster, task_memory=64 << 20)
    layout = small.choose()
    assert max(task.tokens for task in layout.tasks) * 16 <= 64 << 20


def test_statistics_are_written_and_read(sparse: ss.Statistics, tmp_path: Path) -> None:
    path = str(tmp_path / "statistics.json")
    sparse.save(path)
    again = ss.Statistics.load(path)
    cluster = ss.Cluster([ss.Node(cores=4)])
    asked: dict[str, Any] = {"records": 10**7, "jaccard": 0.7}
    assert ss.simulate(again, cluster, **asked) == ss.simulate(sparse, cluster, **asked)
    assert sparse.scaled(10**6).rows == 10**6
    with pytest.raises(sj.UsageError):
        sparse.scaled(0).scaled(5)


def test_more_cores_are_faster_and_more_records_slower(dense: ss.Statistics) -> None:
    def seconds(cores: int, records: int) -> float:
        cluster = ss.Cluster([ss.Node(cores=cores)])
        return ss.simulate(dense, cluster, records=records, jaccard=0.7).seconds

    # With so much work, the part that does not shrink with cores is negligible.
    assert seconds(1, 10**7) > 1.8 * seconds(2, 10**7) > 3.2 * seconds(4, 10**7)
    assert seconds(4, 10**5) < seconds(4, 10**6) < seconds(4, 10**7)


def test_makespan_is_that_of_the_longest_slot() -> None:
    generator = random.Random(3)
    for _ in range(50):
        tasks = [generator.random() for _ in range(generator.randrange(1, 30))]
        slots = [1.0] * generator.randrange(1, 6)
        span = _costs.makespan(tasks, slots)
        assert max(max(tasks), sum(tasks) / len(slots)) <= span + 1e-9
        assert span <= sum(tasks) / len(slots) + max(tasks)


def test_simulate_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sets.txt"
    path.write_text("".join(" ".join(row) + "\n" for row in collection(500, 300, 8)))
    command = ["simulate", str(path), "--jaccard", "0.8", "--records", "1e6,1e9", "--nodes", "50"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "1,000,000,000" in said and "homogeneous" in said
    assert main([*command, "--gpus", "1"]) == 0
    assert "heterogeneous" in capsys.readouterr().out
    assert main(["simulate", str(tmp_path / "none"), "--jaccard", "0.8"]) == 1
    assert main(["simulate", str(path)]) == 1
    assert "no threshold was given" in capsys.readouterr().err
