"""The decisions of the jobs on outcomes."""

import argparse
import unittest

import run
from harness.cells import Cell, parse_cells
from harness.data import ReferenceCell, Shape
from harness.jobs import expected, package, peers, predictions, reading, reference, spark, workers
from harness.peers import PEERS, PeerOutcome
from harness.simjoin import Outcome

SSS, PSJ = PEERS


def ok(pairs: int, **phases: float) -> Outcome:
    return Outcome("ok", 0.5, pairs, phases)


class Peers(unittest.TestCase):
    def test_equal_counts_agree(self) -> None:
        others = {SSS: PeerOutcome("ok", 1.0, 9), PSJ: PeerOutcome("ok", 1.0, 9, 9)}
        self.assertEqual(peers.verdict({"ppjoin": ok(9)}, others, 9), ("agree", True))
        self.assertEqual(peers.verdict({"ppjoin": ok(9)}, {}, None), ("unchecked", True))

    def test_differences_are_reported(self) -> None:
        others = {SSS: PeerOutcome("ok", 1.0, 11), PSJ: PeerOutcome("ok", 1.0, 9, 7)}
        found, right = peers.verdict({"ppjoin": ok(9)}, others, 9)
        self.assertEqual(found, "SSS +2; PSJ +0 / −2 (left to right / right to left)")
        self.assertTrue(right)

    def test_wrong_counts_of_simjoin_are_reported(self) -> None:
        found, right = peers.verdict({"ppjoin": ok(8)}, {SSS: PeerOutcome("timeout")}, 9)
        self.assertEqual((found, right), ("simjoin ppjoin −1", False))

    def test_times_and_ratios_are_shown_or_their_lack_explained(self) -> None:
        timeout = PeerOutcome("timeout")
        self.assertEqual(peers.peer_cell(timeout, 300), ">300")
        self.assertEqual(peers.ratio_cell(timeout, 300, ok(1)), ">600×")
        self.assertEqual(peers.ratio_cell(PeerOutcome("ok", 5.0, 1), 300, ok(1)), "10.0×")
        self.assertEqual(peers.peer_cell(PeerOutcome("memory"), 300), "memory")
        self.assertEqual(peers.simjoin_cell(ok(1, join=0.25), 300), "0.500 (0.250)")
        self.assertEqual(peers.simjoin_cell(Outcome("timeout"), 300), ">300")

    def test_the_default_cells_are_distinct(self) -> None:
        self.assertEqual(len({one.key for one in peers.DEFAULT_CELLS}), len(peers.DEFAULT_CELLS))


class Spark(unittest.TestCase):
    def test_the_last_line_of_a_worker_is_read(self) -> None:
        found = 'noise\n{"state": "ok", "seconds": 2.5, "pairs": 7, "distribution": "tiles", "tasks": 3}'
        self.assertEqual(spark.parse(found, ""), spark.SparkRun("ok", 2.5, 7, "", "tiles, 3"))
        self.assertEqual(spark.parse("", "killed"), spark.SparkRun("error", note="killed"))
        self.assertEqual(spark.SparkRun("timeout").shown(300), ">300")

    def test_recall_and_gain_are_judged(self) -> None:
        exact = spark.SparkRun("ok", 100.0, 200)
        self.assertEqual(spark.recall(spark.SparkRun("ok", 1.0, 150), exact), "75.0 %")
        self.assertEqual(spark.recall(exact, exact), "100 %")
        self.assertEqual(spark.recall(spark.SparkRun("timeout"), exact), "–")
        self.assertTrue(workers.gain(exact, spark.SparkRun("ok", 55.0, 200)).endswith(": met"))
        self.assertTrue(workers.gain(exact, spark.SparkRun("ok", 90.0, 200)).endswith("NOT MET"))
        self.assertIn("not judged", workers.gain(spark.SparkRun("ok", 5.0, 1), exact))


class Predictions(unittest.TestCase):
    def test_predictions_may_be_too_low_or_too_high(self) -> None:
        found = 'noise\n{"seconds": 3.0, "expected_seconds": 2.0}\n{"seconds": 1.0, "expected_seconds": 4.0}\n'
        factors = [predictions.factor(cell) for cell in predictions.parse(found)]
        self.assertEqual(factors, [1.5, 4.0])


