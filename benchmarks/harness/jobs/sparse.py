"""Measures the time and the memory of joins of many short sets of rare tokens."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import bench, data, simjoin, statistics, table
from ..bench import Timing
from ..cells import Cell
from ..context import Context, Report, say
from ..paths import GENERATED
from ..simjoin import AUTO, Outcome
from .techniques import PUBLISHED, Measured, goal

DATASET = "zipf"
UNIVERSE, SIZE, SEED = 500_000, 10, 1
SETS = "5M"
THRESHOLDS = ("0.9", "0.8", "0.7")
TECHNIQUES = (AUTO, "prefix-bitmap", "ppjoin", "all-pairs", "group-join", "skip-join")
THREADS = (1, 2)
MEMORY_THREADS = 2
MEMORY, MEMORY_BYTES = "256M", 256 << 20
DENSE = Cell("acl_2grams", "jaccard", "0.5")
SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}

# The goals.
AUTO_TO_PUBLISHED = 1.0
BYTES_PER_SET = 1024


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.set_defaults(limit=600.0)
    parser.add_argument(
        "--sets", type=number, default=number(SETS), metavar="N",
        help=f"number of sets; may end with K, M or G (default: {SETS})",
    )


def number(text: str) -> int:
    """Reads ``5M`` or ``50000``."""
    digits = text.strip().upper()
    suffix = digits[-1:] if digits[-1:] in SUFFIXES else ""
    digits = digits.removesuffix(suffix)
    if not (digits.isascii() and digits.isdigit()) or int(digits) < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1, such as 50K or 5M")
    return int(digits) * SUFFIXES[suffix]


@dataclass
class Tables(table.Table):
    """A table with others below it."""

    below: list[table.Table] = field(default_factory=list)

    def text(self) -> str:
        """Returns the tables for a terminal."""
        return "\n".join([super().text(), *(one.text() for one in self.below)])

    def markdown(self) -> str:
        """Returns the tables as Markdown; the titles of the others are one level lower."""
        return "\n".join([super().markdown(), *("#" + one.markdown() for one in self.below)])


def collection_path(sets: int) -> Path:
    """Returns the path of the collection; its name contains the settings of the generator."""
    return GENERATED / f"zipf-{sets}-{UNIVERSE}-{SIZE}-seed{SEED}.txt"


def generate_arguments(sets: int, path: Path) -> list[str | Path]:
    """Returns the arguments that generate the collection."""
    return ["generate", "zipf", "--sets", str(sets), "--universe", str(UNIVERSE),
            "--size", str(SIZE), "--seed", str(SEED), "-o", path]


def make_collection(binary: Path, sets: int, path: Path) -> str | None:
    """Generates the collection unless it exists; returns an error message, if any."""
    return simjoin.generate(binary, lambda to: generate_arguments(sets, to), path)


def input_bytes(stats: Mapping[str, Any]) -> int | None:
    """Returns the bytes of a self-join's input in memory, from --stats: 4 per token, 20 per distinct
    set and 8 for its offset, 4 per row. None if the statistics lack a number."""
    try:
        return (
            4 * int(stats["tokens"]) + 28 * int(stats["distinct"]["left"])
            + 4 * int(stats["records"]["left"])
        )
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True)
class MemoryRun:
    """A run whose memory was measured; ``limit`` is that of --memory in bytes."""

    cell: Cell
    limit: int | None
    outcome: Outcome

    @property
    def rows(self) -> int | None:
        """Returns the number of sets, if the statistics have it."""
        records = self.outcome.stats.get("records")
        left = records.get("left") if isinstance(records, dict) else None
        return left if isinstance(left, int) else None

    @property
    def per_set(self) -> float | None:
        """Returns the bytes of peak memory per set."""
        return statistics.ratio(self.outcome.peak, self.rows)

    @property
    def bound(self) -> int | None:
        """Returns the bytes that a run with a limit may use: the limit and the input."""
        held = input_bytes(self.outcome.stats)
        return None if self.limit is None or held is None else self.limit + held

    @property
    def within(self) -> bool | None:
        """Returns whether the run kept to the bound; None if there is no limit or no answer."""
        if self.bound is None or self.outcome.peak is None:
            return None
        return self.outcome.peak <= self.bound

    def __str__(self) -> str:
        return f"{self.cell}" + ("" if self.limit is None else f" --memory {MEMORY}")


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Makes the collection, runs the joins and makes the tables."""
    thresholds = context.thresholds or list(THRESHOLDS)
    wanted = [Cell(DATASET, "jaccard", threshold) for threshold in thresholds]
    cells: dict[Any, Measured] = {}
    paths: dict[str, Path] = {}
    problems: list[str] = []

    if is_asked(context, DATASET):
        path = collection_path(arguments.sets)
        wrong = make_collection(context.binary, arguments.sets, path)
        if wrong:
            problems.append(wrong)
        else:
            paths[DATASET] = path
            cells = {cell.key: Measured(cell) for cell in wanted}
            problems += time_techniques(context, path, thresholds, cells)
    if is_asked(context, DENSE.dataset):
        dense = data.set_file(context.folder, DENSE.dataset)
        if dense is None:
            say(f"{DENSE.dataset}: not in the data folder, omitted")
        else:
            paths[DENSE.dataset] = dense

    runs = [
        memory_run(context, paths[cell.dataset], cell, limit)
        for cell in [*wanted, DENSE] if cell.dataset in paths
        for limit in (None, MEMORY_BYTES)
    ]
    measured = [one for one in cells.values() if one.timings]
    exact = data.by_key(data.load_expected(context.folder))
    problems += failures(runs, context.limit) + disagreements(measured, runs, exact)
    result = time_table(measured, context.limit, arguments.sets)
    result.below.append(memory_table(runs))
    result.below[-1].summary += problems
    return Report(result, 1 if problems or not (measured or runs) else 0)


