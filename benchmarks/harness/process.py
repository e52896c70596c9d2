"""Running one child process with a time limit."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finished:
    """How a child process ended. ``code`` is None when it ran out of time."""

    code: int | None
    wall: float
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """The last line of standard error, or the exit status, in one line."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        if lines:
            return lines[-1][:200]
        if self.code is not None and self.code < 0:
            return f"ended by signal {-self.code}"
        return f"exit status {self.code}"


def run(
    command: Sequence[str | Path],
    limit: float | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Finished:
    """Runs a command to its end or to the time limit, and takes its wall clock."""
    start = time.perf_counter()
    with subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=None if environment is None else dict(environment),
        cwd=folder,
    ) as child:
        try:
            stdout, stderr = child.communicate(timeout=limit)
            wall = time.perf_counter() - start
            return Finished(child.returncode, wall, stdout, stderr)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return Finished(None, time.perf_counter() - start, "", "")
        except BaseException:
            child.kill()
            raise
