"""The Python package of these very sources, in an environment of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from . import process
from .context import say
from .paths import CACHE, REPOSITORY, REQUIREMENTS


def python(name: str) -> Path:
    """The Python of an environment."""
    return CACHE / f"{name}-venv" / "bin" / "python"


def install(name: str) -> str | None:
    """Installs what a job requires, and the package; returns what went wrong, if anything did."""
    if not python(name).is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = process.run([sys.executable, "-m", "venv", python(name).parent.parent])
        if made.code != 0:
            return f"no virtual environment: {made.complaint}"
    say("installing simjoin (pip install .)")
    command = [python(name), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for what in (["-r", str(REQUIREMENTS / f"{name}.txt")], [str(REPOSITORY)]):
        finished = process.run([*command, *what], limit=1800, folder=REPOSITORY)
        if finished.code != 0:
            return f"pip failed: {finished.complaint}"
    return None
