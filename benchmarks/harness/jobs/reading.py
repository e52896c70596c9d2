"""Measures how fast records are read and made into a collection."""

from __future__ import annotations

import argparse

from .. import data, simjoin, statistics, table
from ..context import Context, Report, say
from ..simjoin import Outcome
from .expected import thread_list


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument(
        "--text", default="reddit_titles_400k", metavar="NAME",
        help="the text collection (default: reddit_titles_400k)",
    )
    parser.add_argument(
        "--tokens", default="words", metavar="T", help="words or qgrams:Q (default: words)"
    )
    parser.add_argument(
        "--threads", type=thread_list, default=[2], metavar="LIST",
        help="numbers of threads, comma-separated (default: 2)",
    )


def reading_seconds(outcome: Outcome) -> float | None:
    """Returns the seconds from the first byte to the finished collection."""
    read, prepare = outcome.phase("read"), outcome.phase("prepare")
    return None if read is None or prepare is None else read + prepare


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs the text self-join and makes the table."""
    result = table.Table(
        "Reading text records",
        ["text", "tokens", "threads", "run", "read", "prepare", "read+prepare", "MB/s",
         "records/s", "join", "total", "wall", "pairs"],
        frozenset({"text", "tokens"}),
        notes=[
            "Seconds of simjoin's --stats for a self-join at Jaccard 0.9; "
            "wall is the whole process. MB/s and records/s are of read+prepare.",
        ],
    )
    path = data.text_file(context.folder, arguments.text)
    if path is None:
        result.summary.append(f"{arguments.text}: not in the data folder")
        return Report(result)
    size, records = path.stat().st_size, data.count_rows(path)
    status = 0
    for threads in arguments.threads:
        say(f"{arguments.text}: simjoin text, threads {threads}")
        command = ["text", path, "--tokens", arguments.tokens, "--jaccard", "0.9",
                   "--threads", str(threads)]
        outcomes = statistics.repeat(
            lambda: simjoin.run(context.binary, command, context.limit),
            lambda one: one.wall,
            context.runs,
        )
        for number, outcome in enumerate(outcomes, start=1):
            if not outcome.ok:
                status = 1
                result.summary.append(f"threads {threads}, run {number}: {outcome.note}")
                continue
            took = reading_seconds(outcome)
            result.add(
                arguments.text, arguments.tokens, str(threads), str(number),
                table.seconds(outcome.phase("read")), table.seconds(outcome.phase("prepare")),
                table.seconds(took),
                f"{size / took / 1e6:.0f}" if took else "–",
                f"{records / took:,.0f}" if took else "–",
                table.seconds(outcome.phase("join")), table.seconds(outcome.phase("total")),
                table.seconds(outcome.wall), table.count(outcome.pairs),
            )
        fastest = statistics.best(outcomes, reading_seconds)
        if fastest is not None:
            result.summary.append(
                f"threads {threads}: read+prepare {table.seconds(reading_seconds(fastest))} s "
                f"(best of {len(outcomes)}), {size / 1e6:.1f} MB, {records:,} records"
            )
    return Report(result, status)
