"""Compares simjoin's techniques with the tools that people use today."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .. import data, peers, statistics, table
from ..cells import Cell, parse_cells, select
from ..context import Context, Report, files, say
from ..peers import PEERS, Peer, PeerOutcome
from ..simjoin import AUTO, Outcome

TECHNIQUES = ("all-pairs", "ppjoin", "group-join")
DEFAULT_CELLS = parse_cells(
    "retail:0.9,retail:0.8,retail:0.7,retail:0.6,retail:0.5,"
    "kosarak_36k:0.9,kosarak_36k:0.7,kosarak_36k:0.5,"
    "bms_pos_5pct:0.9,bms_pos_5pct:0.7,bms_pos_5pct:0.5,"
    "bms_webview2:0.9,bms_webview2:0.7,bms_webview2:0.5,"
    "msweb:0.8,msweb:0.6,"
    "acl_2grams:0.9,"
    "bms_pos_5pct:dice:0.8,bms_pos_5pct:dice:0.6,"
    "bms_pos_5pct:cosine:0.8,kosarak_36k:cosine:0.9"
)
# Cells that took over five minutes on a busy 2-core machine (SetSimilaritySearch on acl_2grams: by
# extrapolation from a tenth of the rows); --patient runs them.
LONG = frozenset(
    (peer, cell.key)
    for peer, cells in {
        "SetSimilaritySearch": "kosarak_36k:0.5,acl_2grams:0.9,kosarak_36k:cosine:0.9",
        "py_stringsimjoin": "acl_2grams:0.9",
    }.items()
    for cell in parse_cells(cells)
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this job."""
    parser.add_argument(
        "--cells", type=cell_list, default=DEFAULT_CELLS, metavar="LIST",
        help="the joins: dataset:measure:threshold, comma-separated; "
        "dataset:threshold is Jaccard (default: a list that takes about half an hour)",
    )
    parser.add_argument(
        "--peer-limit", type=float, default=300, metavar="SECONDS",
        help="time limit of one run of a peer, including loading (default: 300)",
    )
    parser.add_argument(
        "--peer-memory", type=float, default=10, metavar="GIB",
        help="limit of the address space of a peer (default: 10)",
    )
    parser.add_argument(
        "--peer-python", default=None, metavar="PYTHON",
        help="the Python for the virtual environment of the peers, 3.9 to 3.11 "
        "(default: the one that runs this program)",
    )
    parser.add_argument(
        "--patient", action="store_true",
        help="also run the cells that are known to take a peer over five minutes",
    )
    parser.add_argument(
        "--no-peers", action="store_true", help="run simjoin only; install and run no peer"
    )


