"""The command ``python -m simjoin.spark COMMAND``, which predicts and validates joins on Spark."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from simjoin._errors import Error
from simjoin.spark._cluster import Cluster, Node
from simjoin.spark._layouts import MEASURES
from simjoin.spark._simulate import simulate
from simjoin.spark._statistics import Statistics

EXAMPLES = """\
  python -m simjoin.spark simulate titles.txt --tokens words --jaccard 0.8 --records 1e8,1e9 --nodes 100 --cores 16
  python -m simjoin.spark simulate sets.txt --jaccard 0.9 --nodes 10 --cores 8 --gpus 1 --gpu-rate 50
  python -m simjoin.spark validate titles.txt --tokens words --jaccard 0.8
"""


def number(text: str) -> int:
    """Reads a whole number, such as 1000 or 1e9."""
    value = float(text)
    if value < 1 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(value)


def numbers(text: str) -> list[int]:
    return [number(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m simjoin.spark",
        description="What a join would take on a Spark cluster, and how well that is predicted.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = found.add_subparsers(dest="command", required=True)
    for name, about in (
        ("simulate", "predict a join of records that look like those of a file"),
        (
            "validate",
            "compare joins on one and on two workers of this machine with their predictions",
        ),
    ):
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument("file", help="a text file, one record a line")
        command.add_argument("--tokens", help="words or qgrams:Q; white space without")
        command.add_argument("--multiset", action="store_true")
        for measure in MEASURES:
            command.add_argument(f"--{measure}", metavar="T")
        command.add_argument("--distribution", default="auto", help="tokens, tiles or auto")
        command.add_argument(
            "--records",
            type=numbers,
            metavar="N,…",
            help="numbers of records; by default those of the file (validate: parts of it)",
        )
        if name == "simulate":
            command.add_argument("--nodes", type=number, default=10)
            command.add_argument("--cores", type=int, default=16, help="cores of a node")
            command.add_argument("--gpus", type=int, default=0, help="GPUs of a node")
            command.add_argument("--gpu-rate", type=float, default=50.0, help="a GPU in cores")
            command.add_argument(
                "--network", type=float, default=1.25e9, help="bytes a second of a node"
            )
            command.add_argument("--task-memory", type=number, default=2 << 30, help="bytes")
        else:
            command.add_argument("--workers", type=numbers, default=[1, 2])
            command.add_argument("--json", action="store_true", help="a line of JSON for each join")
    return found


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    threshold: dict[str, Any] = {name: getattr(options, name) for name in MEASURES}
    try:
        if options.command == "validate":
            from simjoin.spark import _validate

            return _validate.run(options, threshold)
        return predict(options, threshold)
    except (Error, OSError) as error:
        print(f"simjoin.spark: {error}", file=sys.stderr)
        return 1


def predict(options: argparse.Namespace, threshold: dict[str, Any]) -> int:
    statistics = Statistics.of(lines(options.file), options.tokens, options.multiset)
    rates = {"cpu_rate": 1.0, "gpu_rate": options.gpu_rate} if options.gpus else {}
    node = Node(cores=options.cores, gpus=options.gpus, count=options.nodes, **rates)
    cluster = Cluster([node], options.network)
    print(
        f"{cluster.level} cluster: {options.nodes} nodes, {cluster.cores} cores, {cluster.gpus} GPUs"
    )
    print(
        "      records  distribution  tasks  copies  shuffled GB  longest task s  count s  route s  join s  total s"
    )
    for records in options.records or [statistics.rows]:
        found = simulate(
            statistics,
            cluster,
            records=records,
            distribution=options.distribution,
            task_memory=options.task_memory,
            **threshold,
        )
        print(
            f"{records:>13,}  {found.layout.distribution:<12} {found.tasks:>6}  "
            f"{found.layout.copies:>6.1f}  {found.bytes / 1e9:>11.2f}  {found.task_seconds[1]:>14.1f}  "
            f"{found.count_seconds:>7.1f}  {found.route_seconds:>7.1f}  {found.join_seconds:>6.1f}  "
            f"{found.seconds:>7.1f}"
        )
    return 0


def lines(path: str, most: int | None = None) -> list[str]:
    """Returns the records of a file, or the first ones."""
    with open(path, encoding="utf-8") as file:
        return [
            line.rstrip("\n") for number, line in enumerate(file) if most is None or number < most
        ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
