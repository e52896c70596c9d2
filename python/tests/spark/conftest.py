"""A real cluster for the tests of one session: a standalone master and two workers on loopback."""

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

#: Asks for the tests that take long: every file, several thresholds, kills.
HEAVY = "SIMJOIN_SPARK_HEAVY"

#: How many workers there are, if not two.
WORKERS = "SIMJOIN_SPARK_WORKERS"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "heavy" in item.keywords and not os.environ.get(HEAVY):
            item.add_marker(pytest.mark.skip(reason=f"takes long; {HEAVY}=1 asks for it"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"heavy: takes long; {HEAVY}=1 asks for it")


def ensure_java() -> None:
    """Installs Java where it is missing and can be installed."""
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
    """Two workers. Their cores are more than one session uses, so that a second driver finds some."""
    ensure_java()
    with Standalone(
        [Worker(cores=2, memory=2560, gpus=1), Worker(cores=2, memory=2560)]
    ) as started:
        yield started


@pytest.fixture(scope="session")
def spark(cluster: Standalone) -> Iterator[SparkSession]:
    """The session of the test process: two executors of one core, one on each worker."""
    session = cluster.session({"spark.cores.max": os.environ.get(WORKERS, "2")})
    yield session
    session.stop()
