"""What is the correct answer?

A brute force that shares nothing with the engine: overlaps by a product of NumPy, decisions in whole numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

MEASURES = ("jaccard", "cosine", "dice", "overlap", "containment")

Row = Iterable[Hashable]


def satisfied(measure: str, threshold: Fraction, left: int, right: int, common: int) -> bool:
    """Returns whether two sets with these sizes and this overlap are a pair."""
    if common == 0:
        return False
    if measure == "overlap":
        return common >= threshold
    if measure == "cosine":
        return Fraction(common * common) >= threshold * threshold * left * right
    base = {
        "jaccard": Fraction(common, left + right - common),
        "dice": Fraction(2 * common, left + right),
        "containment": Fraction(common, min(left, right)),
    }
    return base[measure] >= threshold


def sets(rows: Iterable[Row], multiset: bool = False) -> list[frozenset[Any]]:
    """Returns rows as sets. In a multiset, the k-th occurrence of a token is a token of its own."""
    if not multiset:
        return [frozenset(row) for row in rows]
    return [
        frozenset((token, at) for token, times in Counter(row).items() for at in range(times))
        for row in rows
    ]


def overlaps(left: Sequence[frozenset[Any]], right: Sequence[frozenset[Any]]) -> Any:
    """Returns the number of common tokens of each row on the left and each on the right."""
    numbers: dict[Any, int] = {}
    for row in (*left, *right):
        for token in row:
            numbers.setdefault(token, len(numbers))
    matrices = []
    for side in (left, right):
        matrix = np.zeros((len(side), max(1, len(numbers))), dtype=np.int64)
        for at, row in enumerate(side):
            for token in row:
                matrix[at, numbers[token]] = 1
        matrices.append(matrix)
    return matrices[0] @ matrices[1].T


def pairs(
    measure: str,
    threshold: Fraction,
    left: Iterable[Row],
    right: Iterable[Row] | None = None,
    multiset: bool = False,
) -> set[tuple[int, int, int]]:
    """Returns all pairs with their overlaps."""
    one = sets(left, multiset)
    other = one if right is None else sets(right, multiset)
    common = overlaps(one, other)
    return {
        (a, b, int(common[a, b]))
        for a in range(len(one))
        for b in range(a + 1 if right is None else 0, len(other))
        if satisfied(measure, threshold, len(one[a]), len(other[b]), int(common[a, b]))
    }


def groups(count: int, found: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Returns each row with the smallest row of its group."""
    label = list(range(count))
    for a, b, _ in found:
        old, new = max(label[a], label[b]), min(label[a], label[b])
        label = [new if one == old else one for one in label]
    return list(enumerate(label))


def words(text: str) -> list[str]:
    """Returns the lower-case words of texts that only hold letters, digits and blanks."""
    return text.lower().split()


def qgrams(text: str, length: int) -> list[str]:
    """Returns the q-grams of this length, with padding of dollar signs."""
    if not text:
        return []
    padded = "$" * (length - 1) + text + "$" * (length - 1)
    return [padded[at : at + length] for at in range(len(padded) - length + 1)]
