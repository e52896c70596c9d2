"""The folders of the benchmarks, relative to the repository."""

from __future__ import annotations

from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
REPOSITORY = BENCHMARKS.parent
CACHE = BENCHMARKS / ".cache"
UNPACKED = CACHE / "data"
GENERATED = CACHE / "generated"
VENV = CACHE / "venv"
SCRATCH = CACHE / "scratch"
RECORDED = BENCHMARKS / "recorded"
REQUIREMENTS = BENCHMARKS / "requirements"
DEFAULT_DATA = REPOSITORY.parent / "shared" / "data"
