"""Collects the facts about a run, and writes its Markdown record."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .context import Report
from .paths import RECORDED, REPOSITORY
from .table import Table

COMMIT = "SIMJOIN_COMMIT"


def cpu_model(cpuinfo: str) -> str:
    """Returns the first model name in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return platform.machine() or "unknown processor"


def memory_gib(meminfo: str) -> str:
    """Returns the total memory from the text of /proc/meminfo."""
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return f"{int(line.split()[1]) / (1 << 20):.0f} GiB"
    return "unknown"


def read_or_empty(path: str) -> str:
    """Returns the text of a file; empty if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def machine() -> str:
    """Returns the processor, the number of cores and the memory in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{cpu_model(read_or_empty('/proc/cpuinfo'))}, {cores} cores, "
        f"{memory_gib(read_or_empty('/proc/meminfo'))} memory"
    )


def load_average() -> str:
    """Returns the current load average over one minute."""
    try:
        return f"{os.getloadavg()[0]:.1f}"
    except OSError:
        return "unknown"


def git_commit() -> str:
    """Returns the commit of the checkout, and whether files differ from it. If the binary was built elsewhere, the
    environment names its commit."""
    if COMMIT in os.environ:
        return os.environ[COMMIT]

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        dirty = git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit} with uncommitted changes" if dirty else commit


def command_line(arguments: Sequence[str]) -> str:
    """Returns the command that was used, without absolute paths."""

    def clean(argument: str) -> str:
        name, equals, value = argument.partition("=")
        if equals and Path(value).is_absolute():
            return f"{name}=…"
        return "…" if Path(argument).is_absolute() else argument

    return " ".join(["python3", "benchmarks/run.py", *map(clean, arguments)])


def facts(arguments: Sequence[str], simjoin_version: str, load: str) -> dict[str, str]:
    """Returns the facts that a reader must know about a run."""
    return {
        "Date": datetime.date.today().isoformat(),
        "Machine": machine(),
        "Load average at the start": load,
        "simjoin": f"{simjoin_version}, commit {git_commit()}",
        "Command": f"`{command_line(arguments)}`",
    }


def markdown(table: Table, about: dict[str, str]) -> str:
    """Returns the record: the table, with the facts after its title."""
    title, _, rest = table.markdown().partition("\n")
    lines = [title, ""] + [f"* {name}: {value}" for name, value in about.items()]
    return "\n".join(lines) + "\n" + rest


def write(report: Report, about: dict[str, str], name: str) -> Path:
    """Writes the record of a job; replaces one of the same day and name."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    stem = f"{about['Date']}-{name}"
    path = RECORDED / f"{stem}.md"
    path.write_text(markdown(report.table, about), encoding="utf-8")
    for end, table in report.csv:
        if table.rows:
            (RECORDED / f"{stem}{end}.csv").write_text(table.csv(), encoding="utf-8")
    return path
