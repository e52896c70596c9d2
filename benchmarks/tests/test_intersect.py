"""The decisions of the jobs intersect and containment."""

import unittest

import run
from harness.jobs import containment, intersect, overlaps


class Intersect(unittest.TestCase):
    def test_ways(self) -> None:
        ways = intersect.configurations(["scalar", "avx2", "avx512"], 2)
        self.assertEqual(ways[0], intersect.Configuration("merge", "scalar", 1))
        self.assertIn(intersect.Configuration("blocks", "avx2", 1), ways)
        self.assertEqual(ways[-1], intersect.Configuration("auto", "avx512", 2))
        self.assertEqual(intersect.configurations(["scalar"], 1)[-1], intersect.Configuration("auto", "scalar", 1))

    def test_statistics(self) -> None:
        text = '{"size": 5, "repeated": {"count": 0.5, "read": 0.25}}'
        self.assertEqual(intersect.parse(text), intersect.Times(0.5, 0.25, 5))
        for wrong in ("", "{}", '{"size": 5, "repeated": null}'):
            self.assertIsNone(intersect.parse(wrong))

    def test_files(self) -> None:
        case = intersect.CASES[0]
        self.assertNotEqual(case.path(0), case.path(1))
        self.assertIn("10M", str(case))
        self.assertEqual(case.arguments(1, case.path(1))[:4], ["generate", "uniform", "--sets", "1"])


class Containment(unittest.TestCase):
    def test_lcjoin_only_runs_at_containment_1(self) -> None:
        self.assertIn("lcjoin", containment.techniques("1", False))
        self.assertNotIn("lcjoin", containment.techniques("0.8", True))
        self.assertIn("naive", containment.techniques("0.8", True))
        self.assertNotIn("naive", containment.techniques("1", False))


class Options(unittest.TestCase):
    def test_the_jobs_have_their_options(self) -> None:
        parser = run.make_parser()
        self.assertEqual(parser.parse_args(["overlaps", "--sets", "2K"]).sets, 2000)
        self.assertTrue(parser.parse_args(["intersect", "--quick"]).quick)
        self.assertFalse(parser.parse_args(["containment"]).naive)
        self.assertIn("2000", overlaps.file("bms", 2000).name)
