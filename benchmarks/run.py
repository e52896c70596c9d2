#!/usr/bin/env python3
"""Benchmarks of simjoin: one command prints one table.

    python3 benchmarks/run.py                    simjoin and its peers
    python3 benchmarks/run.py reference          simjoin and the reference C++ code
    python3 benchmarks/run.py expected --quick   counts compared with the exact ones
    python3 benchmarks/run.py techniques         every technique, and the choice of auto
    python3 benchmarks/run.py sparse             millions of short sets: time and memory
    python3 benchmarks/run.py device             on a machine with a GPU: stage by stage
    python3 benchmarks/run.py hybrid             on a machine with a GPU: CPU and GPU at once
    python3 benchmarks/run.py engines            the same pairs by CPU, GPU and both
    python3 benchmarks/run.py split              the split between a CPU and simulated devices
    python3 benchmarks/run.py intersect          two large sets, compared with CRoaring
    python3 benchmarks/run.py overlaps           all pairs without a threshold
    python3 benchmarks/run.py containment        containment joins by every technique
    python3 benchmarks/run.py vectors            vectors, compared with SciPy, scikit-learn and FAISS
    python3 benchmarks/run.py papers             the papers' experiments, with their results
    python3 benchmarks/run.py reading            reading text records
    python3 benchmarks/run.py python             the Python package, compared with the command line
    python3 benchmarks/run.py spark              on Spark, compared with its MinHashLSH
    python3 benchmarks/run.py workers            on Spark, one worker and two
    python3 benchmarks/run.py predictions        joins on Spark, compared with their predictions
    python3 benchmarks/run.py data               only unpacks the data

Needs only Python 3.11 or newer. The peers are installed into a virtual
environment under benchmarks/.cache.
"""

from __future__ import annotations

import argparse
import sys

from harness import data, record, simjoin
from harness.cells import comma_list
from harness.context import Context
from harness.jobs import (
    containment, device, engines, expected, hybrid, intersect, overlaps, package, papers, peers,
    predictions, reading, reference, spark, sparse, split, techniques, vectors, workers,
)

JOBS = {
    "peers": (peers, "simjoin's techniques and its peers (the default)"),
    "reference": (reference, "join seconds, compared with the reference C++ code"),
    "expected": (expected, "check the counts of expected.tsv; the exit status is 1 if one is wrong"),
    "techniques": (techniques, "every technique on every set file, and the choice of auto"),
    "sparse": (sparse, "millions of short sets: time, compared with the published techniques, and memory"),
    "device": (device, "the techniques of a GPU, stage by stage, compared with the CPU"),
    "hybrid": (hybrid, "CPU and GPU at once: auto, compared with fixed splits of the work"),
    "engines": (engines, "every engine must find the same pairs, with every measure, on every file"),
    "split": (split, "the split between a CPU and simulated devices of different speeds"),
    "intersect": (intersect, "two large sets: every technique and tier, compared with CRoaring"),
    "overlaps": (overlaps, "all overlaps without a threshold, by every technique"),
    "containment": (containment, "containment joins by every technique"),
    "vectors": (vectors, "joins of vectors, compared with SciPy, scikit-learn and FAISS"),
    "papers": (papers, "the papers' experiments on similar collections, with the papers' results"),
    "reading": (reading, "seconds of reading and preparing text records"),
    "python": (package, "the Python package on a Polars column, compared with the command line"),
    "spark": (spark, "joins on a Spark cluster of this machine, compared with MinHashLSH"),
    "workers": (workers, "joins on a Spark cluster of this machine, with one worker and with two"),
    "predictions": (predictions, "joins on a Spark cluster of this machine, compared with their predictions"),
}


def positive(text: str) -> int:
    """Reads a whole number, 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def common_options() -> argparse.ArgumentParser:
    """Returns the options of every job."""
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--data", metavar="DIR",
        help=f"the data folder (default: ${data.ENVIRONMENT}, else ../shared/data, "
        "next to the repository)",
    )
    group.add_argument(
        "--simjoin", metavar="PATH", help="the binary to measure (default: cargo build --release)"
    )
    group.add_argument(
        "--runs", type=positive, default=3, metavar="N",
        help="number of runs, of which the best counts; a long run is not repeated (default: %(default)d)",
    )
    group.add_argument(
        "--limit", type=float, default=300, metavar="SECONDS",
        help="time limit of one run of simjoin (default: %(default)g)",
    )
    group.add_argument(
        "--datasets", "--files", type=comma_list, metavar="LIST", help="only these datasets"
    )
    group.add_argument(
        "--thresholds", type=comma_list, metavar="LIST", help="only these thresholds"
    )
    group.add_argument(
        "--record", nargs="?", const="", metavar="NAME",
        help="also write the table to benchmarks/recorded/YYYY-MM-DD-NAME.md (default: the job's name)",
    )
    return parser


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="run.py JOB --help shows a job's options.",
    )
    jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True)
    for name, (module, summary) in JOBS.items():
        job = jobs.add_parser(name, help=summary, description=summary, parents=[common_options()])
        module.add_options(job)
    jobs.add_parser("data", help="unpack the data and do nothing else", parents=[common_options()])
    return parser


def with_job(arguments: list[str]) -> list[str]:
    """Moves the job to the front; adds the default job if none is named."""
    if arguments and arguments[0] in ("-h", "--help"):
        return arguments
    for number, argument in enumerate(arguments):
        if argument in JOBS or argument == "data":
            return [argument, *arguments[:number], *arguments[number + 1 :]]
    return ["peers", *arguments]


def main(arguments: list[str]) -> int:
    """Runs the job that the command line names."""
    options = make_parser().parse_args(with_job(arguments))
    folder = data.locate(options.data)
    if folder is None:
        print(
            "There is no benchmark data, so there is nothing to measure; name the folder with --data DIR "
            f"or {data.ENVIRONMENT}."
        )
        return 0
    if options.job == "data":
        for path in data.prepare(folder):
            print(f"{path.relative_to(data.UNPACKED)}: {path.stat().st_size:,} bytes")
        return 0
    try:
        binary = simjoin.find(options.simjoin) if options.simjoin else simjoin.build()
        version = simjoin.version(binary)
    except simjoin.Unavailable as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1
    load = record.load_average()
    context = Context(
        folder.resolve(), binary, options.runs, options.limit, options.datasets, options.thresholds
    )
    module, _ = JOBS[options.job]
    report = module.run(context, options)
    print(report.table.text(), end="", flush=True)
    if options.record is not None:
        about = record.facts(arguments, version, load) | dict(report.facts)
        written = record.write(report, about, options.record or options.job)
        print(f"recorded in benchmarks/recorded/{written.name}", file=sys.stderr)
    return report.status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
