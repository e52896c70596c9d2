"""Installs the Python package of this repository into a virtual environment."""

from __future__ import annotations

import sys
from pathlib import Path

from . import process
from .context import say
from .paths import CACHE, REPOSITORY, REQUIREMENTS


def python(name: str) -> Path:
    """Returns the Python of an environment."""
    return CACHE / f"{name}-venv" / "bin" / "python"


def install(name: str) -> str | None:
    """Installs the requirements of a job, and the package; returns an error message, if any."""
    if not python(name).is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        created = process.run([sys.executable, "-m", "venv", python(name).parent.parent])
        if created.code != 0:
            return f"no virtual environment: {created.complaint}"
    say("installing simjoin (pip install .)")
    command = [python(name), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for what in (["-r", str(REQUIREMENTS / f"{name}.txt")], [str(REPOSITORY)]):
        finished = process.run([*command, *what], limit=1800, folder=REPOSITORY)
        if finished.code != 0:
            return f"pip failed: {finished.complaint}"
    return None
