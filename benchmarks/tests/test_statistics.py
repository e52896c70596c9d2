"""Statistics and repetition."""

import unittest

from harness import statistics


class Statistics(unittest.TestCase):
    def test_geometric_mean(self) -> None:
        self.assertAlmostEqual(statistics.geometric_mean([1, 4]) or 0, 2)
        self.assertIsNone(statistics.geometric_mean([]))

    def test_median(self) -> None:
        self.assertEqual(statistics.median([3, 1, 2]), 2)
        self.assertEqual(statistics.median([4, 1, 2, 3]), 2.5)
        self.assertIsNone(statistics.median([]))

    def test_share_and_ratio(self) -> None:
        self.assertEqual(statistics.share_within([1.0, 1.2, 1.3], 1.2), (2, 3))
        self.assertEqual(statistics.ratio(3, 2), 1.5)
        self.assertIsNone(statistics.ratio(3, 0))
        self.assertIsNone(statistics.ratio(None, 2))

    def test_ratio_by_turns(self) -> None:
        # The machine is three times as slow in the second turn, and only one of the two has a fourth.
        self.assertEqual(statistics.turns_ratio([1.5, 6.0, 2.2], [1.0, 3.0, 1.0, 9.0]), 2.0)
        self.assertIsNone(statistics.turns_ratio([], [1.0]))


class Repetition(unittest.TestCase):
    def times(self, took: list[float | None]) -> int:
        left = iter(took)
        return len(statistics.repeat(lambda: next(left), lambda one: one, 3))

    def test_short_runs_are_repeated(self) -> None:
        self.assertEqual(self.times([1.0, 2.0, 3.0]), 3)

    def test_long_and_failed_runs_are_not_repeated(self) -> None:
        self.assertEqual(self.times([11.0]), 1)
        self.assertEqual(self.times([1.0, None]), 2)

    def test_best(self) -> None:
        self.assertEqual(statistics.best([3.0, None, 1.0, 2.0], lambda one: one), 1.0)
        self.assertIsNone(statistics.best([None], lambda one: one))