def cell_list(text: str) -> list[Cell]:
    """Reads --cells; the error of a wrong value contains the reason."""
    try:
        return parse_cells(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def best_wall(outcomes: list[Outcome]) -> Outcome:
    """Returns the fastest run by wall clock, or the last if none finished."""
    return statistics.best(outcomes, lambda one: one.wall) or outcomes[-1]


def simjoin_cell(outcome: Outcome, limit: float) -> str:
    """Returns ``wall (join)``, or the reason why there is no time."""
    if outcome.ok:
        return f"{table.seconds(outcome.wall)} ({table.seconds(outcome.phase('join'))})"
    return f">{limit:g}" if outcome.state == "timeout" else "error"


def peer_cell(outcome: PeerOutcome, limit: float) -> str:
    """Returns the seconds of a peer, or the reason why there are none."""
    if outcome.ok:
        return table.seconds(outcome.seconds)
    words = {"timeout": f">{limit:g}", "memory": "memory", "unsupported": "–", "missing": "–",
             "long": "long"}
    return words.get(outcome.state, "error")


def ratio_cell(outcome: PeerOutcome, limit: float, own: Outcome) -> str:
    """Returns the seconds of the peer over those of simjoin's whole process."""
    if outcome.ok:
        return table.factor(statistics.ratio(outcome.seconds, own.wall))
    if outcome.state == "timeout" and own.ok:
        return ">" + table.factor(statistics.ratio(limit, own.wall))
    return "–"


def peer_verdict(peer: Peer, outcome: PeerOutcome, exact: int | None) -> str:
    """Returns the note about a peer's count; empty if the count is exact."""
    if not outcome.ok or outcome.pairs is None or exact is None:
        return ""
    counts = [outcome.pairs] + ([outcome.mirrored] if outcome.mirrored is not None else [])
    if all(one == exact for one in counts):
        return ""
    if len(set(counts)) == 1:
        return f"{peer.short} {table.difference(counts[0] - exact)}"
    ways = " / ".join(table.difference(one - exact) for one in counts)
    return f"{peer.short} {ways} (left to right / right to left)"


def verdict(
    own: dict[str, Outcome], others: dict[Peer, PeerOutcome], exact: int | None
) -> tuple[str, bool]:
    """Returns the last column of the table, and whether all counts of simjoin are right."""
    parts = []
    for name, outcome in own.items():
        if outcome.ok and exact is not None and outcome.pairs != exact:
            parts.append(f"simjoin {name} {table.difference((outcome.pairs or 0) - exact)}")
    right = not parts
    parts += [note for peer, one in others.items() if (note := peer_verdict(peer, one, exact))]
    if parts:
        return "; ".join(parts), right
    finished = [one for one in own.values() if one.ok]
    if not finished:
        return "–", right
    return ("agree" if exact is not None else "unchecked"), right


def exact_pairs(
    known: dict, path: Path, cell: Cell, arguments: argparse.Namespace
) -> int | None:
    """Returns the exact count from expected.tsv, or counts by brute force."""
    if cell.key in known:
        return known[cell.key]
    if arguments.no_peers:
        return None
    say(f"{cell}: counting by brute force, because expected.tsv has no count")
    return peers.exact_count(path, cell, arguments.peer_limit, arguments.peer_memory)


def run(context: Context, arguments: argparse.Namespace) -> Report:
    """Runs the cells and makes the table."""
    missing: dict[str, str | None] = {}
    if not arguments.no_peers:
        missing = peers.prepare(arguments.peer_python or sys.executable)
    present = () if arguments.no_peers else PEERS
    cells = select(arguments.cells, context.datasets, context.thresholds)
    paths = files(context, cells)
    known = data.by_key(data.load_expected(context.folder))

    columns = ["dataset", "measure", "T", "exact pairs", "auto ×1: wall", "total", "join",
               "auto ×2", *TECHNIQUES]
    for peer in present:
        columns += [peer.name, f"{peer.short}/simjoin"]
    columns.append("counts")
    result = table.Table(
        "simjoin and its peers", columns, frozenset({"dataset", "measure", "counts"})
    )
    result.notes = notes(context, arguments, present, missing)

    status = 0
    ratios: dict[str, list[tuple[float, float]]] = {peer.name: [] for peer in present}
    problems: list[str] = []
    for cell in cells:
        if cell.dataset not in paths:
            continue
        path = paths[cell.dataset]
        exact = exact_pairs(known, path, cell, arguments)
        own = {"auto ×1": best_wall(context.measure(path, cell, AUTO, 1)),
               "auto ×2": best_wall(context.measure(path, cell, AUTO, 2))}
        own |= {name: best_wall(context.measure(path, cell, name, 1)) for name in TECHNIQUES}
        others = {
            peer: run_peer(peer, path, cell, context, arguments, missing.get(peer.name))
            for peer in present
        }
        problems += [f"{cell}: simjoin {name}: {one.note}" for name, one in own.items()
                     if one.state == "error"]
        problems += [f"{cell}: {peer.name}: {one.note}" for peer, one in others.items()
                     if one.state == "error"]

        first = own["auto ×1"]
        note, right = verdict(own, others, exact)
        if not right or any(one.state == "error" for one in own.values()):
            status = 1
        line = [cell.dataset, cell.measure, cell.threshold, table.count(exact)]
        line += (
            [table.seconds(first.wall), table.seconds(first.phase("total")),
             table.seconds(first.phase("join"))]
            if first.ok
            else [simjoin_cell(first, context.limit), "–", "–"]
        )
        line += [simjoin_cell(own[name], context.limit) for name in ("auto ×2", *TECHNIQUES)]
        for peer, outcome in others.items():
            line += [peer_cell(outcome, arguments.peer_limit),
                     ratio_cell(outcome, arguments.peer_limit, first)]
            wall, join = first.wall, first.phase("join")
            if outcome.ok and outcome.seconds and wall and join:
                ratios[peer.name].append((outcome.seconds / wall, outcome.seconds / join))
        result.add(*line, note)

    result.summary = [summary(name, pairs) for name, pairs in ratios.items() if pairs] + problems
    facts = () if arguments.no_peers else (("Peers", peers.versions(missing)),)
    return Report(result, status, facts)


def run_peer(
    peer: Peer, path: Path, cell: Cell, context: Context, arguments: argparse.Namespace,
    problem: str | None,
) -> PeerOutcome:
    """Returns the best run of a peer; a long run is not repeated."""
    if problem:
        return PeerOutcome("missing", note=problem)
    if cell.measure not in peer.measures:
        return PeerOutcome("unsupported")
    if (peer.name, cell.key) in LONG and not arguments.patient:
        return PeerOutcome("long")
    say(f"{cell}: {peer.name}")
    outcomes = statistics.repeat(
        lambda: peers.run(peer, path, cell, arguments.peer_limit, arguments.peer_memory),
        lambda one: one.seconds,
        context.runs,
    )
    return statistics.best(outcomes, lambda one: one.seconds) or outcomes[-1]


def summary(name: str, ratios: list[tuple[float, float]]) -> str:
    """Returns a line for a peer: the geometric means over the cells that it finished."""
    wall = table.factor(statistics.geometric_mean(one for one, _ in ratios))
    join = table.factor(statistics.geometric_mean(one for _, one in ratios))
    return (
        f"{name} takes {wall} as long as simjoin's whole process and {join} as long as "
        f"simjoin's join (geometric means over the "
        f"{table.plural(len(ratios), 'cell')} it finished; one thread)"
    )


def notes(
    context: Context, arguments: argparse.Namespace, present: tuple[Peer, ...],
    missing: dict[str, str | None],
) -> list[str]:
    """Returns the explanation of the columns."""
    lines = [
        "All times in seconds; the best of "
        f"{table.plural(context.runs, 'run')}, or one run if it takes over 10 s.",
        "simjoin: wall is the whole process, including starting, reading the file and counting; "
        "total and join are from its --stats; the columns with two numbers are wall (join). "
        "auto ×1 and ×2: simjoin's choice of technique, on 1 and 2 threads; "
        "the named techniques on 1 thread.",
    ]
    if present:
        lines.append(
            "Peers: the join call alone, on data already loaded in memory, one thread. "
            "The ratio is the peer's join over simjoin's wall (auto ×1), which favours the peer. "
            f"Limits of a peer: {arguments.peer_limit:g} s, {arguments.peer_memory:g} GiB; "
            "– if it does not support the measure or is not installed; long if it is known to take "
            "over five minutes and was not run (see --patient)."
        )
        lines.append(
            "py_stringsimjoin (PSJ) has no self-join: it joins the table with itself and finds "
            "every pair twice; those with the smaller row on the left are counted."
        )
    lines.append(
        "counts: agree if every tool that finished found exactly the exact pairs, "
        "else the difference of each tool."
    )
    lines += [f"{name}: not installed, {problem}" for name, problem in missing.items() if problem]
    return lines