def is_asked(context: Context, dataset: str) -> bool:
    """Returns whether a collection is selected."""
    return context.datasets is None or dataset in context.datasets


def bench_arguments(
    path: Path, thresholds: list[str], threads: int, runs: int, limit: float
) -> list[str]:
    """Returns the arguments that time the techniques of this job."""
    return [*bench.arguments(path, thresholds, threads, runs, limit),
            "--technique", ",".join(TECHNIQUES)]


def time_techniques(
    context: Context, path: Path, thresholds: list[str], cells: Mapping[Any, Measured]
) -> list[str]:
    """Measures the joins and stores the times in the cells; returns error messages."""
    limit = context.limit

    def receive(timing: Timing) -> None:
        say(f"{timing.cell}: {timing.technique} ×{timing.threads} {seconds_cell(timing, limit)} s")
        cells[timing.cell.key].add(timing)

    problems = []
    for threads in THREADS:
        words = bench_arguments(path, thresholds, threads, context.runs, limit)
        wrong = bench.run(context.binary, words, DATASET, receive)
        if wrong:
            problems.append(f"{DATASET} ×{threads}: {wrong}")
    return problems


def memory_run(context: Context, path: Path, cell: Cell, limit: int | None) -> MemoryRun:
    """Runs a join and measures its memory; prints a line of progress."""
    words = simjoin.set_arguments(path, cell, AUTO, MEMORY_THREADS)
    if limit is not None:
        words += ["--memory", MEMORY]
    outcome = simjoin.run(context.binary, words, context.limit, peak=True)
    one = MemoryRun(cell, limit, outcome)
    say(f"{one}: {table.seconds(outcome.wall)} s, {mebibytes(outcome.peak)} MiB")
    return one


def failures(runs: list[MemoryRun], limit: float) -> list[str]:
    """Returns a line for each run that failed."""
    return [
        f"{one}: " + (f"not finished within {limit:g} s" if one.outcome.state == "timeout"
                      else one.outcome.note)
        for one in runs if not one.outcome.ok
    ]


def disagreements(
    measured: list[Measured], runs: list[MemoryRun], exact: Mapping[Any, int]
) -> list[str]:
    """Returns a line for each cell whose counts differ, with the exact count if it is known."""
    counts: dict[Cell, dict[str, int]] = {}
    for one in measured:
        for timing in one.timings.values():
            if timing.pairs is not None:
                way = f"{timing.technique} ×{timing.threads}"
                counts.setdefault(one.cell, {})[way] = timing.pairs
    for join in runs:
        if join.outcome.pairs is not None:
            way = "no limit" if join.limit is None else f"--memory {MEMORY}"
            counts.setdefault(join.cell, {})[way] = join.outcome.pairs
    lines = []
    for cell, found in counts.items():
        if cell.key in exact:
            found = {"exact": exact[cell.key], **found}
        if len(set(found.values())) > 1:
            listed = ", ".join(f"{way} {pairs:,}" for way, pairs in found.items())
            lines.append(f"{cell}: the counts DISAGREE: {listed}")
    return lines


def ratio_to_published(one: Measured, threads: int) -> float | None:
    """Returns the time of auto over the best published technique, on the same number of threads."""
    best = one.best(PUBLISHED, threads)
    return statistics.ratio(one.join(AUTO, threads), best.join if best else None)


