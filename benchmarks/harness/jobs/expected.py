"""Checks every row of expected.tsv by every selected technique."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .. import data, simjoin, table
from ..cells import Cell, comma_list, select
from ..context import Context, Report, files, say
from ..simjoin import AUTO, DEFAULT_TIER, TIERS, Outcome

QUICK_PAIRS = 3_000_000
SMALL_FILE = 5 << 20
NAIVE_ROWS = 40_000
QUICK_NAIVE_ROWS = 20_000
TECHNIQUES = (
    AUTO, "prefix-bitmap", "bitmap", "skip-join", "ppjoin", "all-pairs", "group-join", "naive"
)
THREADS = (1, 2)
# With --quick, the lower tiers only run these techniques, on this number of the smallest files.
QUICK_TIER_TECHNIQUES = (AUTO, "bitmap")
QUICK_TIER_FILES = 3


@dataclass(frozen=True)
class Configuration:
    """A column of the table: how simjoin is run, and on which files (None: on all)."""

    technique: str
    threads: int
    tier: str = DEFAULT_TIER
    datasets: frozenset[str] | None = None

    def covers(self, dataset: str) -> bool:
        """Returns whether this configuration is run on a file."""
        return self.datasets is None or dataset in self.datasets

    def __str__(self) -> str:
        tier = "" if self.tier == DEFAULT_TIER else f" {self.tier}"
        return f"{self.technique} ×{self.threads}{tier}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument(
        "--techniques", type=comma_list, default=None, metavar="LIST",
        help=f"comma-separated; auto is simjoin's own choice (default: {','.join(TECHNIQUES)})",
    )
    parser.add_argument(
        "--threads", type=thread_list, default=None, metavar="LIST",
        help="numbers of threads, comma-separated (default: 1,2)",
    )
    parser.add_argument(
        "--tiers", type=tier_list, default=None, metavar="LIST",
        help=f"SIMD tiers, comma-separated: {', '.join(TIERS)}, or default for the one that "
        "simjoin chooses (default: default)",
    )
    parser.add_argument(
        "--quick", action="store_true",
        help="only cells with fewer than 3 million pairs from files below 5 MiB; and, if no "
        "techniques, threads and tiers are named, each technique on 2 threads, auto on 1, and "
        f"{' and '.join(QUICK_TIER_TECHNIQUES)} under the lower tiers on the "
        f"{QUICK_TIER_FILES} smallest files",
    )
    parser.add_argument(
        "--naive-rows", type=int, default=None, metavar="N",
        help="naive runs only on files with at most N rows "
        f"(default: {NAIVE_ROWS}; with --quick {QUICK_NAIVE_ROWS})",
    )


def thread_list(text: str) -> list[int]:
    """Reads ``1,2``."""
    numbers = [int(part) for part in comma_list(text)]
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError("numbers of threads are 1 or more")
    return numbers


def tier_list(text: str) -> list[str]:
    """Reads ``default,scalar``."""
    names = list(dict.fromkeys(comma_list(text)))
    unknown = [name for name in names if name not in (DEFAULT_TIER, *TIERS)]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"tiers are {', '.join((DEFAULT_TIER, *TIERS))}")
    return names


def all_configurations(
    techniques: Iterable[str], threads: Iterable[int], tiers: Iterable[str]
) -> list[Configuration]:
    """Returns every technique with every number of threads and every tier."""
    numbers, names = list(threads), list(tiers)
    return [Configuration(name, n, tier) for name in techniques for n in numbers for tier in names]


def quick_configurations(lower: Iterable[str], small: Iterable[str]) -> list[Configuration]:
    """Returns the configurations of --quick: most on 2 threads, and few with the lower tiers."""
    tier_files = frozenset(small)
    return [
        Configuration(AUTO, 1),
        *all_configurations(TECHNIQUES, [2], [DEFAULT_TIER]),
        *(Configuration(name, 2, tier, tier_files) for tier in lower for name in QUICK_TIER_TECHNIQUES),
    ]


def lower_tiers(refused: Iterable[str]) -> list[str]:
    """Returns the tiers of the processor without the widest, which is the default."""
    absent = set(refused)
    return [tier for tier in TIERS if tier not in absent][:-1]


def smallest(sizes: dict[str, int], number: int) -> list[str]:
    """Returns the smallest files."""
    return sorted(sizes, key=lambda dataset: (sizes[dataset], dataset))[:number]


def is_quick(pairs: int, size: int) -> bool:
    """Returns whether a cell belongs to the quick check."""
    return pairs < QUICK_PAIRS and size < SMALL_FILE


def hardest_last(cells: list[Cell]) -> list[Cell]:
    """Keeps the order of files and measures, and sorts the thresholds of each from high to low."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.dataset, cell.measure), []).append(cell)
    return [
        cell
        for group in groups.values()
        for cell in sorted(group, key=lambda one: one.value, reverse=True)
    ]


