"""Collections with what goes wrong easily, and the engine's own answers."""

from __future__ import annotations

import random
from typing import Any

import simjoin as sj

Pair = tuple[Any, Any, int, float]

#: What is left of an answer that is too large to be compared pair by pair.
Summary = tuple[int, int, int, int, int]


def nasty(seed: int, groups: int = 60) -> list[list[str]]:
    """Near-duplicates, equal and empty sets, one very large set, a token that most sets have, tokens that
    only one has, texts that are not ASCII.
    """
    lot = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(120)] + ["ä", "日本", "", "a b", "\u0000"]
    rows: list[list[str]] = []
    for group in range(groups):
        size = lot.choice([1, 2, 3, 5, 8, 13])
        base = lot.sample(vocabulary, size) + (["everywhere"] if lot.random() < 0.7 else [])
        for copy in range(lot.choice([1, 1, 2, 3])):
            row = list(base)
            if copy and lot.random() < 0.6:
                row[lot.randrange(len(row))] = f"only-{group}-{copy}"
            if lot.random() < 0.3:
                row += [row[0]]
            lot.shuffle(row)
            rows.append(row)
    rows += [[], [], ["everywhere"], [f"w{number}" for number in range(110)]]
    lot.shuffle(rows)
    return rows


def engine(left: Any, right: Any = None, **options: Any) -> list[Pair]:
    """The pairs that the engine finds on one machine, sorted."""
    table = sj.self_join(left, **options) if right is None else sj.join(left, right, **options)
    return sorted(table.rows())


def found(answer: Any) -> list[Pair]:
    """The pairs of a Spark DataFrame, sorted."""
    return sorted(tuple(row) for row in answer.collect())


def summary(answer: Any) -> Summary:
    """The number of pairs of a Spark DataFrame, and sums that other pairs would not have."""
    row = answer.selectExpr(
        "count(*)",
        "coalesce(sum(left), 0)",
        "coalesce(sum(right * (left % 1009 + 1)), 0)",
        "coalesce(sum(overlap * (right % 1009 + 1)), 0)",
        "coalesce(sum(cast(similarity * 1e9 as bigint)), 0)",
    ).collect()[0]
    return row[0], row[1], row[2], row[3], row[4]


def engine_summary(rows: Any, **options: Any) -> Summary:
    """The same of the pairs that the engine finds on one machine."""
    import pyarrow as pa

    table = pa.table(sj.self_join(rows, **options))
    left, right, overlap, similarity = (column.to_numpy() for column in table.columns)
    return (
        len(table),
        int(left.sum()),
        int((right * (left % 1009 + 1)).sum()),
        int((overlap * (right % 1009 + 1)).sum()),
        int((similarity * 1e9).astype("int64").sum()),
    )
