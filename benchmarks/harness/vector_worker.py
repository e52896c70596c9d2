"""Runs one peer on one file of vectors; run by the Python of the vector peers' environment.

    vector_worker.py PEER FILE DISTANCE THREADS MEMORY_GIB

The last line of standard output is a JSON object. Building the index and searching are timed, on an array in
memory of the type that suits the tool best. Pairs are unordered pairs of different rows.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any


def ckdtree(array: Any, distance: float, threads: int) -> tuple[float, int]:
    """Runs SciPy: the faster of pairs as an array by one thread, and numbers of neighbours by several."""
    import numpy
    from scipy.spatial import cKDTree

    points = array.astype(numpy.float64)
    start = time.perf_counter()
    tree = cKDTree(points)
    build = time.perf_counter() - start
    start = time.perf_counter()
    numbers = tree.query_ball_point(points, distance, workers=threads, return_length=True)
    pairs = (int(numbers.sum()) - len(points)) // 2
    counting = time.perf_counter() - start
    start = time.perf_counter()
    # More pairs, of 16 bytes each and more while they are found, would need too much memory.
    if pairs < 50_000_000:
        pairs = len(tree.query_pairs(distance, output_type="ndarray"))
        counting = min(counting, time.perf_counter() - start)
    return build + counting, pairs


def radius_neighbors(algorithm: str) -> Any:
    """Returns a function that runs scikit-learn's radius_neighbors by an algorithm."""

    def search(array: Any, distance: float, threads: int) -> tuple[float, int]:
        import numpy
        from sklearn.neighbors import NearestNeighbors

        points = array.astype(numpy.float64)
        start = time.perf_counter()
        index = NearestNeighbors(radius=distance, algorithm=algorithm, n_jobs=threads).fit(points)
        found = index.radius_neighbors(points, return_distance=False)
        took = time.perf_counter() - start
        return took, (sum(len(one) for one in found) - len(points)) // 2

    return search


def faiss_flat(array: Any, distance: float, threads: int) -> tuple[float, int]:
    """Runs FAISS: range_search over all vectors, in single precision."""
    import faiss
    import numpy

    faiss.omp_set_num_threads(threads)
    points = numpy.ascontiguousarray(array, dtype=numpy.float32)
    start = time.perf_counter()
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points)
    limits, _, _ = index.range_search(points, distance * distance)
    return time.perf_counter() - start, (int(limits[-1]) - len(points)) // 2


PEERS = {
    "cKDTree": ckdtree,
    "ball tree": radius_neighbors("ball_tree"),
    "brute": radius_neighbors("brute"),
    "FAISS": faiss_flat,
}


def main(arguments: list[str]) -> dict[str, Any]:
    """Runs the peer and returns its result."""
    peer, path, distance, threads, gib = arguments
    size = int(float(gib) * (1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        import numpy

        array = numpy.load(path)
        seconds, pairs = PEERS[peer](array, float(distance), int(threads))
    except MemoryError:
        return {"state": "memory"}
    except Exception as error:  # An exception of a peer is its result.
        kind = "memory" if "alloc" in str(error) else "error"
        return {"state": kind, "note": f"{type(error).__name__}: {error}"[:200]}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"state": "ok", "seconds": seconds, "pairs": pairs, "peak": peak}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
