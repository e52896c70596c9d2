"""The statistics that the tables need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


def geometric_mean(values: Iterable[float]) -> float | None:
    """Returns the geometric mean of positive numbers; None if there are none."""
    logarithms = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None


def median(values: Sequence[float]) -> float | None:
    """Returns the median; None if there are no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def share_within(ratios: Sequence[float], limit: float) -> tuple[int, int]:
    """Returns the number of ratios that are at most the limit, and the number of all ratios."""
    return sum(1 for ratio in ratios if ratio <= limit), len(ratios)


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """Returns a quotient, or None if a value is missing or the divisor is 0."""
    if numerator is None or not denominator:
        return None
    return numerator / denominator


def turns_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float | None:
    """Returns the median ratio over the turns of two measurements made in turns; None if there are none. If the
    machine is slower for a while, it is slower for both."""
    return median([one / other for one, other in zip(numerators, denominators, strict=False) if other])


def repeat(
    once: Callable[[], Result],
    seconds: Callable[[Result], float | None],
    runs: int,
    long_run: float = 10.0,
) -> list[Result]:
    """Calls ``once`` up to ``runs`` times; stops after a call that failed (None seconds) or
    took longer than ``long_run`` seconds."""
    results = [once()]
    while len(results) < runs:
        took = seconds(results[-1])
        if took is None or took > long_run:
            break
        results.append(once())
    return results


def best(results: Iterable[Result], seconds: Callable[[Result], float | None]) -> Result | None:
    """Returns the result with the fewest seconds; None if no result has any."""
    timed = [(took, number, result) for number, result in enumerate(results)
             if (took := seconds(result)) is not None]
    return min(timed, key=lambda entry: entry[:2])[2] if timed else None
