"""Compares join seconds with those of the literature's reference C++ code, cell by cell."""

from __future__ import annotations

import argparse
import math

from .. import data, statistics, table
from ..cells import comma_list, select
from ..context import Context, Report, disagreements, files
from ..data import ReferenceCell, Shape
from ..simjoin import Outcome

WITHIN = 1.2
SMALL_MS = 10
SCALING_FLOOR = 0.2


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument(
        "--techniques", type=comma_list, default=None, metavar="LIST",
        help="only these techniques, comma-separated (default: all-pairs, ppjoin, group-join)",
    )
    parser.add_argument(
        "--no-scaling", action="store_true", help="omit the runs with 2 threads"
    )


def best_join(outcomes: list[Outcome]) -> Outcome:
    """Returns the run with the shortest join, or the last if none finished."""
    return statistics.best(outcomes, lambda one: one.phase("join")) or outcomes[-1]


def time_cell(outcome: Outcome | None, limit: float) -> str:
    """Returns the milliseconds of the join, or the reason why there are none."""
    if outcome is None:
        return "–"
    if outcome.ok:
        return table.milliseconds(outcome.phase("join"))
    return f">{limit * 1000:,.0f}" if outcome.state == "timeout" else "error"


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs the cells of reference-cpp.tsv and makes the table."""
    reference = data.load_reference(context.folder)
    wanted = set(select([one.cell for one in reference], context.datasets, context.thresholds))
    lines = [
        one for one in reference
        if one.cell in wanted
        and (arguments.techniques is None or one.technique in arguments.techniques)
    ]
    paths = files(context, [one.cell for one in lines])
    shapes = {dataset: data.load_shape(path) for dataset, path in paths.items()}
    known = data.by_key(data.load_expected(context.folder))

    result = table.Table(
        "simjoin, compared with the reference C++ code",
        ["dataset", "T", "technique", "C++ index", "C++ join", "simjoin ×1", "simjoin/C++",
         "simjoin ×2", "speed-up", "pairs", "counts"],
        frozenset({"dataset", "technique", "counts"}),
        notes=[
            "Milliseconds. C++: one thread, from reference-cpp.tsv (measured once, in whole "
            "milliseconds, on a 2-core machine that may differ from this one).",
            "simjoin: the join of its --stats on 1 and 2 threads, best of "
            f"{table.plural(context.runs, 'run')}, or one run if it takes over 10 s.",
            "simjoin/C++ is simjoin's join on 1 thread over the C++ join: below 1 is faster.",
            "≡ marks collections of mostly identical sets: fewer than half as many "
            "distinct sets as rows.",
            "counts: whether simjoin's count is exact; C++ −n: the C++ code misses n pairs.",
        ],
    )
    measured: list[tuple[ReferenceCell, Outcome, Outcome | None]] = []
    problems: list[str] = []
    for one in lines:
        if one.cell.dataset not in paths:
            continue
        path = paths[one.cell.dataset]
        singles = context.measure(path, one.cell, one.technique, 1)
        doubles = [] if arguments.no_scaling else context.measure(path, one.cell, one.technique, 2)
        single = best_join(singles)
        double = best_join(doubles) if doubles else None
        exact = known.get(one.cell.key)
        wrong = disagreements(singles + doubles, exact)
        measured.append((one, single, double))
        for outcome in singles + doubles:
            if outcome.state == "error":
                problems.append(f"{one.cell} {one.technique}: {outcome.note}")
        problems += [
            f"{one.cell} {one.technique}: {table.count(pairs)} pairs instead of "
            f"{table.count(exact)}" for pairs in wrong
        ]
        mark = " ≡" if shapes[one.cell.dataset].identical_dominate else ""
        join = single.phase("join")
        result.add(
            one.cell.dataset + mark, one.cell.threshold, one.technique,
            f"{one.index_ms:,}", f"{one.join_ms:,}",
            time_cell(single, context.limit),
            table.factor(statistics.ratio(join, one.join_ms / 1000)),
            time_cell(double, context.limit),
            table.factor(statistics.ratio(join, double.phase("join") if double else None)),
            table.count(single.pairs),
            counts_cell(single, wrong, exact, one.pairs),
        )
    result.summary = summary(measured, shapes) + problems
    return Report(result, 1 if problems else 0)


def counts_cell(outcome: Outcome, wrong: list[int], exact: int | None, reference: int) -> str:
    """Returns whether simjoin's count is exact, and the difference of the C++ count."""
    parts = []
    if wrong:
        parts.append("WRONG")
    elif outcome.ok:
        parts.append("exact" if exact is not None else "unchecked")
    if exact is not None and reference != exact:
        parts.append(f"C++ {table.difference(reference - exact)}")
    return "; ".join(parts) or "–"


def summary(
    measured: list[tuple[ReferenceCell, Outcome, Outcome | None]], shapes: dict[str, Shape]
) -> list[str]:
    """Returns the share of cells within the limit, the ratios, and the scaling."""
    ratios = []  # a cell that did not finish counts as infinitely slow
    for one, single, _ in measured:
        join = single.phase("join")
        milliseconds = math.inf if join is None else join * 1000
        if one.join_ms > 0:
            ratios.append((one, milliseconds / one.join_ms,
                           milliseconds / (one.join_ms + one.index_ms)))
    lines = [f"finished: {table.percent(sum(one.ok for _, one, _ in measured), len(measured))}"]
    lines.append(share_line("all cells", [value for _, value, _ in ratios]))
    lines.append(share_line(
        f"cells where the C++ join takes {SMALL_MS} ms or more",
        [value for one, value, _ in ratios if one.join_ms >= SMALL_MS],
    ))
    lines.append(share_line(
        "all cells, compared with the C++ index and join together", [value for _, _, value in ratios]
    ))
    lines.append(share_line(
        "cells where identical sets dominate",
        [value for one, value, _ in ratios if shapes[one.cell.dataset].identical_dominate],
    ))
    for technique in dict.fromkeys(one.technique for one, _, _ in ratios):
        lines.append(share_line(
            technique, [value for one, value, _ in ratios if one.technique == technique]
        ))
    speedups = [
        join / double.phase("join")
        for _, single, double in measured
        if double is not None and double.phase("join")
        and (join := single.phase("join") or 0) > SCALING_FLOOR
    ]
    if speedups:
        lines.append(
            f"2 threads: {table.factor(statistics.geometric_mean(speedups))} (geometric mean over "
            f"{table.plural(len(speedups), 'cell')} over {SCALING_FLOOR} s; "
            f"from {table.factor(min(speedups))} to {table.factor(max(speedups))})"
        )
    return lines


def share_line(name: str, ratios: list[float]) -> str:
    """Returns a line such as ``all cells: 100 of 126 (79 %) within 1.2×, geometric mean 0.95×, …``."""
    if not ratios:
        return f"{name}: none"
    inside, whole = statistics.share_within(ratios, WITHIN)
    finished = [value for value in ratios if math.isfinite(value)]
    return (
        f"{name}: {table.percent(inside, whole)} within {WITHIN}×; "
        f"geometric mean {table.factor(statistics.geometric_mean(finished))}, "
        f"median {table.factor(statistics.median(finished))}, "
        f"largest {table.factor(max(finished, default=None))} of those that finished"
    )
