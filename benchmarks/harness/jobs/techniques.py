"""Measures every technique on every set file, and the choice of ``auto``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from fractions import Fraction

from .. import bench, data, statistics, table
from ..bench import Timing
from ..cells import Cell
from ..context import Context, Report, files, say
from ..data import ReferenceCell
from ..simjoin import AUTO

PUBLISHED = ("all-pairs", "ppjoin", "group-join", "skip-join")
THRESHOLDS = ("0.5", "0.6", "0.7", "0.8", "0.9", "0.95")
QUICK_DATASETS = ("msweb", "bms_pos_5pct", "kosarak_36k")
QUICK_THRESHOLDS = ("0.5", "0.7", "0.9")
THREADS = (1, 2)

# The goals. Auto runs on 2 threads, the published techniques on 1.
CHOICE_WITHIN, CHOICE_SHARE, CHOICE_WORST = 1.25, Fraction(95, 100), 2.0
GAIN_MEAN, GAIN_WORST = 8.0, 1.5
GAIN_CELLS = {("acl_2grams", Fraction(1, 2)): 100.0, ("acl_2grams", Fraction(7, 10)): 100.0}
ESTIMATE_PAIRS, ESTIMATE_SECONDS = 3.0, 2.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.set_defaults(limit=600.0, runs=5)
    parser.add_argument(
        "--quick", action="store_true",
        help=f"only {', '.join(QUICK_DATASETS)} at {', '.join(QUICK_THRESHOLDS)}",
    )
    parser.add_argument(
        "--limit-2", type=float, default=None, metavar="SECONDS", dest="limit_2",
        help="time limit of a run on 2 threads (default: that of --limit)",
    )


@dataclass
class Measured:
    """The times of one cell, by technique and number of threads."""

    cell: Cell
    timings: dict[tuple[str, int], Timing] = field(default_factory=dict)

    def add(self, timing: Timing) -> None:
        """Adds a timing."""
        self.timings[timing.technique, timing.threads] = timing

    def join(self, technique: str, threads: int) -> float | None:
        """Returns the seconds of a technique's join, if it finished."""
        timing = self.timings.get((technique, threads))
        return timing.join if timing else None

    def best(self, techniques: list[str] | tuple[str, ...], threads: int) -> Timing | None:
        """Returns the fastest of these techniques that finished."""
        timings = (self.timings.get((name, threads)) for name in techniques)
        return statistics.best(timings, lambda one: one.join if one else None)

    @property
    def fixed(self) -> list[str]:
        """Returns the techniques that were timed, without auto and naive."""
        return list(dict.fromkeys(
            name for name, _ in self.timings if name not in (AUTO, "naive")
        ))

    @property
    def choice(self) -> float | None:
        """Returns the time of auto over the best fixed technique, both on 2 threads."""
        best = self.best(self.fixed, 2)
        return statistics.ratio(self.join(AUTO, 2), best.join if best else None)

    @property
    def gain(self) -> float | None:
        """Returns the time of the best published technique on 1 thread over auto on 2."""
        best = self.best(PUBLISHED, 1)
        return statistics.ratio(best.join if best else None, self.join(AUTO, 2))

    def reference(self, milliseconds: dict[tuple[str, str, Fraction], int]) -> float | None:
        """Returns the best time of the C++ code over auto's prepare and join on 2 threads."""
        known, auto = milliseconds.get(self.cell.key), self.timings.get((AUTO, 2))
        if known is None or auto is None or auto.join is None:
            return None
        return statistics.ratio(known / 1000, auto.prepare + auto.join)


