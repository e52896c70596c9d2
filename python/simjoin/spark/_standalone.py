"""How is a cluster started on one machine?

This module starts a standalone master and workers on the loopback interface, for tests and measurements. It needs
only the PyPI package (which has ``spark-class`` but no start scripts). It ends processes by their ids. A worker may
own simulated GPUs: a discovery script reports them to Spark, and the engine simulates them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from simjoin._errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings for small processes that start quickly.
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

#: Settings that keep Spark's defaults for Java, for measurements.
USUAL_JAVA = {"spark.executor.extraJavaOptions": "", "spark.driver.extraJavaOptions": ""}

#: Seconds that a start may take on a busy machine.
PATIENCE = 600.0


@dataclass(frozen=True)
class Worker:
    """A worker: its cores, its memory in MiB and its GPUs."""

    cores: int = 1
    memory: int = 1024
    gpus: int = 0


def java() -> str:
    """Returns the Java that Spark will use; if there is none, the error says how to get one."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        raise UnavailableError(
            "Spark needs Java 17: install default-jre-headless, or set JAVA_HOME"
        )
    return found


class Standalone:
    """A cluster on this machine, for as long as a ``with`` statement lasts.

    >>> with Standalone([Worker(cores=1), Worker(cores=1)]) as cluster:  # doctest: +SKIP
    ...     spark = SparkSession.builder.master(cluster.url).getOrCreate()
    """

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self.folder = Path(tempfile.mkdtemp(prefix="simjoin-spark-"))
        self.processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Standalone:
        java()
        try:
            log = self._start("master", "org.apache.spark.deploy.master.Master", ["--port", "0"])
            self.url = self._wait_for(log, r"Starting Spark master at (spark://\S+)")
            for number, worker in enumerate(self.workers):
                arguments = ["--cores", str(worker.cores), "--memory", f"{worker.memory}m"]
                arguments += ["--work-dir", str(self.folder / f"work-{number}"), self.url]
                log = self._start(
                    f"worker-{number}",
                    "org.apache.spark.deploy.worker.Worker",
                    ["--port", "0", *arguments],
                    self._gpu_options(number, worker.gpus),
                )
                self._wait_for(log, r"(Successfully registered) with master")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all processes, workers first, and removes their files."""
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def session(self, more: dict[str, str] | None = None) -> SparkSession:
        """Returns a session of this process on the cluster, with further settings. All sessions of a process must
        have the same settings.
        """
        from pyspark.sql import SparkSession

        # Workers need the path of Python, and the driver its address.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = SparkSession.builder.master(self.url).appName("simjoin")
        for name, value in {**settings(), **(more or {})}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def executors(self) -> list[int]:
        """Returns the process numbers of all executors of this cluster."""
        return self._descendants(lambda command: "CoarseGrainedExecutorBackend" in command)

    def python_workers(self) -> list[int]:
        """Returns the process numbers of all Python workers of this cluster, without the daemons that fork them."""
        daemons = self._descendants(lambda command: "pyspark.daemon" in command)
        parents = {_parent(number) for number in daemons}
        return [number for number in daemons if number not in parents]

    def _descendants(self, wanted: Callable[[str], bool]) -> list[int]:
        known = [process.pid for process in self.processes]
        return [number for number in family(known) if wanted(_command(number))]

    def _gpu_options(self, number: int, gpus: int) -> dict[str, str]:
        if gpus == 0:
            return {}
        script = self.folder / f"gpus-{number}.sh"
        names = ", ".join(f'"{address}"' for address in range(gpus))
        script.write_text(f'#!/bin/sh\necho \'{{"name": "gpu", "addresses": [{names}]}}\'\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        options = (
            f"-Dspark.worker.resource.gpu.amount={gpus} "
            f"-Dspark.worker.resource.gpu.discoveryScript={script}"
        )
        return {"SPARK_WORKER_OPTS": options}

    def _start(
        self, name: str, main: str, arguments: list[str], more: dict[str, str] | None = None
    ) -> Path:
        import pyspark

        home = Path(pyspark.__file__).parent
        log = self.folder / f"{name}.log"
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JVM,
            "PYSPARK_PYTHON": sys.executable,
            **(more or {}),
        }
        command = [str(home / "bin" / "spark-class"), main, "--host", "127.0.0.1"]
        with log.open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [*command, "--webui-port", "0", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=self.folder,
                )
            )
        return log

    def _wait_for(self, log: Path, pattern: str) -> str:
        """Waits until a process has written a text, and returns the part that the pattern captures."""
        process, begin = self.processes[-1], time.monotonic()
        while time.monotonic() - begin < PATIENCE:
            text = log.read_text(errors="replace")
            found = re.search(pattern, text)
            if found:
                return found.group(1)
            if process.poll() is not None:
                raise UnavailableError(f"{log.stem} has ended: {text[-2000:]}")
            time.sleep(0.1)
        raise UnavailableError(f"{log.stem} has not started in {PATIENCE:.0f} s: {text[-2000:]}")


def settings() -> dict[str, str]:
    """Returns the settings of a session on such a cluster: small executors of one core each."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.cores": "1",
        "spark.executor.memory": "700m",
        "spark.executor.memoryOverhead": "128m",
        "spark.executor.extraJavaOptions": JVM,
        "spark.driver.extraJavaOptions": JVM,
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }


def gpu_settings(simulated: str) -> dict[str, str]:
    """Returns further settings, for simulated GPUs and for stages with a resource profile, which start and stop
    executors.
    """
    return {
        "spark.executorEnv.SIMJOIN_SIMULATED_GPU": simulated,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": "1",
        "spark.dynamicAllocation.executorIdleTimeout": "5s",
    }


def family(roots: list[int]) -> list[int]:
    """Returns the ids of these processes and of all their descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            children.setdefault(_parent(int(entry)), []).append(int(entry))
    found, waiting = [], list(roots)
    while waiting:
        number = waiting.pop()
        waiting += children.get(number, [])
        found.append(number)
    return found


def cpu_seconds(roots: list[int]) -> float:
    """Returns the CPU time of these processes and of all their descendants, including those that have ended."""
    ticks = 0
    for number in family(roots):
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{number}/stat").read_text()
            # utime, stime, and those of children that have ended.
            ticks += sum(int(one) for one in text.rsplit(")", 1)[1].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _parent(number: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{number}/stat").read_text()
        return int(text.rsplit(")", 1)[1].split()[1])
    return 0


def _command(number: int) -> str:
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{number}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
        )
    return ""
