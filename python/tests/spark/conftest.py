"""A real cluster for one session of tests: a standalone master and two workers on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from simjoin.spark._standalone import Standalone, Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pip install simjoin[spark]")

#: The variable that enables the long tests: every file, several thresholds, kills.
HEAVY = "SIMJOIN_SPARK_HEAVY"

#: The variable with the number of workers, if not two.
WORKERS = "SIMJOIN_SPARK_WORKERS"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "heavy" in item.keywords and not os.environ.get(HEAVY):
            item.add_marker(pytest.mark.skip(reason=f"takes long; {HEAVY}=1 asks for it"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"heavy: takes long; {HEAVY}=1 asks for it")


def ensure_java() -> None:
    """Installs Java if it is missing and can be installed."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        for command in (
            ["update", "--quiet"],
            ["install", "--yes", "--quiet", "default-jre-headless"],
        ):
            subprocess.run(["apt-get", *command], check=True)
    if not shutil.which("java"):
        pytest.fail("Spark needs Java 17: install default-jre-headless", pytrace=False)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Standalone]:
    """Starts two workers with more cores than one session uses, so that a second driver gets some."""
    ensure_java()
    with Standalone(
        [Worker(cores=2, memory=2560, gpus=1), Worker(cores=2, memory=2560)]
    ) as started:
        yield started


@pytest.fixture(scope="session")
def spark(cluster: Standalone) -> Iterator[SparkSession]:
    """Starts the session of the test process: two executors of one core, one on each worker."""
    session = cluster.session({"spark.cores.max": os.environ.get(WORKERS, "2")})
    yield session
    session.stop()
