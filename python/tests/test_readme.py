"""Do the examples of the README work?"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "README.md").read_text().split("## From Python", 1)[1].split("\n## ", 1)[0]
BLOCKS = re.findall(r"```(python|text)\n(.*?)```", SECTION, re.DOTALL)


def run(code: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_first_example_prints_what_the_readme_shows() -> None:
    (kind, code), (shown_kind, shown) = BLOCKS[:2]
    assert (kind, shown_kind) == ("python", "text")
    assert run(code) == shown


def test_first_example_needs_no_other_library() -> None:
    names = ("numpy", "pandas", "polars", "pyarrow", "duckdb", "typing_extensions")
    run(f"import sys; sys.modules.update(dict.fromkeys({names}))\n{BLOCKS[0][1]}")


@pytest.mark.parametrize(
    "at", [number for number, (kind, _) in enumerate(BLOCKS) if kind == "python"]
)
def test_every_example_runs(at: int) -> None:
    run(BLOCKS[at][1])
