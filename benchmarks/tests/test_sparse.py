"""Options, arithmetic and tables of the sparse job."""

import argparse
import tempfile
import unittest
from pathlib import Path

import run
from harness import process
from harness.bench import Timing
from harness.cells import Cell
from harness.jobs import sparse
from harness.jobs.sparse import DATASET, DENSE, MEMORY_BYTES, MemoryRun
from harness.jobs.techniques import Measured
from harness.simjoin import Outcome
from harness.table import Table

STATS = {"tokens": 1000, "distinct": {"left": 90, "right": None},
         "records": {"left": 100, "right": None}, "technique": "ppjoin"}
INPUT = 4 * 1000 + 28 * 90 + 4 * 100


def measured(threshold: str, joins: dict[str, float | None], pairs: int = 7) -> Measured:
    """Returns a cell with seconds by ``technique×threads``."""
    one = Measured(Cell(DATASET, "jaccard", threshold))
    for way, join in joins.items():
        technique, threads = way.split("×")
        found = None if join is None else pairs
        one.add(Timing(one.cell, technique, int(threads), technique, found, 0.5, join, 1))
    return one


def ran(peak: int, limit: int | None = None, pairs: int = 7, threshold: str = "0.9") -> MemoryRun:
    cell = Cell(DATASET, "jaccard", threshold)
    return MemoryRun(cell, limit, Outcome("ok", 0.5, pairs, {}, STATS, peak=peak))


class Options(unittest.TestCase):
    def test_numbers(self) -> None:
        for text, value in (("5M", 5_000_000), ("50K", 50_000), ("50k", 50_000), ("7", 7),
                            ("1G", 10**9)):
            self.assertEqual(sparse.number(text), value)

    def test_invalid_numbers_are_refused(self) -> None:
        for text in ("", "K", "0", "0M", "-5", "1.5M", "5T", "5 MB", "²"):
            with self.subTest(text), self.assertRaises(argparse.ArgumentTypeError):
                sparse.number(text)

    def test_the_command_line(self) -> None:
        parser = run.make_parser()
        options = parser.parse_args(run.with_job(["sparse"]))
        self.assertEqual((options.sets, options.limit, options.record), (5_000_000, 600.0, None))
        self.assertEqual(parser.parse_args(["sparse", "--sets", "50K"]).sets, 50_000)

    def test_arguments_of_simjoin(self) -> None:
        path = sparse.collection_path(5_000_000)
        self.assertEqual(path.name, "zipf-5000000-500000-10-seed1.txt")
        text = " ".join(map(str, sparse.generate_arguments(5_000_000, Path("a.txt"))))
        self.assertEqual(text, "generate zipf --sets 5000000 --universe 500000 --size 10 --seed 1 "
                               "-o a.txt")
        text = " ".join(sparse.bench_arguments(Path("a.txt"), ["0.9", "0.8"], 2, 3, 600.0))
        self.assertEqual(text, "bench a.txt --jaccard 0.9,0.8 --threads 2 --repeat 3 --limit 600 "
                               "--json --technique auto,prefix-bitmap,ppjoin,all-pairs,group-join,"
                               "skip-join")


