"""The figures that the papers report, and collections that resemble theirs."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from . import data, process, simjoin
from .context import Context
from .paths import BENCHMARKS, GENERATED

PAPERS = BENCHMARKS / "papers"
ON_CPU = frozenset({"CPU", "SKJ", "SIMD", "std", "boost", "MMJoin-CPU", "Multi-CPU", "Fier"})
# Paper 3 joins titles; these are titles with their authors.
TITLES, TITLES_SETS = "acl_title_authors", 16_000_000


@dataclass(frozen=True)
class Seconds:
    """The best of a paper's seconds on each kind of processor."""

    cpu: float | None
    gpu: float | None

    @property
    def best(self) -> float | None:
        """Returns the best of both."""
        return min((one for one in (self.cpu, self.gpu) if one is not None), default=None)


@dataclass(frozen=True)
class Claim:
    """A paper's claim: ``slow`` takes ``factor`` times as long as ``fast``. Each is an engine (``hybrid:0.8`` with
    the device share), or techniques, of which the best counts."""

    paper: str
    place: str
    stage: str
    what: str
    slow: str
    fast: str
    factor: float


def rows(name: str) -> list[dict[str, str]]:
    """Returns the rows of a file of figures."""
    with (PAPERS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def figures() -> dict[tuple[str, str, str, str], dict[str, float]]:
    """Returns the papers' seconds by paper, table, dataset and threshold, then by technique. Table 14 of paper 2
    has further techniques for cells of its tables 7 and 9, and is added to these."""
    found: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for row in rows("figures.csv"):
        key = (row["paper"], row["table"], row["dataset"], row["threshold"])
        found.setdefault(key, {})[row["technique"]] = float(row["seconds"])
    for key in [key for key in found if key[:2] == ("2", "14")]:
        seconds = found.pop(key)
        for numbered in ("7", "9"):
            found.get(("2", numbered, *key[2:]), {}).update(seconds)
    return found


def claims(stage: str) -> list[Claim]:
    """Returns the claims in the text of the papers about a stage."""
    found = [Claim(**{**row, "factor": float(row["factor"])}) for row in rows("claims.csv")]
    return [claim for claim in found if claim.stage == stage]


def winners() -> dict[str, dict[str, int]]:
    """Returns table 5 of paper 1: by threshold, the number of collections on which each algorithm is best."""
    return {
        row.pop("threshold"): {name: int(count) for name, count in row.items()}
        for row in rows("algorithms.csv")
    }


def best_of(seconds: dict[str, float]) -> Seconds:
    """Returns the best seconds of a cell's techniques with and without a GPU."""
    cpu = [value for name, value in seconds.items() if name in ON_CPU]
    gpu = [value for name, value in seconds.items() if name not in ON_CPU]
    return Seconds(min(cpu, default=None), min(gpu, default=None))


def sizes(listed: str) -> dict[str, int]:
    """Returns the number of sets of each collection, from the output of ``simjoin generate like --list``."""
    return {row["name"]: int(row["sets"]) for row in csv.DictReader(listed.splitlines(), delimiter="\t")}


def profiles(binary: Path) -> dict[str, int]:
    """Returns the number of sets of each collection that ``simjoin generate like`` generates."""
    finished = process.run([binary, "generate", "like", "--list"], limit=30)
    if finished.code != 0:
        raise simjoin.Unavailable(finished.complaint)
    return sizes(finished.stdout)


def number(text: str) -> int:
    """Reads 5M or 50K."""
    return int(text[:-1]) * {"K": 10**3, "M": 10**6}[text[-1]]


@dataclass(frozen=True)
class Collection:
    """A collection to join: the arguments of ``simjoin generate``, and the generated file."""

    words: tuple[str | Path, ...]
    path: Path

    def make(self, binary: Path) -> str | None:
        """Generates the file unless it exists; returns an error message, if any."""
        return simjoin.generate(binary, lambda to: ["generate", *self.words, "-q", "-o", to], self.path)


def similar_collection(dataset: str, part: float, known: dict[str, int]) -> Collection | None:
    """Returns a collection that resembles a part of a paper's; None if the paper does not report its sizes."""
    if dataset.lower() in known:
        sets, words = known[dataset.lower()], ["like", dataset.lower()]
    elif dataset.count("-") == 2:
        many, universe, size = dataset.split("-")
        sets, words = number(many), ["zipf", "--universe", universe, "--size", size]
    else:
        return None
    sets = max(1, round(sets * part))
    path = GENERATED / f"papers-{dataset.lower()}-{sets}.txt"
    return Collection((*words, "--sets", str(sets)), path)


def inflated(context: Context, real: str, sets: float) -> tuple[Collection | None, Path | None, int]:
    """Returns a real collection inflated to about this number of sets: its generator, its file and the factor."""
    path = data.set_file(context.folder, real)
    if path is None:
        return None, None, 0
    times = max(1, round(sets / data.count_rows(path)))
    if times == 1:
        return None, path, 1
    target = GENERATED / f"papers-{real}-{times}.txt"
    return Collection(("inflate", path, "--times", str(times)), target), target, times


def dirty_titles(context: Context, part: float) -> Collection | None:
    """Returns real titles with dirty copies, together a part of the number in paper 3."""
    path = data.text_file(context.folder, TITLES)
    if path is None:
        return None
    copies = max(1, round(TITLES_SETS * part / data.count_rows(path)) - 1)
    words = ("dirty", path, "--copies", str(copies), "--edits", "1..5")
    return Collection(words, GENERATED / f"papers-{TITLES}-{copies}.txt")
