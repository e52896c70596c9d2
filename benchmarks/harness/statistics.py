"""The few statistics the tables need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean of positive numbers; None when there are none."""
    logarithms = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None


def median(values: Sequence[float]) -> float | None:
    """The median; None when there are no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def share_within(ratios: Sequence[float], limit: float) -> tuple[int, int]:
    """How many ratios are at most the limit, of how many."""
    return sum(1 for ratio in ratios if ratio <= limit), len(ratios)


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """A quotient, or None when either side is missing or the divisor is 0."""
    if numerator is None or not denominator:
        return None
    return numerator / denominator


def turns_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float | None:
    """The median over the turns of two that were measured by turns; None when there are none. A machine that
    is slower for a while is so for both."""
    return median([one / other for one, other in zip(numerators, denominators, strict=False) if other])


def repeat(
    once: Callable[[], Result],
    seconds: Callable[[Result], float | None],
    runs: int,
    long_run: float = 10.0,
) -> list[Result]:
    """Calls ``once`` up to ``runs`` times; a call that failed (None seconds) or
    took longer than ``long_run`` seconds is not repeated."""
    results = [once()]
    while len(results) < runs:
        took = seconds(results[-1])
        if took is None or took > long_run:
            break
        results.append(once())
    return results


def best(results: Iterable[Result], seconds: Callable[[Result], float | None]) -> Result | None:
    """The result with the fewest seconds; None when none has any."""
    timed = [(took, number, result) for number, result in enumerate(results)
             if (took := seconds(result)) is not None]
    return min(timed, key=lambda entry: entry[:2])[2] if timed else None
