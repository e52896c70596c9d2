"""Does the program withstand hours of random joins?

Four kinds of trials, one after the other, until the time is over:

* a join of random sets, texts or vectors with random options, compared with a brute force in exact integers;
* intersections of two sets and overlaps of all pairs, compared with Python's own sets;
* a run that is killed at a random time: its output is the old file or the complete new one, and no other file is
  left except the ones that a killed program cannot remove;
* a join with a huge result under a limit on the address space: the right count, or one line with the reason.

A trial that fails is kept in target/soak, with its files and its command. A seed determines the trials.

    python3 fuzz/soak.py --simjoin target/release/simjoin --seconds 3600 [--seed N]
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "target" / "soak"
MEASURES = ("jaccard", "cosine", "dice", "overlap", "containment")
TECHNIQUES = ("auto", "prefix-bitmap", "bitmap", "dense", "ppjoin", "group-join", "skip-join", "all-pairs",
              "mmjoin", "naive")
LIMIT = 120


class Wrong(Exception):
    """The result of a trial is wrong."""


@dataclass
class Trials:
    """The random numbers, the program and the folder of the current trial."""

    random: random.Random
    binary: Path
    folder: Path
    last: str = ""
    # Whether one of the files of the trial has no tokens.
    empty: bool = False

    def run(self, words: list[str], variables: dict[str, str] | None = None,
            memory: int | None = None) -> subprocess.CompletedProcess[str]:
        """Runs the program in the folder."""
        # A trial is the same on every machine, and does not use the user's cache folder.
        environment = {"SIMJOIN_MACHINE": "fixed", **os.environ, **(variables or {})}
        self.last = " ".join([*(f"{name}={value}" for name, value in (variables or {}).items()),
                              "simjoin", *map(shlex.quote, words)])

        def limited() -> None:
            if memory is not None:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

        try:
            return subprocess.run(
                [str(self.binary), *words], cwd=self.folder, env=environment, capture_output=True,
                text=True, timeout=LIMIT, preexec_fn=limited, check=False,
            )
        except subprocess.TimeoutExpired:
            raise Wrong(f"ran longer than {LIMIT} s") from None

    def sets(self) -> list[list[int]]:
        """Generates a difficult collection."""
        pick = self.random
        universe = pick.choice([1, 3, 10, 60, 400, 5000])
        most = min(universe, pick.choice([1, 4, 12, 80, 600]))
        rows = []
        for _ in range(pick.choice([0, 1, 2, 5, 30, 120])):
            kind = pick.random()
            if kind < 0.05:
                rows.append([])
            elif kind < 0.3 and rows:
                # A near-duplicate of an earlier set.
                row = set(pick.choice(rows))
                for _ in range(pick.choice([0, 0, 1, 2])):
                    row ^= {pick.randrange(universe)}
                rows.append(sorted(row))
            else:
                rows.append(pick.sample(range(universe), pick.randint(1, most)))
        if pick.random() < 0.15:
            rows = [[*row, universe] for row in rows]
        if pick.random() < 0.15:
            rows += [list(row) for row in rows]
        return rows

    def file(self, name: str, text: str) -> str:
        """Writes a file, sometimes compressed, and returns its name."""
        self.empty |= not text.split()
        if self.random.random() < 0.2:
            (self.folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
            return f"{name}.gz"
        (self.folder / name).write_text(text)
        return name

    def settings(self) -> tuple[list[str], dict[str, str]]:
        """Returns random options and variables that determine where and how to run."""
        pick = self.random
        words: list[str] = []
        variables: dict[str, str] = {}
        engine = pick.choice(["", "", "auto", "cpu", "gpu", "hybrid"])
        if engine:
            words += ["--engine", engine]
        if engine in ("gpu", "hybrid"):
            device = f"speed={pick.choice([0.1, 1, 5, 100])}"
            device += pick.choice(["", "", ",fail=0.3", ",memory=64M"])
            variables["SIMJOIN_SIMULATED_GPU"] = device
        if engine == "hybrid":
            words += pick.choice([[], [], ["--split", "0.5"], ["--split", "queue"], ["--split", "1"]])
        elif engine != "gpu":
            words += ["--technique", pick.choice(TECHNIQUES)]
        if pick.random() < 0.5:
            words += ["--threads", str(pick.choice([1, 2, 3, 8]))]
        if pick.random() < 0.2:
            words += ["--memory", pick.choice(["8M", "64M", "1G"])]
        return words, variables


def similar(measure: str, threshold: Fraction, a: set, b: set) -> bool:
    """Returns the decision of the brute force, in exact numbers. Nothing is similar to an empty set."""
    if not a or not b:
        return False
    common = len(a & b)
    if measure == "overlap":
        return common >= threshold
    if measure == "jaccard":
        return Fraction(common, len(a | b)) >= threshold
    if measure == "dice":
        return Fraction(2 * common, len(a) + len(b)) >= threshold
    if measure == "containment":
        return Fraction(common, min(len(a), len(b))) >= threshold
    return Fraction(common * common, len(a) * len(b)) >= threshold * threshold


def expect(found: object, wanted: object, what: str) -> None:
    """Checks that two values are equal."""
    if found != wanted:
        raise Wrong(f"{what}: {str(found)[:400]} instead of {str(wanted)[:400]}")


def rows_of(text: str) -> list[list[str]]:
    """Returns the rows of a tab-separated table, without its header."""
    return [line.split("\t") for line in text.splitlines()[1:]]


def groups(rows: int, pairs: list[tuple[int, int]]) -> list[int]:
    """Returns the smallest row of the group of each row."""
    parent = list(range(rows))

    def find(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for a, b in pairs:
        low, high = sorted((find(a), find(b)))
        parent[high] = low
    return [find(row) for row in range(rows)]


class Refused(Exception):
    """An input without tokens was refused with the right message."""


def successful(done: subprocess.CompletedProcess[str]) -> str:
    """Returns the output of a run, which must have succeeded."""
    messages = ("no records: the input is empty", "no tokens: every record is empty")
    if done.returncode == 1 and any(one in done.stderr for one in messages):
        raise Refused
    if done.returncode != 0:
        raise Wrong(f"ended with {done.returncode}: {done.stderr.strip()[:400]}")
    return done.stdout


def join(trials: Trials) -> None:
    """Runs a join of sets or texts."""
    pick = trials.random
    measure = pick.choice(MEASURES)
    threshold = pick.choice(["1", "2", "5"]) if measure == "overlap" else pick.choice(
        ["1", "0.9", "0.8", "0.75", "0.7", "0.6", "0.5", "0.3", "0.05", "0.3333"])
    text = pick.random() < 0.3
    separator = pick.choice([" ", "  ", "\t"]) if not text else " "

    def collection(name: str) -> tuple[str, list[set]]:
        rows = trials.sets()
        names = [[f"{'t' if text else ''}{token}" for token in row] for row in rows]
        lines = "".join(separator.join(row) + "\n" for row in names)
        return trials.file(name, lines), [set(row) for row in names]

    left, of_left = collection("left.txt")
    words, variables = trials.settings()
    words = ["text", left, "--tokens", "words", *words] if text else ["sets", left, *words]
    share = Fraction(threshold)
    if pick.random() < 0.4:
        right, of_right = collection("right.txt")
        words.insert(2, right)
        pairs = [(a, b) for a, b in product(range(len(of_left)), range(len(of_right)))
                 if similar(measure, share, of_left[a], of_right[b])]
        if pick.random() < 0.3:
            within = sum(similar(measure, share, a, b) for a, b in combinations(of_right, 2))
            done = trials.run([*words, f"--{measure}", threshold, "--with-itself", "--count"], variables)
            expect(int(successful(done)), len(pairs) + within, "count")
            return
    else:
        pairs = [(a, b) for a, b in combinations(range(len(of_left)), 2)
                 if similar(measure, share, of_left[a], of_left[b])]
        if pick.random() < 0.2:
            done = trials.run([*words, f"--{measure}", threshold, "--groups"], variables)
            found = [tuple(map(int, row)) for row in rows_of(successful(done))]
            expect(found, list(enumerate(groups(len(of_left), pairs))), "groups")
            return
    words += [f"--{measure}", threshold]
    if pick.random() < 0.3:
        expect(int(successful(trials.run([*words, "--count"], variables))), len(pairs), "count")
        return
    found = sorted((int(row[0]), int(row[1])) for row in rows_of(successful(trials.run(words, variables))))
    expect(found, sorted(pairs), "pairs")


def vectors(trials: Trials) -> None:
    """Runs a join of vectors of small whole numbers, so that the brute force is exact."""
    pick = trials.random
    dimension = pick.choice([1, 2, 3, 8, 30])
    span = pick.choice([2, 5, 40])
    rows = [[pick.randrange(span) for _ in range(dimension)] for _ in range(pick.choice([1, 2, 40, 150]))]
    rows += [list(pick.choice(rows)) for _ in range(pick.choice([0, 0, 10]))]
    within = Fraction(pick.choice([0, 1, 2, 3, 5, 12]), pick.choice([1, 2]))
    header = ",".join(f"x{at}" for at in range(dimension))
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
    name = trials.file("points.csv", f"{header}\n{lines}")
    square = within * within
    wanted = [
        (a, b) for a, b in combinations(range(len(rows)), 2)
        if sum((x - y) ** 2 for x, y in zip(rows[a], rows[b])) <= square
    ]
    words = ["vectors", name, "--within", f"{float(within):g}",
             "--technique", pick.choice(["auto", "nested-loop", "quantile", "grid"]),
             "--threads", str(pick.choice([1, 2, 4]))]
    done = trials.run(words)
    if done.returncode == 2 and "grid" in done.stderr:
        return
    found = sorted((int(row[0]), int(row[1])) for row in rows_of(successful(done)))
    expect(found, wanted, "pairs of vectors")


def without_threshold(trials: Trials) -> None:
    """Intersects two sets, or counts the overlaps of all pairs."""
    pick = trials.random
    if pick.random() < 0.5:
        universe = pick.choice([10, 1000, 100_000, 1 << 32])
        most = min(universe, pick.choice([1, 50, 3000]))
        a, b = ({pick.randrange(universe) for _ in range(pick.randint(0, most))} for _ in range(2))
        names = [trials.file(name, " ".join(map(str, one)) + "\n") for name, one in (("a.txt", a), ("b.txt", b))]
        words = ["intersect", *names, "--technique",
                 pick.choice(["auto", "merge", "gallop", "blocks", "bitmap"]), "--threads",
                 str(pick.choice([1, 2, 5]))]
        # A set may be empty.
        trials.empty = False
        expect(int(successful(trials.run(words))), len(a & b), "size")
        return
    rows = [set(row) for row in trials.sets()]
    name = trials.file("sets.txt", "".join(" ".join(map(str, row)) + "\n" for row in rows))
    words = ["overlaps", name, "--technique", pick.choice(["auto", "index", "bitmap", "product"]),
             "--threads", str(pick.choice([1, 2, 5]))]
    positive = pick.random() < 0.5
    wanted = Counter(
        (a, b, len(rows[a] & rows[b])) for a, b in combinations(range(len(rows)), 2)
        if not positive or rows[a] & rows[b]
    )
    out = successful(trials.run([*words, *(["--positive"] if positive else [])]))
    expect(Counter(tuple(map(int, row[:3])) for row in rows_of(out)), wanted, "overlaps")


def killed(trials: Trials) -> None:
    """Kills a run, which must leave the old output or the complete new one."""
    pick = trials.random
    rows = [pick.sample(range(40), 8) for _ in range(pick.choice([300, 1500]))]
    (trials.folder / "sets.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    ending = pick.choice(["tsv", "csv", "jsonl", "parquet", "arrow"])
    words = ["sets", "sets.txt", "--jaccard", "0.3", "--threads", "1", "-o", f"out.{ending}"]
    begin = time.monotonic()
    successful(trials.run(words))
    took = time.monotonic() - begin
    output = trials.folder / f"out.{ending}"
    whole = output.read_bytes()
    for _ in range(5):
        old = pick.choice([None, b"what was there before\n"])
        output.unlink(missing_ok=True)
        if old is not None:
            output.write_bytes(old)
        with subprocess.Popen([str(trials.binary), *words], cwd=trials.folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as child:
            time.sleep(pick.random() * took * 1.1)
            child.send_signal(signal.SIGKILL)
            child.wait()
        now = output.read_bytes() if output.exists() else None
        if now not in (old, whole):
            raise Wrong(f"out.{ending} is neither the old nor the new output: {len(now or b'')} bytes")


def bounded(trials: Trials) -> None:
    """Runs a join with a huge result in a limited address space, which the result is streamed through."""
    pick = trials.random
    rows = pick.choice([4000, 9000])
    (trials.folder / "same.txt").write_text("".join(f"1 2 3 {row % 7 + 10}\n" for row in range(rows)))
    limit = pick.choice([600, 1000]) << 20
    words = ["sets", "same.txt", "--jaccard", "0.5", "--threads", "2", "--memory", "64M", "-o", "all.tsv"]
    done = trials.run(words, memory=limit)
    if done.returncode == 0:
        with (trials.folder / "all.tsv").open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
        expect(lines - 1, rows * (rows - 1) // 2, "rows of a huge result")
    elif done.stderr.strip().count("\n") or "panicked" in done.stderr:
        raise Wrong(f"not one line: {done.stderr[:400]}")
    else:
        raise Wrong(f"does not fit {limit >> 20} MiB: {done.stderr.strip()}")


KINDS = ((join, 60), (vectors, 15), (without_threshold, 20), (killed, 4), (bounded, 1))


def main() -> int:
    """Runs trials until the time is over; the exit status is 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simjoin", type=Path, default=ROOT / "target" / "release" / "simjoin")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    chosen = random.Random(seed)
    begin = time.monotonic()
    trials_of: Counter[str] = Counter()
    failed = 0
    reported = begin
    while time.monotonic() - begin < options.seconds:
        kind = chosen.choices([one for one, _ in KINDS], [weight for _, weight in KINDS])[0]
        own = chosen.randrange(1 << 62)
        with tempfile.TemporaryDirectory() as folder:
            trials = Trials(random.Random(own), options.simjoin.resolve(), Path(folder))
            try:
                kind(trials)
                if trials.empty:
                    raise Wrong("an input without tokens was joined")
            except Refused:
                if trials.empty:
                    trials_of["without tokens"] += 1
                    continue
                raise
            except Wrong as wrong:
                failed += 1
                kept = KEPT / f"{seed}-{sum(trials_of.values())}"
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                (kept / "command.txt").write_text(f"{trials.last}\n{wrong}\n")
                print(f"{kind.__name__}: {trials.last}\n  {wrong}\n  kept in {kept}", flush=True)
        trials_of[kind.__name__] += 1
        if time.monotonic() - reported > 60:
            reported = time.monotonic()
            print(f"{reported - begin:.0f} s: {sum(trials_of.values())} trials, {failed} failed", flush=True)
    print(f"{sum(trials_of.values())} trials ({', '.join(f'{name} {count}' for name, count in sorted(trials_of.items()))}), "
          f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
