"""Runs a child process with a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finished:
    """The result of a child process. ``code`` is None if it ran out of time;
    ``peak`` is the largest resident memory in bytes, if it was measured."""

    code: int | None
    wall: float
    stdout: str
    stderr: str
    peak: int | None = None

    @property
    def complaint(self) -> str:
        """Returns the last line of standard error, or the exit status."""
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
    """Runs a command to its end or to the time limit, and measures its wall clock time."""
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


def run_with_peak(
    command: Sequence[str | Path],
    limit: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Like ``run``, and also measures the child's peak resident memory.

    The wall clock time is up to 5 ms too long. The system also counts the time
    before the child has started the program, so the peak is never below the
    memory of this driver, about 20 MB."""
    start = time.perf_counter()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as stdout,
        tempfile.TemporaryFile("w+", errors="replace") as stderr,
        subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=None if environment is None else dict(environment),
        ) as child,
    ):
        late = False
        try:
            # Only wait4 gives one child's usage, and Popen has no call for it.
            delay = 0.0005
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            while pid == 0:
                late = limit is not None and time.perf_counter() - start > limit
                if late:
                    child.kill()
                    pid, status, usage = os.wait4(child.pid, 0)
                    break
                time.sleep(delay)
                delay = min(2 * delay, 0.005)
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            wall = time.perf_counter() - start
            child.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            child.kill()
            raise
        peak = resident_bytes(usage.ru_maxrss)
        if late:
            return Finished(None, wall, "", "", peak)
        stdout.seek(0)
        stderr.seek(0)
        return Finished(child.returncode, wall, stdout.read(), stderr.read(), peak)


def resident_bytes(ru_maxrss: int) -> int:
    """Returns the system's figure in bytes: macOS reports bytes, other systems kibibytes."""
    return ru_maxrss if sys.platform == "darwin" else ru_maxrss * 1024
