"""Collections with what goes wrong easily, and the engine's own answers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import simjoin as sj

Pair = tuple[Any, Any, int, float]

#: What is left of an answer that is too large to be compared pair by pair.
Summary = tuple[int, int, int]

Words = npt.NDArray[np.uint64]

HALF = (1 << 32) - 1

#: Of xxHash, and the seed that Spark gives it.
PRIMES = tuple(
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
SPARKS_SEED = 42


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
    """The number of pairs of a Spark DataFrame, and the sums of both halves of their hashes. Other pairs, other
    overlaps or a similarity that differs in its last bit have other sums.
    """
    from pyspark.sql import functions as f

    row = (
        answer.select(f.xxhash64(*answer.columns).alias("hash"))
        .selectExpr(
            "count(*)",
            f"coalesce(sum(hash & {HALF}), 0)",
            "coalesce(sum(shiftrightunsigned(hash, 32)), 0)",
        )
        .collect()[0]
    )
    return row[0], row[1], row[2]


def engine_summary(rows: Any, **options: Any) -> Summary:
    """The same of the pairs that the engine finds on one machine."""
    import pyarrow as pa

    table = pa.table(sj.self_join(rows, **options))
    hashes = np.full(len(table), SPARKS_SEED, np.uint64)
    for column in table.columns:
        hashes = xxhash64(column.to_numpy().view(np.uint64), hashes)
    low, high = (hashes & np.uint64(HALF)).sum(), (hashes >> np.uint64(32)).sum()
    return len(table), int(low), int(high)


def xxhash64(values: Words, seeds: Words) -> Words:
    """xxHash of 8 bytes each, as Spark's ``xxhash64`` has it of each column in turn."""
    first, second, third, fourth, fifth = PRIMES
    hashes = seeds + fifth + np.uint64(8)
    hashes ^= rotated(values * second, 31) * first
    hashes = rotated(hashes, 27) * first + fourth
    hashes = (hashes ^ (hashes >> np.uint64(33))) * second
    hashes = (hashes ^ (hashes >> np.uint64(29))) * third
    mixed: Words = hashes ^ (hashes >> np.uint64(32))
    return mixed


def rotated(values: Words, bits: int) -> Words:
    turned: Words = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return turned
