"""Times one self-join of a Polars column; run by the Python in which simjoin is installed.

    package_worker.py FILE TOKENS JACCARD THREADS ANSWER

ANSWER is pairs, count or frame. The last line of standard output is a JSON object. The column is in memory
before the time is taken; a frame is the pairs as a Polars DataFrame.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main(arguments: list[str]) -> dict[str, Any]:
    """Runs the join and returns its seconds."""
    import polars as pl
    import simjoin as sj

    path, tokens, jaccard, threads, answer = arguments
    with open(path, encoding="utf-8") as file:
        column = pl.Series("title", file.read().split("\n")[:-1])
    options: dict[str, Any] = {"tokens": tokens, "jaccard": jaccard, "threads": int(threads)}
    start = time.perf_counter()
    if answer == "count":
        pairs = sj.self_join(column, count=True, **options)
        return {"seconds": time.perf_counter() - start, "pairs": pairs, "phases": {}}
    table = sj.self_join(column, **options)
    if answer == "frame":
        table.to_polars()
    took = time.perf_counter() - start
    return {"seconds": took, "pairs": len(table), "phases": (table.stats or {}).get("seconds", {})}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
