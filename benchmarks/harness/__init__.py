"""The pieces of the benchmark driver; ``benchmarks/run.py`` is the entry."""
