"""Checks that every engine finds the same pairs, with every measure on every file of the data."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .. import data, table
from ..context import Context, Report, say
from ..paths import CACHE

VARIABLE = "SIMJOIN_SIMULATED_GPU"
# A threshold for each measure at which every file has few enough pairs of distinct rows to compare them quickly.
MEASURES = (
    ("jaccard", "0.7"), ("cosine", "0.8"), ("dice", "0.8"), ("overlap", "12"), ("containment", "1"),
)
# Files with other thresholds, and with other tokens.
THRESHOLDS = {
    "acl_2grams": {"overlap": "100"},
    "acl_title_authors": {"overlap": "200"},
}
TOKENS = {"acl_title_authors": ("--tokens", "qgrams:3", "--multiset")}
WORDS = ("--tokens", "words")
# The datasets of one or two tables, and the column that is compared.
TABLES = {
    "abt_buy": "name", "amazon_google": "title", "cora": "title", "dblp_acm": "title",
    "imdb_dbpedia": "title", "walmart_amazon": "title",
}
TABLE_MEASURES = (
    ("jaccard", "0.5"), ("cosine", "0.7"), ("dice", "0.7"), ("overlap", "20"), ("containment", "1"),
)
VECTORS = {
    "aloi_27d": (("within", "0.0003926"), ("cosine", "0.999999")),
    "cover_10d": (("within", "34.66"), ("cosine", "0.99999")),
    "hipparcos_xyz": (("within", "5.369"), ("cosine", "0.99999")),
}
# Joins with more pairs are compared only by their number.
MANY = 4_000_000
# The threads of each join. If there are more cores, several joins run at once.
THREADS = 2
BOTH: tuple[tuple[str, ...], ...] = (("--engine", "hybrid"), ("--engine", "auto"))
ENGINES: tuple[tuple[str, ...], ...] = (
    ("--engine", "gpu"),
    ("--engine", "gpu", "--technique", "gpu-bitmap"),
    ("--engine", "gpu", "--technique", "gpu-prefix"),
    ("--engine", "hybrid", "--split", "0.5"),
    ("--engine", "hybrid", "--split", "queue"),
    *BOTH,
)
VECTOR_ENGINES: tuple[tuple[str, ...], ...] = (
    *(
        ("--engine", "gpu", "--technique", technique)
        for technique in ("gpu-quantile", "gpu-grid", "gpu-tensor", "gpu-nested-loop")
    ),
    ("--engine", "hybrid", "--technique", "gpu-nested-loop"),
    *BOTH,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument(
        "--simulate", metavar="SPECS",
        help=f"devices to simulate, one after the other, separated by ';' (default: ${VARIABLE}, "
        "else the real device)",
    )


def run(context: Context, options: argparse.Namespace) -> Report:
    """Compares every engine with the CPU."""
    devices = options.simulate.split(";") if options.simulate else [None]

    def listed(engines: tuple[tuple[str, ...], ...]) -> str:
        return "; ".join(" ".join(words[1:]).replace("--", "") for words in engines)

    result = table.Table(
        "The same pairs by every engine",
        ["dataset", "measure", "T", "pairs", "compared", "agree"],
        frozenset({"dataset", "measure", "compared"}),
        notes=[
            f"Self-joins of the distinct rows of sets and texts, joins of two tables, and vectors, {THREADS} "
            f"threads. --engine cpu is compared with {listed(ENGINES)}; for vectors with "
            + listed(VECTOR_ENGINES)
            + (f". Devices simulated: {options.simulate}" if options.simulate else "") + ".",
            "compared: the pairs with their similarities, in any order; or only their number, if there "
            "are very many.",
        ],
    )
    joins = cells(context)
    problems: list[str] = []
    runs = 0
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // THREADS)) as pool:
        for cell, (count, wrong) in zip(
            joins, pool.map(lambda cell: compare(context, cell, devices), joins), strict=True
        ):
            compared = len(devices) * len(cell.engines)
            runs += compared
            result.add(cell.dataset, cell.measure, cell.threshold, table.count(count),
                       "pairs" if count <= MANY else "number", str(compared - len(wrong)))
            problems += wrong
    result.summary.append(f"{runs - len(problems)} of {runs} runs agree with the CPU")
    result.summary += problems
    return Report(result, 1 if problems or runs == 0 else 0)


@dataclass(frozen=True)
class EngineJoin:
    """A join that every engine runs."""

    dataset: str
    words: tuple[str, ...]
    measure: str
    threshold: str
    engines: tuple[tuple[str, ...], ...] = ENGINES


def cells(context: Context) -> list[EngineJoin]:
    """Returns the joins of all files, or of the selected ones."""

    def files(folder: str, ending: str) -> dict[str, Path]:
        """Unpacks files and returns them by name."""
        found = {}
        for packed in sorted(context.folder.glob(f"{folder}/*{ending}.xz")):
            name = packed.name.removesuffix(f"{ending}.xz")
            # Two tables have the same name before _A and _B.
            if context.datasets is None or name.removesuffix("_A").removesuffix("_B") in context.datasets:
                found[name] = data.prepare(context.folder, [f"{folder}/{name}{ending}"])[0]
        return found

    found: list[EngineJoin] = []
    for command in ("sets", "text"):
        for dataset, path in files(command, ".txt").items():
            tokens = () if command == "sets" else TOKENS.get(dataset, WORDS)
            words = (command, str(distinct(path)), *tokens)
            other = THRESHOLDS.get(dataset, {})
            found += [EngineJoin(dataset, words, measure, other.get(measure, usual)) for measure, usual in MEASURES]
    tables = files("linkage", ".csv")
    for dataset, column in TABLES.items():
        paths = [str(tables[name]) for name in (f"{dataset}_A", f"{dataset}_B") if name in tables]
        words = ("text", *paths, "--column", column, "--tokens", "qgrams:3")
        found += [EngineJoin(dataset, words, *how) for how in TABLE_MEASURES if paths]
    vectors = files("vectors", ".npy")
    for dataset, measures in VECTORS.items():
        if dataset in vectors:
            words = ("vectors", str(vectors[dataset]))
            found += [EngineJoin(dataset, words, *how, VECTOR_ENGINES) for how in measures]
    return found


def compare(
    context: Context, cell: EngineJoin, devices: Sequence[str | None]
) -> tuple[int, list[str]]:
    """Returns the number of pairs, and a message for each engine that finds other pairs."""
    join = [*cell.words, f"--{cell.measure}", cell.threshold, "--threads", str(THREADS), "--quiet"]
    count = int(b"".join(lines(context, [*join, "--engine", "cpu", "--count"], {})))
    ask = [] if count <= MANY else ["--count"]
    expected = digest(lines(context, [*join, "--engine", "cpu", *ask], {}))
    name = f"{cell.dataset} {cell.measure} {cell.threshold}"
    problems: list[str] = []
    for device in devices:
        variables = {VARIABLE: device} if device else {}
        for words in cell.engines:
            try:
                found = digest(lines(context, [*join, *words, *ask], variables))
            except OSError as error:
                problems.append(f"{name} {device} {words}: {error}")
                continue
            if found != expected:
                problems.append(
                    f"{name} {' '.join(words)} {device or ''}: {found[0] - expected[0]:+,} lines, "
                    "DIFFERENT"
                )
    say(f"{name}: {count:,} pairs, {len(problems)} of {len(devices) * len(cell.engines)} wrong")
    return count, problems


def distinct(whole: Path) -> Path:
    """Returns a file with the distinct rows of another, in order."""
    path = CACHE / "distinct" / whole.name
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(b"".join(dict.fromkeys(whole.read_bytes().splitlines(True))))
        os.replace(unfinished, path)
    return path


def lines(context: Context, words: list[str], variables: Mapping[str, str]) -> Iterator[bytes]:
    """Yields the lines that simjoin prints; raises OSError if it fails."""
    with subprocess.Popen(
        [str(context.binary), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, **variables},
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        yield from child.stdout
        complaint = child.stderr.read().decode(errors="replace").strip()
        if child.wait() != 0:
            raise OSError(complaint[-200:] or f"exit status {child.returncode}")


def digest(found: Iterator[bytes]) -> tuple[int, int]:
    """Returns the number of lines, and a hash that does not depend on their order."""
    count, total = 0, 0
    for line in found:
        count += 1
        total += hash(line)
    return count, total