def judge(outcome: Outcome, exact: int, limit: float) -> str:
    """Returns the entry of the table for one run."""
    if outcome.state == "timeout":
        return f">{limit:g}"
    if not outcome.ok or outcome.pairs is None:
        return "error"
    if outcome.pairs != exact:
        return f"WRONG {table.difference(outcome.pairs - exact)}"
    return table.seconds(outcome.wall)


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Checks the cells and makes the table."""
    expected = data.load_expected(context.folder)
    cells = hardest_last(select(list(expected), context.datasets, context.thresholds))
    paths = files(context, cells)
    cells = [cell for cell in cells if cell.dataset in paths]
    sizes = {dataset: path.stat().st_size for dataset, path in paths.items()}
    if arguments.quick:
        cells = [cell for cell in cells if is_quick(expected[cell], sizes[cell.dataset])]
    naive_rows = arguments.naive_rows
    if naive_rows is None:
        naive_rows = QUICK_NAIVE_ROWS if arguments.quick else NAIVE_ROWS
    lengths = {dataset: data.count_rows(path) for dataset, path in paths.items()}

    named = (arguments.techniques, arguments.threads, arguments.tiers)
    asked = [tier for tier in arguments.tiers or () if tier != DEFAULT_TIER]
    refused: dict[str, str] = {}
    if arguments.quick and not any(named):
        in_use = {dataset: sizes[dataset] for dataset in dict.fromkeys(c.dataset for c in cells)}
        lower = lower_tiers(simjoin.refusals(context.binary))
        configurations = quick_configurations(lower, smallest(in_use, QUICK_TIER_FILES))
    else:
        refused = simjoin.refusals(context.binary, asked) if asked else {}
        tiers = [tier for tier in arguments.tiers or [DEFAULT_TIER] if tier not in refused]
        configurations = all_configurations(arguments.techniques or TECHNIQUES, arguments.threads or THREADS, tiers)
    result = table.Table(
        "simjoin's counts, compared with the exact ones",
        ["dataset", "measure", "T", "exact pairs", *map(str, configurations)],
        frozenset({"dataset", "measure"}),
        notes=[
            "Seconds of the whole process if the count is exact; WRONG and the difference "
            f"if it is not; >{context.limit:g} if the time limit ended it; – if a run was "
            "omitted (naive on a file with more than "
            f"{naive_rows:,} rows; a lower SIMD tier, with --quick, on other than the smallest files; "
            "or a cell whose higher threshold was ended by the limit).",
            "×N: N threads. A column that names no SIMD tier ran with "
            + default_tier_words(os.environ.get(simjoin.TIER_VARIABLE)) + ".",
        ],
    )
    tally = {"agree": 0, "disagree": 0, "error": 0, "out of time": 0, "left out": 0}
    tally["error"] += len(refused)
    details = [f"tier {tier}, not run: {note}" for tier, note in refused.items()]
    slow: set[tuple[str, str, Configuration]] = set()
    for cell in cells:
        words = []
        for configuration in configurations:
            group = (cell.dataset, cell.measure, configuration)
            too_large = configuration.technique == "naive" and lengths[cell.dataset] > naive_rows
            if group in slow or too_large or not configuration.covers(cell.dataset):
                words.append("–")
                tally["left out"] += 1
                continue
            outcome = one_run(context, paths[cell.dataset], cell, configuration)
            words.append(judge(outcome, expected[cell], context.limit))
            say(f"  {words[-1]}" + (" s, exact" if outcome.pairs == expected[cell] else ""))
            if outcome.state == "timeout":
                slow.add(group)
                tally["out of time"] += 1
            elif not outcome.ok:
                tally["error"] += 1
                details.append(f"{cell} {configuration}: {outcome.note}")
            elif outcome.pairs != expected[cell]:
                tally["disagree"] += 1
                details.append(
                    f"{cell} {configuration}: {table.count(outcome.pairs)} pairs "
                    f"instead of {table.count(expected[cell])}"
                )
            else:
                tally["agree"] += 1
        result.add(cell.dataset, cell.measure, cell.threshold, table.count(expected[cell]), *words)
    result.summary = [", ".join(f"{number:,} {word}" for word, number in tally.items())] + details
    return Report(result, status(tally))


def status(tally: dict[str, int]) -> int:
    """Returns the exit status: 1 if a count is wrong, a run failed, or nothing was checked."""
    return 1 if tally["disagree"] or tally["error"] or not tally["agree"] else 0


def default_tier_words(variable: str | None) -> str:
    """Returns the default tier: that of the driver's environment, or else simjoin's choice."""
    if variable is None:
        return "the tier that simjoin chose"
    return f"{simjoin.TIER_VARIABLE}={variable}, from the environment"


def one_run(context: Context, path: Path, cell: Cell, configuration: Configuration) -> Outcome:
    """Runs simjoin once, and prints a line of progress."""
    say(f"{cell}: {configuration}")
    return simjoin.join_sets(
        context.binary, path, cell, configuration.technique, configuration.threads, context.limit, configuration.tier
    )
