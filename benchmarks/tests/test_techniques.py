"""The output of simjoin bench, and the figures of the techniques job."""

import json
import stat
import tempfile
import unittest
from pathlib import Path

import run
from harness import bench
from harness.bench import Timing
from harness.cells import Cell
from harness.data import ReferenceCell
from harness.jobs import techniques
from harness.jobs.techniques import Measured

LINE = {
    "file": "x/a.txt", "measure": "jaccard", "threshold": "0.5", "technique": "auto",
    "ran": "ppjoin", "threads": 2, "pairs": 7, "candidates": 9, "read": 0.1, "prepare": 0.2,
    "join_min": 0.3, "join_median": 0.4, "runs": 5, "finished": True,
}
ENDED = LINE | {"ran": None, "pairs": None, "candidates": None, "join_min": None,
                "join_median": None, "runs": 1, "finished": False}
LIMITS = {1: 600.0, 2: 60.0}


def measured(
    dataset: str, threshold: str, joins: dict[str, float | None], **more: float
) -> Measured:
    """Returns a cell with seconds by ``technique×threads``."""
    one = Measured(Cell(dataset, "jaccard", threshold))
    for way, join in joins.items():
        technique, threads = way.split("×")
        pairs = None if join is None else 7
        one.add(Timing(one.cell, technique, int(threads), technique, pairs, 0.5, join, 1, **more))
    return one


