"""Every row of expected.tsv, by every technique asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import data, table
from ..cells import Cell, comma_list, select
from ..context import Context, Report, files, say
from ..simjoin import Outcome

QUICK_PAIRS = 3_000_000
SMALL_FILE = 5 << 20
NAIVE_ROWS = 40_000
QUICK_NAIVE_ROWS = 20_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this job."""
    parser.add_argument(
        "--techniques", type=comma_list, default=["ppjoin", "all-pairs", "group-join", "naive"],
        metavar="LIST",
        help="comma-separated; auto is simjoin's own choice "
        "(default: ppjoin,all-pairs,group-join,naive)",
    )
    parser.add_argument(
        "--threads", type=thread_list, default=[1, 2], metavar="LIST",
        help="numbers of threads, comma-separated (default: 1,2)",
    )
    parser.add_argument(
        "--quick", action="store_true",
        help="only cells with fewer than 3 million pairs from files below 5 MiB",
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


def is_quick(pairs: int, size: int) -> bool:
    """Whether a cell belongs to the quick check."""
    return pairs < QUICK_PAIRS and size < SMALL_FILE


def hardest_last(cells: list[Cell]) -> list[Cell]:
    """Keeps the order of files and measures, with falling thresholds in each."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.dataset, cell.measure), []).append(cell)
    return [
        cell
        for group in groups.values()
        for cell in sorted(group, key=lambda one: one.value, reverse=True)
    ]


def judge(outcome: Outcome, exact: int, limit: float) -> str:
    """The table's word for one run."""
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
    if arguments.quick:
        sizes = {dataset: path.stat().st_size for dataset, path in paths.items()}
        cells = [cell for cell in cells if is_quick(expected[cell], sizes[cell.dataset])]
    naive_rows = arguments.naive_rows
    if naive_rows is None:
        naive_rows = QUICK_NAIVE_ROWS if arguments.quick else NAIVE_ROWS
    lengths = {dataset: data.count_rows(path) for dataset, path in paths.items()}

    ways = [(name, threads) for name in arguments.techniques for threads in arguments.threads]
    result = table.Table(
        "simjoin's counts beside the exact ones",
        ["dataset", "measure", "T", "exact pairs", *(f"{name} ×{n}" for name, n in ways)],
        frozenset({"dataset", "measure"}),
        notes=[
            "Seconds of the whole process where the count is exact; WRONG and the difference "
            f"where it is not; >{context.limit:g} where the time limit struck; – where a run was "
            "left out (naive on a file with more than "
            f"{naive_rows:,} rows, or a higher threshold already ran out of time).",
        ],
    )
    tally = {"agree": 0, "disagree": 0, "error": 0, "out of time": 0, "left out": 0}
    details: list[str] = []
    slow: set[tuple[str, str, str, int]] = set()
    for cell in cells:
        words = []
        for name, threads in ways:
            way = (cell.dataset, cell.measure, name, threads)
            if way in slow or (name == "naive" and lengths[cell.dataset] > naive_rows):
                words.append("–")
                tally["left out"] += 1
                continue
            outcome = one_run(context, paths[cell.dataset], cell, name, threads)
            words.append(judge(outcome, expected[cell], context.limit))
            if outcome.state == "timeout":
                slow.add(way)
                tally["out of time"] += 1
            elif not outcome.ok:
                tally["error"] += 1
                details.append(f"{cell} {name} ×{threads}: {outcome.note}")
            elif outcome.pairs != expected[cell]:
                tally["disagree"] += 1
                details.append(
                    f"{cell} {name} ×{threads}: {table.count(outcome.pairs)} pairs "
                    f"instead of {table.count(expected[cell])}"
                )
            else:
                tally["agree"] += 1
        result.add(cell.dataset, cell.measure, cell.threshold, table.count(expected[cell]), *words)
    result.summary = [", ".join(f"{number:,} {word}" for word, number in tally.items())] + details
    return Report(result, status(tally))


def status(tally: dict[str, int]) -> int:
    """The exit status: a wrong count or a failed run is an error, and so is having checked nothing."""
    return 1 if tally["disagree"] or tally["error"] or not tally["agree"] else 0


def one_run(context: Context, path: Path, cell: Cell, name: str, threads: int) -> Outcome:
    """One run, announced."""
    say(f"{cell}: {name}, threads {threads}")
    return context.join(path, cell, name, threads)
