"""Do the commands in the documentation do what it says?

Every block marked `sh` of a page is run by bash, in one folder for the page, with the given simjoin
first on the path; a block that fails fails the page. Where a block marked `output` follows, standard
output must be what it shows. Tables of the README must be those of the records (`tables.py`). `--write` puts
what came out there instead.

    python3 docs/check.py --simjoin target/release/simjoin [--write] [PAGE…]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tables

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = ROOT / "docs" / "pages"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
# Longer than any block takes on a small machine.
LIMIT = 600


@dataclass(frozen=True)
class Block:
    """A command, and what it shows where the page says so."""

    command: str
    line: int
    output: str | None
    # Where the shown output stands in the page.
    place: tuple[int, int] | None


def blocks(text: str) -> list[Block]:
    """The commands of a page in order. An output belongs to the command right before it."""
    found: list[Block] = []
    end = 0
    for match in BLOCK.finditer(text):
        kind, body = match.group(1), match.group(2)
        if kind == "sh":
            found.append(Block(body, text.count("\n", 0, match.start()) + 2, None, None))
        elif kind == "output":
            last = found[-1] if found else None
            if last is None or last.output is not None or text[end:match.start()].strip():
                raise ValueError(f"an output without a command right before it: {body[:40]!r}")
            found[-1] = Block(last.command, last.line, body, match.span(2))
        end = match.end()
    return found


def run(page: Path, environment: dict[str, str], write: bool) -> list[str]:
    """Runs a page's commands; returns what is wrong."""
    text = page.read_text(encoding="utf-8")
    problems: list[str] = []
    changes: list[tuple[tuple[int, int], str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks(text):
            name = f"{page.relative_to(ROOT)}:{block.line}"
            try:
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", block.command], cwd=folder, env=environment,
                    capture_output=True, text=True, timeout=LIMIT, check=False,
                )
            except subprocess.TimeoutExpired:
                return [*problems, f"{name}: ran longer than {LIMIT} s"]
            if done.returncode != 0:
                return [*problems, f"{name}: ended with {done.returncode}\n{done.stderr.strip()}"]
            if block.output is None or block.output == done.stdout:
                continue
            if write and block.place:
                changes.append((block.place, done.stdout))
            else:
                problems.append(f"{name}: shows\n{block.output}but prints\n{done.stdout}")
    replace(page, text, changes)
    return problems


def replace(path: Path, text: str, changes: list[tuple[tuple[int, int], str]]) -> None:
    """Writes a file with other text at some places, in order."""
    for (start, end), new in reversed(changes):
        text = text[:start] + new + text[end:]
    if changes:
        path.write_text(text, encoding="utf-8")


def readme(write: bool) -> list[str]:
    """Compares the README's tables with the records; returns what is wrong."""
    text = README.read_text(encoding="utf-8")
    if not tables.SHOWN.search(text):
        return [f"{README.name}: there is no table of a record"]
    changes = tables.differences(text)
    if write:
        replace(README, text, changes)
        return []
    return [f"{README.name}: a table is not the recorded one:\n{text[start:end]}but\n{new}"
            for (start, end), new in changes]


def main() -> int:
    """Runs all pages, or those named, with a cache folder of their own."""
    with tempfile.TemporaryDirectory(prefix="simjoin-docs-") as cache:
        return check(cache)


def check(cache: str) -> int:
    """Runs all pages, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simjoin", type=Path, default=ROOT / "target" / "release" / "simjoin")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data",
                        help="where the data are, unless SIMJOIN_DATA says so")
    parser.add_argument("--write", action="store_true", help="show what comes out from now on")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args()
    binary = options.simjoin.resolve()
    if not binary.is_file():
        parser.error(f"{binary} is not there; build it with cargo build --release")
    data = Path(os.environ.get("SIMJOIN_DATA", options.data)).resolve()
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(binary.parent), os.environ.get("PATH", "")]),
        "SIMJOIN_DATA": str(data),
        "LC_ALL": "C.UTF-8",
        # What is shown does not depend on the machine, nor on what was learned before.
        "SIMJOIN_MACHINE": os.environ.get("SIMJOIN_MACHINE", "fixed"),
        "XDG_CACHE_HOME": cache,
    }
    problems = readme(options.write)
    for page in [page.resolve() for page in options.pages] or sorted(PAGES.rglob("*.md")):
        if not data.is_dir() and "SIMJOIN_DATA" in page.read_text(encoding="utf-8"):
            print(f"{page.relative_to(ROOT)}: left out, there are no data in {data}")
            continue
        begin = time.monotonic()
        wrong = run(page, environment, options.write)
        problems += wrong
        state = "wrong" if wrong else "as shown"
        print(f"{page.relative_to(ROOT)}: {state}, {time.monotonic() - begin:.0f} s", flush=True)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
