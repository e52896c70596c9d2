"""Collections of difficult cases, and the answers of the engine on one machine."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import simjoin as sj

Pair = tuple[Any, Any, int, float]

#: The digest of an answer that is too large to be compared pair by pair.
Summary = tuple[int, int, int]

Words = npt.NDArray[np.uint64]

HALF = (1 << 32) - 1

#: The constants of xxHash, and the seed that Spark uses.
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
    """Returns near-duplicates, equal and empty sets, one very large set, a token that most sets have, unique
    tokens, and texts that are not ASCII.
    """
    generator = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(120)] + ["ä", "日本", "", "a b", "\u0000"]
    rows: list[list[str]] = []
    for group in range(groups):
        size = generator.choice([1, 2, 3, 5, 8, 13])
        base = generator.sample(vocabulary, size) + (
            ["everywhere"] if generator.random() < 0.7 else []
        )
        for copy in range(generator.choice([1, 1, 2, 3])):
            row = list(base)
            if copy and generator.random() < 0.6:
                row[generator.randrange(len(row))] = f"only-{group}-{copy}"
            if generator.random() < 0.3:
                row += [row[0]]
            generator.shuffle(row)
            rows.append(row)
    rows += [[], [], ["everywhere"], [f"w{number}" for number in range(110)]]
    generator.shuffle(rows)
    return rows


def engine(left: Any, right: Any = None, **options: Any) -> list[Pair]:
    """Returns the pairs that the engine finds on one machine, sorted."""
    table = sj.self_join(left, **options) if right is None else sj.join(left, right, **options)
    return sorted(table.rows())


def found(answer: Any) -> list[Pair]:
    """Returns the pairs of a Spark DataFrame, sorted."""
    return sorted(tuple(row) for row in answer.collect())


def summary(answer: Any) -> Summary:
    """Returns the number of pairs of a Spark DataFrame, and the sums of both halves of their hashes. Different
    pairs, overlaps, or last bits of a similarity give different sums.
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
    """Returns the digest of the pairs that the engine finds on one machine."""
    import pyarrow as pa

    table = pa.table(sj.self_join(rows, **options))
    hashes = np.full(len(table), SPARKS_SEED, np.uint64)
    for column in table.columns:
        hashes = xxhash64(column.to_numpy().view(np.uint64), hashes)
    low, high = (hashes & np.uint64(HALF)).sum(), (hashes >> np.uint64(32)).sum()
    return len(table), int(low), int(high)


def xxhash64(values: Words, seeds: Words) -> Words:
    """Returns the xxHash of 8 bytes each, as Spark's ``xxhash64`` computes it for each column in turn."""
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
