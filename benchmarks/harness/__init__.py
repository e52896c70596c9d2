"""The modules of the benchmark driver; ``benchmarks/run.py`` runs it."""
