"""Runs one peer on one collection; run by the Python of the peers' environment.

    peer_worker.py version PEER
    peer_worker.py join PEER FILE MEASURE THRESHOLD MEMORY_GIB
    peer_worker.py exact FILE MEASURE THRESHOLD MEMORY_GIB
    peer_worker.py intersect FILE FILE RUNS

The last line of standard output is a JSON object. Only the join call is timed:
the data are loaded, and converted for the tool, before.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from fractions import Fraction
from typing import Any

DENSE_LIMIT = 2_000_000_000_000


def limit_memory(gib: float) -> None:
    """Limits the address space, so that a join that needs too much memory raises MemoryError."""
    size = int(gib * (1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def load(path: str) -> list[list[str]]:
    """Returns the sets of a file, one per line."""
    with open(path, encoding="utf-8") as lines:
        return [line.split() for line in lines]


def number(threshold: str, measure: str) -> float | int:
    """Returns the threshold in the form that the peers expect."""
    return int(threshold) if measure == "overlap" else float(threshold)


def set_similarity_search(path: str, measure: str, threshold: str) -> dict[str, Any]:
    """Runs SetSimilaritySearch; counts pairs as they are yielded."""
    from SetSimilaritySearch import all_pairs

    tokens: dict[str, int] = {}
    sets = [[tokens.setdefault(token, len(tokens)) for token in row] for row in load(path)]
    start = time.perf_counter()
    found = all_pairs(
        sets, similarity_func_name=measure, similarity_threshold=number(threshold, measure)
    )
    pairs = sum(1 for _ in found)
    return {"seconds": time.perf_counter() - start, "pairs": pairs}


def py_stringsimjoin(path: str, measure: str, threshold: str) -> dict[str, Any]:
    """Runs py_stringsimjoin on a table and its copy. It finds each pair twice;
    those with the smaller row on the left are the self-join."""
    import pandas
    import py_stringsimjoin as ssj
    from py_stringmatching import WhitespaceTokenizer

    names = {"containment": "overlap_coefficient"}
    join = getattr(ssj, names.get(measure, measure) + "_join")
    rows = load(path)
    left = pandas.DataFrame({"id": range(len(rows)), "tokens": [" ".join(row) for row in rows]})
    right = left.copy()
    tokenizer = WhitespaceTokenizer(return_set=True)
    options = {"n_jobs": 1, "show_progress": False, "out_sim_score": False}
    if measure != "overlap":
        options["allow_empty"] = False
    start = time.perf_counter()
    found = join(
        left, right, "id", "id", "tokens", "tokens", tokenizer, number(threshold, measure),
        **options,
    )
    took = time.perf_counter() - start
    return {
        "seconds": took,
        "pairs": int((found["l_id"] < found["r_id"]).sum()),
        "mirrored": int((found["l_id"] > found["r_id"]).sum()),
    }


def exact(path: str, measure: str, threshold: str) -> dict[str, Any]:
    """Computes all overlaps by a dense matrix product, and compares them in integers.

    The overlaps are sums of ones and below 2^24, hence exact in 32-bit floats.
    """
    import numpy

    rows = load(path)
    tokens: dict[str, int] = {}
    sets = [{tokens.setdefault(token, len(tokens)) for token in row} for row in rows]
    if len(sets) ** 2 * len(tokens) > DENSE_LIMIT:
        return {"state": "unsupported"}
    value = Fraction(threshold)
    p, q = value.numerator, value.denominator
    sizes = numpy.array([len(one) for one in sets], dtype=numpy.int64)
    largest = int(sizes.max(initial=0))
    if 2 * (p + q) ** 2 * max(largest, 1) ** 2 >= 1 << 62:
        return {"state": "unsupported"}  # the products below would overflow
    matrix = numpy.zeros((len(sets), len(tokens)), dtype=numpy.float32)
    for row, one in enumerate(sets):
        matrix[row, list(one)] = 1
    pairs = 0
    for first in range(0, len(sets), 512):
        block = matrix[first : first + 512]
        overlap = (block @ matrix[first:].T).astype(numpy.int64)
        a, b = sizes[first : first + 512, None], sizes[None, first:]
        similar = {
            "jaccard": lambda: (p + q) * overlap >= p * (a + b),
            "dice": lambda: 2 * q * overlap >= p * (a + b),
            "cosine": lambda: q * q * overlap * overlap >= p * p * a * b,
            "overlap": lambda: q * overlap >= p,
            "containment": lambda: q * overlap >= p * numpy.minimum(a, b),
        }[measure]()
        pairs += int(numpy.triu(similar & (a > 0) & (b > 0), 1).sum())
    return {"pairs": pairs}


JOINS = {"SetSimilaritySearch": set_similarity_search, "py_stringsimjoin": py_stringsimjoin}


def intersect(left: str, right: str, runs: str) -> dict[str, Any]:
    """Computes the size of the intersection of two files of raw 32-bit integers with
    CRoaring, through pyroaring; the seconds are those of the shortest run."""
    from array import array

    from pyroaring import BitMap

    def bitmap(path: str) -> Any:
        numbers = array("I")
        with open(path, "rb") as file:
            numbers.frombytes(file.read())
        result = BitMap(numbers)
        result.run_optimize()
        return result

    a, b = bitmap(left), bitmap(right)
    shortest, size = float("inf"), 0
    for _ in range(int(runs)):
        start = time.perf_counter()
        size = a.intersection_cardinality(b)
        shortest = min(shortest, time.perf_counter() - start)
    return {"state": "ok", "seconds": shortest, "pairs": size}


def version(peer: str) -> dict[str, Any]:
    """Imports the peer and returns its version."""
    from importlib import import_module, metadata

    import_module(peer)
    return {"version": metadata.version(peer)}


def answer(arguments: list[str]) -> dict[str, Any]:
    """Runs the job that the arguments name."""
    job, *rest = arguments
    if job == "version":
        return version(*rest)
    if job == "intersect":
        return intersect(*rest)
    *rest, memory = rest
    limit_memory(float(memory))
    try:
        result = exact(*rest) if job == "exact" else JOINS[rest[0]](*rest[1:])
    except MemoryError:
        return {"state": "memory"}
    except Exception as error:  # an exception of a peer is its result
        note = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return {"state": "memory" if "bad_alloc" in note else "error", "note": note}
    return {"state": "ok", **result}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1:])))