def best_reference(reference: list[ReferenceCell]) -> dict[tuple[str, str, Fraction], int]:
    """Returns the milliseconds of preparing, indexing and joining by the best algorithm of the C++ code."""
    best: dict[tuple[str, str, Fraction], int] = {}
    for one in reference:
        took = one.prepare_ms + one.index_ms + one.join_ms
        best[one.cell.key] = min(took, best.get(one.cell.key, took))
    return best


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Times the techniques and makes the table."""
    datasets = context.datasets or (
        list(QUICK_DATASETS) if arguments.quick else data.set_names(context.folder)
    )
    thresholds = context.thresholds or list(QUICK_THRESHOLDS if arguments.quick else THRESHOLDS)
    limits = {1: context.limit, 2: arguments.limit_2 or context.limit}
    wanted = [
        Cell(dataset, "jaccard", threshold) for dataset in datasets for threshold in thresholds
    ]
    cells = {cell.key: Measured(cell) for cell in wanted}
    problems: list[str] = []

    def receive(timing: Timing) -> None:
        say(f"{timing.cell}: {timing.technique} ×{timing.threads} {timing_cell(timing, limits)} ms")
        cells[timing.cell.key].add(timing)

    for dataset, path in files(context, wanted).items():
        for threads in THREADS:
            words = bench.arguments(path, thresholds, threads, context.runs, limits[threads])
            wrong = bench.run(context.binary, words, dataset, receive)
            if wrong:
                problems.append(f"{dataset} ×{threads}: {wrong}")

    measured = [one for one in cells.values() if one.timings]
    problems += wrong_counts(measured, data.by_key(data.load_expected(context.folder)))
    reference = best_reference(data.load_reference(context.folder))
    result = make_table(measured, reference, limits)
    result.summary = summary(measured, reference) + unfinished(measured, limits) + problems
    return Report(result, 1 if problems or not measured else 0)


def make_table(
    measured: list[Measured], reference: dict[tuple[str, str, Fraction], int],
    limits: dict[int, float],
) -> table.Table:
    """Returns the table, with a row per cell."""
    names = list(dict.fromkeys(name for one in measured for name in one.fixed))
    result = table.Table(
        "simjoin's techniques",
        ["dataset", "T", "pairs", *names, "auto ×1", "auto ×2", "chose", "best ×2", "its ms",
         "auto/best", "gain", "C++/auto"],
        frozenset({"dataset", "chose", "best ×2"}),
        notes=[
            "Milliseconds of the join alone, from simjoin bench: the shortest of several runs in "
            "one process, in turns with the other techniques; columns without a number of threads are "
            "for 1 thread.",
            "chose: what auto ran on 2 threads. best ×2: the fastest fixed technique on 2 threads; "
            "auto/best is auto on 2 threads over that.",
            f"gain: the fastest of the published techniques ({', '.join(PUBLISHED)}) on 1 thread "
            "over auto on 2 threads.",
            "C++/auto: prepare, index and join of the reference C++ code (1 thread, its fastest "
            "algorithm, from reference-cpp.tsv, measured on another machine) over auto's prepare and join "
            "on 2 threads.",
            ">N: ended by the time limit, so not counted as a best; –: omitted after that, or "
            "not known.",
        ],
    )
    for one in measured:
        best, auto = one.best(one.fixed, 2), one.timings.get((AUTO, 2))
        pairs = [timing.pairs for timing in one.timings.values() if timing.pairs is not None]
        result.add(
            one.cell.dataset, one.cell.threshold, table.count(pairs[0] if pairs else None),
            *(timing_cell(one.timings.get((name, 1)), limits) for name in names),
            timing_cell(one.timings.get((AUTO, 1)), limits), timing_cell(auto, limits),
            (auto.ran if auto else None) or "–", best.technique if best else "–",
            timing_cell(best, limits), table.factor(one.choice), table.factor(one.gain),
            table.factor(one.reference(reference)),
        )
    return result


def timing_cell(timing: Timing | None, limits: dict[int, float]) -> str:
    """Returns the milliseconds, or the reason why there are none."""
    if timing is None or (timing.join is None and timing.runs == 0):
        return "–"
    if timing.join is None:
        return f">{limits[timing.threads] * 1000:,.0f}"
    return table.milliseconds(timing.join)


def wrong_counts(
    measured: list[Measured], known: dict[tuple[str, str, Fraction], int]
) -> list[str]:
    """Returns a line for each count that is not exact."""
    return [
        f"{one.cell} {timing.technique} ×{timing.threads}: {table.count(timing.pairs)} pairs "
        f"instead of {table.count(exact)}"
        for one in measured
        if (exact := known.get(one.cell.key)) is not None
        for timing in one.timings.values()
        if timing.pairs is not None and timing.pairs != exact
    ]


def unfinished(measured: list[Measured], limits: dict[int, float]) -> list[str]:
    """Returns the runs that the limit ended or omitted, in one line per number of threads."""
    lines = []
    for threads in THREADS:
        names = [
            f"{one.cell.dataset} {one.cell.threshold} {timing.technique}"
            for one in measured
            for timing in one.timings.values()
            if timing.threads == threads and timing.join is None
        ]
        if names:
            lines.append(
                f"not finished on {table.plural(threads, 'thread')} within {limits[threads]:g} s, "
                f"so not counted as a best: {', '.join(names)}"
            )
    return lines


def summary(
    measured: list[Measured], reference: dict[tuple[str, str, Fraction], int]
) -> list[str]:
    """Returns the lines of the figures that have goals."""
    return (
        choice_lines(measured) + gain_lines(measured) + reference_lines(measured, reference)
        + estimate_lines(measured)
    )


def goal(text: str, met: bool) -> str:
    """Returns text such as ``goal ≥ 8: met``."""
    return f"goal {text}: {'met' if met else 'NOT MET'}"


def choice_lines(measured: list[Measured]) -> list[str]:
    """Returns a line with the share of cells in which auto is near the best fixed technique, and its worst cell."""
    comparable = [one for one in measured if one.best(one.fixed, 2)]
    ratios = [(one.choice, one) for one in comparable if one.choice is not None]
    lines = []
    if ratios:
        # A cell that auto did not finish while another technique did counts as not near.
        near, _ = statistics.share_within([value for value, _ in ratios], CHOICE_WITHIN)
        worst, where = max(ratios, key=lambda entry: entry[0])
        lost = len(comparable) - len(ratios)
        lines.append(
            f"choice: auto is within {CHOICE_WITHIN}× of the best fixed technique (both on "
            f"2 threads) in {table.percent(near, len(comparable))} of the cells, "
            + goal("≥ 95 %", near >= CHOICE_SHARE * len(comparable))
            + f"; worst {table.factor(worst)} in {where.cell.dataset} {where.cell.threshold}, "
            + goal(f"≤ {CHOICE_WORST:g}×", worst <= CHOICE_WORST and not lost)
            + (f"; {table.plural(lost, 'cell')} where auto did not finish" if lost else "")
        )
    elif comparable:
        lines.append("choice: auto finished nowhere on 2 threads")
    return lines


def gain_lines(measured: list[Measured]) -> list[str]:
    """Returns the speed-up of auto on 2 threads over the published techniques on 1."""
    gains = [(value, one) for one in measured if (value := one.gain) is not None]
    lines = []
    if gains:
        mean = statistics.geometric_mean(value for value, _ in gains) or 0.0
        worst, where = min(gains, key=lambda entry: entry[0])
        out = len(measured) - len(gains)
        lines.append(
            f"gain: the best published technique on 1 thread takes {table.factor(mean)} as long as "
            f"auto on 2 threads (geometric mean over {table.plural(len(gains), 'cell')}), "
            + goal(f"≥ {GAIN_MEAN:g}×", mean >= GAIN_MEAN)
            + f"; worst {table.factor(worst)} in {where.cell.dataset} {where.cell.threshold}, "
            + goal(f"≥ {GAIN_WORST:g}×", worst >= GAIN_WORST)
            + (f"; {table.plural(out, 'cell')} omitted, because one of the two did not finish"
               if out else "")
        )
    for one in measured:
        wanted = GAIN_CELLS.get((one.cell.dataset, one.cell.value))
        if wanted is not None:
            value = one.gain
            lines.append(
                f"gain in {one.cell.dataset} {one.cell.threshold}: {table.factor(value)}, "
                + goal(f"≥ {wanted:g}×", value is not None and value >= wanted)
            )
    return lines


def reference_lines(
    measured: list[Measured], reference: dict[tuple[str, str, Fraction], int]
) -> list[str]:
    """Returns lines that say whether auto beats the reference C++ code in every known cell."""
    comparable = [(one.reference(reference), one) for one in measured if one.cell.key in reference]
    if not comparable:
        return []
    ahead = [value for value, _ in comparable if value is not None and value > 1]
    finished = [(value, one) for value, one in comparable if value is not None]
    line = (
        f"C++: auto's prepare and join on 2 threads are faster in "
        f"{table.percent(len(ahead), len(comparable))} of the cells, "
        + goal("all", len(ahead) == len(comparable))
    )
    if finished:
        mean = statistics.geometric_mean(value for value, _ in finished)
        worst, where = min(finished, key=lambda entry: entry[0])
        line += (
            f"; the C++ code takes {table.factor(mean)} as long (geometric mean), least "
            f"{table.factor(worst)} in {where.cell.dataset} {where.cell.threshold}"
        )
    behind = [
        f"{one.cell.dataset} {one.cell.threshold} {table.factor(value)}"
        for value, one in comparable if value is None or value <= 1
    ]
    return [line] + ([f"C++: not faster in {', '.join(behind)}"] if behind else [])


def estimate_lines(measured: list[Measured]) -> list[str]:
    """Returns lines with the share of auto's estimates that are near the truth."""
    autos = [
        timing for one in measured for (name, _), timing in one.timings.items()
        if name == AUTO and timing.join is not None
    ]
    pairs = [
        factor_apart(one.estimated_pairs, one.pairs, 1) for one in autos
        if one.estimated_pairs is not None and one.pairs is not None
    ]
    seconds = [
        factor_apart(one.estimated_seconds, one.join, 1e-9) for one in autos
        if one.estimated_seconds is not None and one.join is not None
    ]
    lines = []
    for what, apart, limit in (
        ("number of pairs", pairs, ESTIMATE_PAIRS), ("seconds", seconds, ESTIMATE_SECONDS)
    ):
        if apart:
            lines.append(
                f"estimates: the {what} within a factor {limit:g} in "
                f"{table.percent(*statistics.share_within(apart, limit))} of auto's cells on 1 and "
                f"2 threads; worst {table.factor(max(apart))}"
            )
    return lines


def factor_apart(estimate: float, truth: float, least: float) -> float:
    """Returns the factor by which an estimate is wrong, in either direction. Values below ``least``
    count as ``least``, so that none is 0."""
    low, high = sorted((max(estimate, least), max(truth, least)))
    return high / low