class Expected(unittest.TestCase):
    def test_words(self) -> None:
        self.assertEqual(expected.judge(ok(9), 9, 300), "0.500")
        self.assertEqual(expected.judge(ok(7), 9, 300), "WRONG −2")
        self.assertEqual(expected.judge(Outcome("timeout"), 9, 300), ">300")
        self.assertEqual(expected.judge(Outcome("error"), 9, 300), "error")

    def test_quick(self) -> None:
        tally = {"agree": 5, "disagree": 0, "error": 0, "out of time": 2, "left out": 1}
        self.assertEqual(expected.status(tally), 0)
        for bad in ({"disagree": 1}, {"error": 1}, {"agree": 0}):
            self.assertEqual(expected.status(tally | bad), 1)
        self.assertTrue(expected.is_quick(2_999_999, 1000))
        self.assertFalse(expected.is_quick(3_000_000, 1000))
        self.assertFalse(expected.is_quick(5, 40_000_000))

    def test_high_thresholds_come_first(self) -> None:
        cells = parse_cells("a:0.5,a:0.9,a:overlap:5,a:overlap:10,b:0.5")
        order = [f"{one.measure} {one.threshold}" for one in expected.hardest_last(cells)]
        self.assertEqual(
            order, ["jaccard 0.9", "jaccard 0.5", "overlap 10", "overlap 5", "jaccard 0.5"]
        )

    def test_the_default_configurations(self) -> None:
        options = run.make_parser().parse_args(["expected"])
        self.assertEqual((options.techniques, options.threads, options.tiers), (None,) * 3)
        ways = expected.all_configurations(expected.TECHNIQUES, expected.THREADS, ["default"])
        self.assertEqual([str(one) for one in ways[:3]], ["auto ×1", "auto ×2", "prefix-bitmap ×1"])
        self.assertEqual(len(ways), 16)

    def test_tiers(self) -> None:
        self.assertEqual(expected.tier_list("default, scalar,scalar"), ["default", "scalar"])
        for bad in ("", "sse2", "scalar,AVX2"):
            with self.subTest(bad), self.assertRaises(argparse.ArgumentTypeError):
                expected.tier_list(bad)
        ways = expected.all_configurations(["bitmap"], [2], ["default", "avx2"])
        self.assertEqual([str(one) for one in ways], ["bitmap ×2", "bitmap ×2 avx2"])
        self.assertEqual(expected.lower_tiers(["neon"]), ["scalar", "avx2"])
        self.assertEqual(expected.lower_tiers(["avx2", "avx512"]), ["scalar"])
        self.assertEqual(expected.lower_tiers(["scalar", "avx2", "avx512", "neon"]), [])
        self.assertIn("simjoin chose", expected.default_tier_words(None))
        self.assertIn("SIMJOIN_SIMD=avx2", expected.default_tier_words("avx2"))

    def test_the_configurations_of_quick(self) -> None:
        small = expected.smallest({"a": 30, "b": 10, "c": 20, "d": 40}, 3)
        self.assertEqual(small, ["b", "c", "a"])
        ways = expected.quick_configurations(["scalar"], small)
        self.assertEqual([str(one) for one in ways if one.threads == 1], ["auto ×1"])
        lower = [one for one in ways if one.tier != "default"]
        self.assertEqual([str(one) for one in lower], ["auto ×2 scalar", "bitmap ×2 scalar"])
        self.assertTrue(lower[0].covers("a") and not lower[0].covers("d"))
        self.assertTrue(all(one.covers("d") for one in ways if one.tier == "default"))
        self.assertEqual({one.technique for one in ways}, set(expected.TECHNIQUES))


class Reference(unittest.TestCase):
    def test_summary(self) -> None:
        def line(dataset: str, join_ms: int) -> ReferenceCell:
            return ReferenceCell(Cell(dataset, "jaccard", "0.5"), "ppjoin", 9, 1, 0, join_ms)

        measured = [
            (line("a", 1000), ok(9, join=1.1), ok(9, join=0.55)),
            (line("b", 1), ok(9, join=0.004), ok(9, join=0.004)),
        ]
        measured.append((line("b", 5), Outcome("timeout"), Outcome("timeout")))
        found = reference.summary(measured, {"a": Shape(9, 2), "b": Shape(9, 9)})
        self.assertIn("finished: 2 of 3 (67 %)", found)
        self.assertTrue(found[1].startswith("all cells: 1 of 3 (33 %) within 1.2×"))
        self.assertTrue(found[4].startswith("cells where identical sets dominate: 1 of 1"))
        self.assertTrue(found[-1].startswith("2 threads: 2.00× (geometric mean over 1 cell"))

    def test_counts(self) -> None:
        self.assertEqual(reference.counts_cell(ok(9), [], 9, 9), "exact")
        self.assertEqual(reference.counts_cell(ok(9), [], 9, 8), "exact; C++ −1")
        self.assertEqual(reference.counts_cell(ok(8), [8], 9, 9), "WRONG")


class Reading(unittest.TestCase):
    def test_reading_needs_both_phases(self) -> None:
        self.assertEqual(reading.reading_seconds(ok(1, read=1.0, prepare=2.0)), 3.0)
        self.assertIsNone(reading.reading_seconds(ok(1, read=1.0)))


class Package(unittest.TestCase):
    def test_overhead_is_the_additional_time(self) -> None:
        more = package.overhead(package.PackageRun(1.1), package.PackageRun(1.0))
        self.assertAlmostEqual(more or 0.0, 0.1)
        self.assertIsNone(package.overhead(package.PackageRun(note="pip failed"), package.PackageRun(1.0)))
        self.assertIsNone(package.overhead(None, package.PackageRun(1.0)))


class CommandLine(unittest.TestCase):
    def test_peers_is_the_default_job(self) -> None:
        self.assertEqual(run.with_job([]), ["peers"])
        self.assertEqual(run.with_job(["--record"]), ["peers", "--record"])
        self.assertEqual(run.with_job(["--record", "reading"]), ["reading", "--record"])
        self.assertEqual(run.with_job(["--help"]), ["--help"])

    def test_the_parser_knows_every_job(self) -> None:
        for job in (*run.JOBS, "data"):
            self.assertEqual(run.make_parser().parse_args([job]).job, job)