class Collections(unittest.TestCase):
    def make(self, folder: str, script: str) -> tuple[str | None, Path]:
        program, path = Path(folder, "simjoin"), Path(folder, "made", "z.txt")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return sparse.make_collection(program, 5, path), path

    def test_collections_are_generated_once_and_never_in_part(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            last = 'for last; do :; done; echo 1 2 > "$last"'
            text, path = self.make(folder, f"{last}; echo no room >&2; exit 1")
            self.assertEqual(text, "simjoin generate: no room")
            self.assertEqual(list(path.parent.iterdir()), [])
            self.assertEqual(self.make(folder, last), (None, path))
            self.assertEqual([one.name for one in path.parent.iterdir()], ["z.txt"])
            self.assertEqual(self.make(folder, "exit 1"), (None, path))


class Times(unittest.TestCase):
    def test_auto_is_compared_with_published_techniques_on_the_same_threads(self) -> None:
        one = measured("0.9", {"auto×1": 3.0, "ppjoin×1": 2.0, "all-pairs×1": 4.0,
                               "prefix-bitmap×1": 1.0, "auto×2": 1.0, "skip-join×2": 2.0})
        self.assertAlmostEqual(sparse.ratio_to_published(one, 1) or 0, 1.5)
        self.assertAlmostEqual(sparse.ratio_to_published(one, 2) or 0, 0.5)
        [line] = sparse.time_lines([one])
        self.assertIn("1 of 2 (50 %) of the rows; worst 1.50× at 0.9 ×1, goal ≤ 1×: NOT MET", line)

    def test_the_goal(self) -> None:
        good = measured("0.9", {"auto×1": 2.0, "ppjoin×1": 2.0})
        self.assertIn("1 of 1 (100 %) of the rows; worst 1.00× at 0.9 ×1, goal ≤ 1×: met",
                      sparse.time_lines([good])[0])
        lost = measured("0.8", {"auto×1": None, "ppjoin×1": 2.0})
        [line] = sparse.time_lines([good, lost])
        self.assertIn("1 of 2 (50 %)", line)
        self.assertIn("goal ≤ 1×: NOT MET; 1 row where auto did not finish", line)
        self.assertEqual(sparse.time_lines([]), [])
        self.assertIn("nothing to compare", sparse.time_lines([measured("0.9", {"auto×1": 2.0})])[0])

    def test_a_row(self) -> None:
        one = measured("0.9", {"auto×1": 2.0, "ppjoin×1": 2.5, "skip-join×1": None})
        first, second = sparse.time_table([one], 60.0, 100).rows
        self.assertEqual(first, ["0.9", "1", "7", "2.00", "–", "2.50", "–", "–", ">60", "auto",
                                 "ppjoin", "0.80×"])
        self.assertEqual(second[3:], ["–"] * 9)


class Memory(unittest.TestCase):
    def test_input(self) -> None:
        self.assertEqual(sparse.input_bytes(STATS), INPUT)
        for bad in ({}, STATS | {"tokens": None}, STATS | {"distinct": 5}):
            self.assertIsNone(sparse.input_bytes(bad))

    def test_bounds(self) -> None:
        self.assertEqual(ran(1000).per_set, 10)
        self.assertIsNone(ran(1000).within)
        most = MEMORY_BYTES + INPUT
        self.assertEqual(ran(most, MEMORY_BYTES).bound, most)
        self.assertIs(ran(most, MEMORY_BYTES).within, True)
        self.assertIs(ran(most + 1, MEMORY_BYTES).within, False)
        self.assertIsNone(MemoryRun(DENSE, MEMORY_BYTES, Outcome("timeout")).within)

    def test_goals(self) -> None:
        runs = [ran(1024 * 100), ran(5, MEMORY_BYTES)]
        self.assertEqual(sparse.memory_lines(runs), [
            "zipf without a limit: at most 1,024 bytes per set (at 0.9), goal ≤ 1,024: met",
            "--memory 256M: the peak is at most the limit and the input in 1 of 1 (100 %) of the "
            "runs, goal all: met",
        ])
        runs = [ran(1024 * 100 + 100), ran(MEMORY_BYTES * 2, MEMORY_BYTES, threshold="0.8")]
        self.assertEqual(sparse.memory_lines(runs), [
            "zipf without a limit: at most 1,025 bytes per set (at 0.9), goal ≤ 1,024: NOT MET",
            "--memory 256M: the peak is at most the limit and the input in 0 of 1 (0 %) of the "
            "runs, goal all: NOT MET in zipf 0.8",
        ])
        self.assertEqual(sparse.memory_lines([]), [])

    def test_a_row(self) -> None:
        [row] = sparse.memory_table([ran(5 << 20, MEMORY_BYTES)]).rows
        self.assertEqual(row, ["zipf", "0.9", "256M", "ppjoin", "7", "0.500", "5", "52,429", "0",
                               "256", "yes"])
        [row] = sparse.memory_table([MemoryRun(DENSE, None, Outcome("timeout"))]).rows
        self.assertEqual(row[2:], ["–"] * 9)


class Agreement(unittest.TestCase):
    def test_counts_of_all_runs_of_a_cell_are_compared(self) -> None:
        one = measured("0.9", {"auto×1": 1.0, "ppjoin×2": None})
        runs = [ran(1), ran(1, MEMORY_BYTES)]
        self.assertEqual(sparse.disagreements([one], runs, {}), [])
        self.assertEqual(sparse.disagreements([one], runs, {one.cell.key: 7}), [])
        self.assertEqual(
            sparse.disagreements([one], [ran(1), ran(1, MEMORY_BYTES, 8)], {}),
            ["zipf jaccard 0.9: the counts DISAGREE: auto ×1 7, no limit 7, --memory 256M 8"],
        )
        [line] = sparse.disagreements([one], [], {one.cell.key: 9})
        self.assertIn("exact 9, auto ×1 7", line)
        self.assertEqual(sparse.disagreements([one], [ran(1, pairs=8, threshold="0.8")], {}), [])

    def test_failed_runs_are_reported(self) -> None:
        runs = [ran(1), MemoryRun(DENSE, None, Outcome("timeout")),
                MemoryRun(DENSE, MEMORY_BYTES, Outcome("error", note="out of memory"))]
        self.assertEqual(sparse.failures(runs, 60.0), [
            "acl_2grams jaccard 0.5: not finished within 60 s",
            "acl_2grams jaccard 0.5 --memory 256M: out of memory",
        ])


class TwoTables(unittest.TestCase):
    def test_text_and_markdown(self) -> None:
        both = sparse.Tables("One", ["a"], below=[Table("Two", ["b"])])
        both.add("1")
        both.below[0].add("2")
        self.assertEqual(both.text(), "One\n\na\n-\n1\n\nTwo\n\nb\n-\n2\n")
        self.assertEqual(both.markdown(), "# One\n\n| a |\n| --: |\n| 1 |\n\n"
                                          "## Two\n\n| b |\n| --: |\n| 2 |\n")


class Peaks(unittest.TestCase):
    def test_the_peak_memory_of_a_child_is_measured(self) -> None:
        done = process.run_with_peak(["sh", "-c", "echo a; echo b >&2; exit 3"], 30)
        self.assertEqual((done.code, done.stdout, done.stderr), (3, "a\n", "b\n"))
        self.assertGreater(done.peak or 0, 1 << 16)

    def test_out_of_time(self) -> None:
        done = process.run_with_peak(["sleep", "30"], 0.05)
        self.assertIsNone(done.code)
        self.assertLess(done.wall, 10)
