"""Which statistics of a collection does the planner need?

# Flow

    every partition: tokens, sizes, a sample ─► Spark sums by token ─► the most frequent, by rising frequency
                                                                     └► sizes, rows of each partition, the sample

The driver receives only the table of the tokens that occur more than once (up to a limit), a few numbers, and a
sample. A hash identifies a token. Spark checks that no two tokens have the same hash; if two have, the counting is
repeated with another seed. So the result is exact.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from simjoin import _errors, _native
from simjoin._errors import InternalError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The kinds of rows that counting workers send; see `simjoin-cluster`, `count.rs`.
TOKEN, ROWS, SIZES, SAMPLE, LIMIT = range(5)

#: The most tokens in the table. A token takes 8 bytes on the way to a worker and about 28 bytes there.
TABLE = 1 << 21

#: The records that each partition draws for the sample, and the records of the sample that are used.
DRAWN, LOOKED_AT = 8000, 20_000

#: Bits of a token's key.
BITS = 63

#: The most seeds that are tried.
SEEDS = 16

COUNTS = "kind int, key bigint, token binary, count bigint"


@dataclass(frozen=True)
class Statistics:
    """The statistics of one collection, or of two that are to be joined."""

    #: Records on the left, and on the right or 0.
    records: tuple[int, int]
    #: The number of records of each size, on both sides.
    sizes: dict[int, int]
    #: The number of different tokens, and of those that occur in one record only.
    universe: int
    unique: int
    #: The seed and the bits of tokens' keys.
    keys: tuple[int, int]
    #: The table of tokens by rising frequency, 8 bytes each, and whether all others are unique.
    table: bytes = field(repr=False)
    complete: bool = True
    #: The sample: for each side, the keys of records.
    sample: tuple[tuple[bytes, ...], tuple[bytes, ...]] = field(repr=False, default=((), ()))
    #: The number of non-empty records for each record of the sample.
    scale: float = 1.0
    #: For each side and partition, the number of its first row and of the one after its last.
    spans: tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]] = field(
        repr=False, default=({}, {})
    )

    @property
    def tokens(self) -> int:
        """Tokens in all records."""
        return sum(size * count for size, count in self.sizes.items())

    @property
    def rows(self) -> int:
        """Records on both sides."""
        return sum(self.records)

    def order(self) -> _native.ClusterOrder:
        """The global order of tokens."""
        return _native.ClusterOrder(self.keys, self.table, self.complete)

    def native_sample(self) -> _native.ClusterSample:
        """The sample, in the form that layouts are evaluated on."""
        import pyarrow as pa

        sample, order = _native.ClusterSample(), self.order()
        for side, records in enumerate(self.sample):
            if records:
                sample.add(order, side, pa.array(records, pa.binary()))
        return sample

    def scaled(self, records: int) -> Statistics:
        """Returns the statistics of a similar collection of ``records`` records: every token occurs in the same
        share of the records.
        """
        if self.rows == 0:
            raise UsageError("an empty collection cannot be scaled")
        factor = records / self.rows
        left = round(self.records[0] * factor)
        sizes = {size: round(count * factor) for size, count in self.sizes.items()}
        counts = (left, records - left if self.records[1] else 0)
        return replace(self, records=counts, sizes=sizes, scale=self.scale * factor)

    @classmethod
    def of(cls, data: Any, tokens: str | None = None, multiset: bool = False) -> Statistics:
        """Returns the statistics of a collection in memory, without Spark. The collection is a list of lists or of
        strings, or an Arrow array of either.
        """
        import pyarrow as pa

        array = data if isinstance(data, pa.Array | pa.ChunkedArray) else pa.array(data)
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        keys = (0, BITS)
        counter = _native.ClusterCounter(keys, tokens, multiset, 0, LOOKED_AT)
        tables = [pa.table(counter.add("data", chunk)) for chunk in chunks]
        rows = pa.concat_tables([*tables, pa.table(counter.finish())])
        found: dict[int, list[tuple[int, bytes, int]]] = {kind: [] for kind in range(5)}
        for kind, key, token, count in zip(
            *(rows[name].to_pylist() for name in rows.column_names), strict=True
        ):
            found[kind].append((key, token, count))
        counts: dict[int, int] = {}
        for key, _, count in found[TOKEN]:
            counts[key] = counts.get(key, 0) + count
        several = sorted((count, key) for key, count in counts.items() if count > 1)[-TABLE:]
        sizes = {size: count for size, _, count in found[SIZES]}
        sample = tuple(record for _, record, _ in sorted(found[SAMPLE]))
        filled = sum(count for size, count in sizes.items() if size > 0)
        unique = sum(1 for count in counts.values() if count == 1)
        return cls(
            records=(found[ROWS][0][2], 0),
            sizes=sizes,
            universe=len(counts),
            unique=unique,
            keys=keys,
            table=b"".join(key.to_bytes(8, "little") for _, key in several),
            complete=len(counts) - unique <= len(several),
            sample=(sample, ()),
            scale=filled / len(sample) if sample else 1.0,
        )

    def save(self, path: str) -> None:
        """Writes everything except the row numbers to a file, for :func:`simjoin.spark.simulate`."""
        about = {
            "records": self.records,
            "sizes": sorted(self.sizes.items()),
            "universe": self.universe,
            "unique": self.unique,
            "keys": self.keys,
            "table": self.table.hex(),
            "complete": self.complete,
            "sample": [[record.hex() for record in side] for side in self.sample],
            "scale": self.scale,
        }
        with open(path, "w", encoding="ascii") as file:
            json.dump(about, file)

    @classmethod
    def load(cls, path: str) -> Statistics:
        """Reads a file that :meth:`save` has written."""
        with open(path, encoding="ascii") as file:
            about = json.load(file)
        left, right = about["sample"]
        return cls(
            records=(about["records"][0], about["records"][1]),
            sizes={size: count for size, count in about["sizes"]},
            universe=about["universe"],
            unique=about["unique"],
            keys=(about["keys"][0], about["keys"][1]),
            table=bytes.fromhex(about["table"]),
            complete=about["complete"],
            sample=(tuple(map(bytes.fromhex, left)), tuple(map(bytes.fromhex, right))),
            scale=about["scale"],
        )


@contextlib.contextmanager
def raising() -> Iterator[None]:
    """Raises errors of simjoin that come from a worker as exceptions of their own class."""
    from pyspark.errors import PythonException

    try:
        yield
    except PythonException as failure:
        found = re.search(r"simjoin\._errors\.(\w+): (.*)", str(failure))
        kind = getattr(_errors, found.group(1), None) if found else None
        if found is None or kind is None:
            raise
        raise kind(found.group(2)) from failure


def collect(
    inputs: list[DataFrame],
    columns: list[str],
    tokens: str | None,
    multiset: bool,
) -> Statistics:
    """Counts tokens and sizes of one or two inputs, whose first column is the one to join, as Spark jobs."""
    for seed in range(SEEDS):
        with raising():
            found = _collect(inputs, columns, tokens, multiset, (seed, BITS), TABLE)
        if found is not None:
            return found
    raise InternalError(f"two tokens have the same key, with each of {SEEDS} seeds")


def _collect(
    inputs: list[DataFrame],
    columns: list[str],
    tokens: str | None,
    multiset: bool,
    keys: tuple[int, int],
    limit: int,
) -> Statistics | None:
    from pyspark.sql import functions as f
    from pyspark.storagelevel import StorageLevel

    from simjoin.spark import _workers

    parts = []
    for side, (data, name) in enumerate(zip(inputs, columns, strict=True)):
        # Only the column to join is read.
        count = _workers.Count(side, name, tokens, multiset, keys, DRAWN)
        parts.append(data.select(data.columns[0]).mapInArrow(count, COUNTS))
    counted = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
    # Partitioned by key alone, so that tokens with one key meet without a further shuffle.
    kinds: list[Column] = [f.col("kind"), f.col("key")]
    summed = (
        counted.repartition(*kinds)
        .groupBy("kind", "key", "token")
        .agg(f.sum("count").alias("count"))
        .groupBy("kind", "key")
        .agg(
            f.sum("count").alias("count"),
            f.count("*").alias("tokens"),
            f.max(f.when(f.col("kind") == SAMPLE, f.col("token"))).alias("record"),
        )
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        return _look(summed, keys, limit)
    finally:
        summed.unpersist()


def _look(summed: DataFrame, keys: tuple[int, int], limit: int) -> Statistics | None:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import functions as f

    of_tokens = summed.where(f.col("kind") == TOKEN)
    several = of_tokens.where(f.col("count") > 1)
    # The numbers of rows and sizes, and the records with the smallest random numbers.
    others = summed.where(~f.col("kind").isin(TOKEN, SAMPLE)).select("kind", "key", "count")
    facts: dict[int, dict[int, int]] = {ROWS: {}, SIZES: {}, LIMIT: {}}
    for row in others.toArrow().to_pylist():
        facts[row["kind"]][row["key"]] = row["count"]
    total = of_tokens.agg(
        f.count("*").alias("universe"),
        f.coalesce(f.sum("tokens"), f.lit(0)).alias("tokens"),
        f.count(f.when(f.col("count") == 1, 1)).alias("unique"),
    ).collect()[0]
    if total["universe"] != total["tokens"]:
        return None
    table = several.select("key", "count").orderBy(f.desc("count"), "key").limit(limit).toArrow()
    # By rising frequency, as `ClusterOrder` expects them.
    ordered = table.sort_by([("count", "ascending"), ("key", "ascending")])["key"]
    buffer = pc.cast(ordered.combine_chunks(), pa.int64()).to_numpy(zero_copy_only=False).tobytes()
    complete = total["universe"] - total["unique"] <= table.num_rows
    least = min(facts[LIMIT].values(), default=0)
    drawn = (
        summed.where((f.col("kind") == SAMPLE) & (f.col("key") < least))
        .select("key", "record")
        .orderBy("key")
        .limit(LOOKED_AT)
        .toArrow()
    )
    sample: tuple[list[bytes], list[bytes]] = ([], [])
    for record, lot in zip(drawn["record"].to_pylist(), drawn["key"].to_pylist(), strict=True):
        sample[lot & 1].append(record)
    # Partition p of side s has the number 2p + s.
    spans: tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]] = ({}, {})
    records = [0, 0]
    for partition in sorted(facts[ROWS]):
        side, first = partition % 2, records[partition % 2]
        records[side] += facts[ROWS][partition]
        spans[side][partition // 2] = (first, records[side])
    filled = sum(count for size, count in facts[SIZES].items() if size > 0)
    looked_at = len(sample[0]) + len(sample[1])
    return Statistics(
        records=(records[0], records[1]),
        sizes=facts[SIZES],
        universe=total["universe"],
        unique=total["unique"],
        keys=keys,
        table=buffer,
        complete=complete,
        sample=(tuple(sample[0]), tuple(sample[1])),
        scale=filled / looked_at if looked_at else 1.0,
        spans=spans,
    )