class Lines(unittest.TestCase):
    def test_a_line(self) -> None:
        timing = bench.parse_line("a", json.dumps(LINE))
        self.assertEqual(timing, Timing(Cell("a", "jaccard", "0.5"), "auto", 2, "ppjoin", 7, 0.2,
                                        0.3, 5, candidates=9))

    def test_runs_ended_by_the_limit_have_no_times(self) -> None:
        timing = bench.parse_line("a", json.dumps(ENDED))
        self.assertEqual((timing.join, timing.pairs, timing.runs), (None, None, 1))

    def test_estimates_are_read_if_present(self) -> None:
        more = {"estimated_pairs": 8.5, "estimated_seconds": 0.25}
        timing = bench.parse_line("a", json.dumps(LINE | more))
        self.assertEqual((timing.estimated_pairs, timing.estimated_seconds), (8.5, 0.25))

    def test_invalid_lines_are_refused(self) -> None:
        for text in ("", "simjoin", "{}", "[]", json.dumps(LINE | {"join_min": None})):
            with self.subTest(text), self.assertRaises(ValueError):
                bench.parse_line("a", text)

    def test_arguments(self) -> None:
        found = bench.arguments(Path("a.txt"), ["0.5", "0.9"], 2, 5, 600.0)
        self.assertEqual(" ".join(found), "bench a.txt --jaccard 0.5,0.9 --threads 2 --repeat 5 "
                                         "--limit 600 --json")

    def test_lines_are_received_until_the_program_fails(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "simjoin")
            program.write_text(f"#!/bin/sh\necho '{json.dumps(LINE)}'\necho oh no >&2\nexit 1\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            seen: list[Timing] = []
            self.assertEqual(bench.run(program, ["bench"], "a", seen.append), "oh no")
            self.assertEqual([one.pairs for one in seen], [7])
            program.write_text("#!/bin/sh\necho nonsense\n")
            self.assertIn("nonsense", bench.run(program, ["bench"], "a", seen.append) or "")


class Choice(unittest.TestCase):
    def test_auto_is_compared_with_the_best_fixed_technique_on_2_threads(self) -> None:
        one = measured("a", "0.5", {"auto×2": 0.3, "ppjoin×2": 0.2, "bitmap×2": 0.4,
                                    "ppjoin×1": 0.1, "naive×2": 0.01})
        self.assertEqual(one.fixed, ["ppjoin", "bitmap"])
        self.assertAlmostEqual(one.choice or 0, 1.5)

    def test_shares_and_the_worst_cell(self) -> None:
        near = measured("a", "0.5", {"auto×2": 0.25, "ppjoin×2": 0.2})
        far = measured("b", "0.9", {"auto×2": 0.5, "ppjoin×2": 0.2})
        [line] = techniques.choice_lines([near] * 19 + [far])
        self.assertIn("19 of 20 (95 %) of the cells, goal ≥ 95 %: met", line)
        self.assertIn("worst 2.50× in b 0.9, goal ≤ 2×: NOT MET", line)
        [line] = techniques.choice_lines([near] * 18 + [far])
        self.assertIn("18 of 19 (95 %) of the cells, goal ≥ 95 %: NOT MET", line)

    def test_auto_that_does_not_finish_is_not_near(self) -> None:
        near = measured("a", "0.5", {"auto×2": 0.2, "ppjoin×2": 0.2})
        lost = measured("b", "0.5", {"auto×2": None, "ppjoin×2": 0.2})
        [line] = techniques.choice_lines([near, lost])
        self.assertIn("1 of 2 (50 %)", line)
        self.assertIn("goal ≤ 2×: NOT MET; 1 cell where auto did not finish", line)
        self.assertEqual(techniques.choice_lines([lost]),
                         ["choice: auto finished nowhere on 2 threads"])
        self.assertEqual(techniques.choice_lines([]), [])


class Gain(unittest.TestCase):
    def test_only_published_techniques_on_1_thread_count(self) -> None:
        one = measured("a", "0.5", {"auto×2": 0.1, "ppjoin×1": 0.8, "skip-join×1": 0.4,
                                    "bitmap×1": 0.2, "ppjoin×2": 0.3})
        self.assertAlmostEqual(one.gain or 0, 4)

    def test_the_mean_the_worst_and_the_named_cells(self) -> None:
        cells = [
            measured("acl_2grams", "0.50", {"auto×2": 1.0, "ppjoin×1": 200.0, "all-pairs×1": None}),
            measured("acl_2grams", "0.7", {"auto×2": 1.0, "ppjoin×1": 2.0}),
            measured("b", "0.5", {"auto×2": 1.0, "ppjoin×1": 1.25}),
            measured("b", "0.4", {"auto×2": 1.0, "ppjoin×1": None}),
        ]
        lines = techniques.gain_lines(cells)
        self.assertIn("takes 7.94× as long", lines[0])
        self.assertIn("(geometric mean over 3 cells), goal ≥ 8×: NOT MET", lines[0])
        self.assertIn("worst 1.25× in b 0.5, goal ≥ 1.5×: NOT MET", lines[0])
        self.assertIn("1 cell omitted", lines[0])
        self.assertEqual(lines[1], "gain in acl_2grams 0.50: 200×, goal ≥ 100×: met")
        self.assertEqual(lines[2], "gain in acl_2grams 0.7: 2.00×, goal ≥ 100×: NOT MET")


class Reference(unittest.TestCase):
    def test_the_best_algorithm_with_prepare_and_index(self) -> None:
        cell = Cell("a", "jaccard", "0.50")
        best = techniques.best_reference([
            ReferenceCell(cell, "ppjoin", 7, 500, 100, 900),
            ReferenceCell(cell, "group-join", 7, 700, 0, 700),
        ])
        self.assertEqual(best, {cell.key: 1400})
        ahead = measured("a", "0.5", {"auto×2": 0.2, "auto×1": 9.0})
        self.assertAlmostEqual(ahead.reference(best) or 0, 2)
        [line] = techniques.reference_lines([ahead, measured("b", "0.5", {"auto×2": 9.0})], best)
        self.assertIn("1 of 1 (100 %) of the cells, goal all: met", line)
        behind = measured("a", "0.5", {"auto×2": 0.9})
        first, second = techniques.reference_lines([behind], best)
        self.assertIn("0 of 1 (0 %) of the cells, goal all: NOT MET", first)
        self.assertEqual(second, "C++: not faster in a 0.5 1.00×")
        self.assertEqual(techniques.reference_lines([behind], {}), [])


class Estimates(unittest.TestCase):
    def test_there_is_no_line_without_estimates(self) -> None:
        self.assertEqual(techniques.estimate_lines([measured("a", "0.5", {"auto×2": 1.0})]), [])

    def test_factors_in_both_directions(self) -> None:
        self.assertEqual(techniques.factor_apart(2, 8, 1), 4)
        self.assertEqual(techniques.factor_apart(8, 2, 1), 4)
        self.assertEqual(techniques.factor_apart(0.1, 0, 1), 1)
        near = measured("a", "0.5", {"auto×1": 1.0, "auto×2": 1.0, "ppjoin×1": 9.0},
                        estimated_pairs=21.0, estimated_seconds=2.5)
        self.assertEqual(techniques.estimate_lines([near]), [
            "estimates: the number of pairs within a factor 3 in 2 of 2 (100 %) of auto's cells on "
            "1 and 2 threads; worst 3.00×",
            "estimates: the seconds within a factor 2 in 0 of 2 (0 %) of auto's cells on "
            "1 and 2 threads; worst 2.50×",
        ])


class Tables(unittest.TestCase):
    def test_a_row(self) -> None:
        one = measured("a", "0.5", {"auto×1": 0.2, "auto×2": 0.1, "ppjoin×1": None,
                                    "ppjoin×2": 0.1})
        result = techniques.make_table([one], {}, LIMITS)
        self.assertEqual(result.rows[0], ["a", "0.5", "7", ">600,000", "200", "100", "auto",
                                          "ppjoin", "100", "1.00×", "–", "–"])

    def test_runs_ended_by_the_limit_are_reported(self) -> None:
        one = measured("a", "0.5", {"auto×2": 0.1, "ppjoin×1": None, "all-pairs×2": None})
        self.assertEqual(techniques.unfinished([one], LIMITS), [
            "not finished on 1 thread within 600 s, so not counted as a best: a 0.5 ppjoin",
            "not finished on 2 threads within 60 s, so not counted as a best: "
            "a 0.5 all-pairs",
        ])

    def test_wrong_counts_are_reported(self) -> None:
        one = measured("a", "0.5", {"auto×2": 0.1})
        self.assertEqual(techniques.wrong_counts([one], {one.cell.key: 7}), [])
        [found] = techniques.wrong_counts([one], {one.cell.key: 8})
        self.assertEqual(found, "a jaccard 0.5 auto ×2: 7 pairs instead of 8")


class CommandLine(unittest.TestCase):
    def test_the_job_has_its_own_limit_and_an_alias_of_datasets(self) -> None:
        parser = run.make_parser()
        options = parser.parse_args(["techniques", "--quick", "--files", "retail"])
        self.assertEqual((options.limit, options.runs, options.datasets), (600.0, 5, ["retail"]))
        self.assertEqual(parser.parse_args(["reference"]).limit, 300)