def time_table(measured: list[Measured], limit: float, sets: int) -> Tables:
    """Returns the table of times, with a row per threshold and number of threads."""
    result = Tables(
        "Many short sets of rare tokens",
        ["T", "threads", "pairs", *TECHNIQUES, "chose", "best published", "auto/best"],
        frozenset({"chose", "best published"}),
        notes=[
            f"{sets:,} sets of {SIZE} tokens on average, of {UNIVERSE:,} that follow Zipf's law: "
            f"simjoin generate zipf --sets {sets} --universe {UNIVERSE} --size {SIZE} "
            f"--seed {SEED}.",
            "Seconds of the join alone, from simjoin bench; Jaccard.",
            f"auto/best: auto over the fastest of the published techniques ({', '.join(PUBLISHED)}) "
            "on the same number of threads.",
            ">N: ended by the time limit; –: omitted after that, or not known.",
        ],
    )
    for one in measured:
        pairs = [timing.pairs for timing in one.timings.values() if timing.pairs is not None]
        for threads in THREADS:
            auto, best = one.timings.get((AUTO, threads)), one.best(PUBLISHED, threads)
            result.add(
                one.cell.threshold, str(threads), table.count(pairs[0] if pairs else None),
                *(seconds_cell(one.timings.get((name, threads)), limit) for name in TECHNIQUES),
                (auto.ran if auto else None) or "–", best.technique if best else "–",
                table.factor(ratio_to_published(one, threads)),
            )
    result.summary = time_lines(measured)
    return result


def seconds_cell(timing: Timing | None, limit: float) -> str:
    """Returns the seconds of the join, or the reason why there are none."""
    if timing is not None and timing.join is None and timing.runs:
        return f">{limit:g}"
    return table.seconds(timing.join if timing else None)


def time_lines(measured: list[Measured]) -> list[str]:
    """Returns a line that says whether auto is at least as fast as the published techniques."""
    places = [
        (one, threads, ratio_to_published(one, threads))
        for one in measured for threads in THREADS if one.best(PUBLISHED, threads)
    ]
    known = [(value, one, threads) for one, threads, value in places if value is not None]
    if not known:
        return ["auto and the published techniques: nothing to compare"] if measured else []
    near, _ = statistics.share_within([value for value, _, _ in known], AUTO_TO_PUBLISHED)
    worst, where, threads = max(known, key=lambda entry: entry[0])
    lost = len(places) - len(known)
    return [
        f"auto is as fast as the best published technique or faster in "
        f"{table.percent(near, len(places))} of the rows; worst {table.factor(worst)} at "
        f"{where.cell.threshold} ×{threads}, "
        + goal(f"≤ {AUTO_TO_PUBLISHED:g}×", near == len(places))
        + (f"; {table.plural(lost, 'row')} where auto did not finish" if lost else "")
    ]


def memory_table(runs: list[MemoryRun]) -> table.Table:
    """Returns the table of memory, with a row per run."""
    result = table.Table(
        "Memory",
        ["dataset", "T", "--memory", "ran", "pairs", "wall", "peak MiB", "bytes/set", "input MiB",
         "limit + input", "within"],
        frozenset({"dataset", "ran", "within"}),
        notes=[
            f"simjoin sets --count on {MEMORY_THREADS} threads; wall is the seconds of the whole "
            "process, once. peak: the largest resident memory, as the system reports it.",
            "input: 4 bytes per token, 28 per distinct set and 4 per row, from the numbers in --stats; "
            "tokens are those of all rows, including repeated sets.",
            "within: whether the peak is at most the limit and the input.",
        ],
    )
    for one in runs:
        held = input_bytes(one.outcome.stats)
        result.add(
            one.cell.dataset, one.cell.threshold, "–" if one.limit is None else MEMORY,
            str(one.outcome.stats.get("technique", "–")), table.count(one.outcome.pairs),
            table.seconds(one.outcome.wall), mebibytes(one.outcome.peak),
            "–" if one.per_set is None else f"{one.per_set:,.0f}", mebibytes(held),
            mebibytes(one.bound), {None: "–", True: "yes", False: "NO"}[one.within],
        )
    result.summary = memory_lines(runs)
    return result


def memory_lines(runs: list[MemoryRun]) -> list[str]:
    """Returns the lines of the figures that have goals."""
    lines = []
    free = [
        (one.per_set, one) for one in runs
        if one.limit is None and one.cell.dataset == DATASET and one.per_set is not None
    ]
    if free:
        most, where = max(free, key=lambda entry: entry[0])
        lines.append(
            f"{DATASET} without a limit: at most {most:,.0f} bytes per set (at "
            f"{where.cell.threshold}), "
            + goal(f"≤ {BYTES_PER_SET:,}", most <= BYTES_PER_SET)
        )
    limited = [one for one in runs if one.limit is not None]
    if limited:
        over = [f"{one.cell.dataset} {one.cell.threshold}" for one in limited if not one.within]
        lines.append(
            f"--memory {MEMORY}: the peak is at most the limit and the input in "
            f"{table.percent(len(limited) - len(over), len(limited))} of the runs, "
            + goal("all", not over) + (f" in {', '.join(over)}" if over else "")
        )
    return lines


def mebibytes(value: int | None) -> str:
    """Formats bytes as MiB."""
    return "–" if value is None else f"{value / (1 << 20):,.0f}"
