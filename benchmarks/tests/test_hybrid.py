"""The cells of the hybrid job and the shares of the split job."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from harness import bench
from harness.bench import Timing
from harness.cells import Cell
from harness.jobs import hybrid, split

CELL = Cell("retail", "jaccard", "0.5")


def timing(
    engine: str, join: float | None, way: str | None = None, pairs: int = 7, share: float | None = None
) -> Timing:
    """Returns a timing of one configuration, in which the GPU did a share of the work."""
    return Timing(CELL, "auto", 4, join=join, pairs=None if join is None else pairs,
                  engine=engine, split=way, ran_on="gpu", device_share=share)


def row(*timings: Timing) -> hybrid.Row:
    """Returns the row of some timings."""
    cell = hybrid.Row("retail", "0.5")
    for one in timings:
        cell.add(one)
    return cell


class Cells(unittest.TestCase):
    """The results of a cell."""

    def test_the_best_of_each_kind_of_split_counts(self) -> None:
        cell = row(
            timing("cpu", 0.4), timing("gpu", 0.1), timing("hybrid", 0.2, "queue:8"),
            timing("hybrid", 0.12, "queue:32"), timing("hybrid", 0.09, "0.7"),
            timing("hybrid", None, "0.1"), timing("hybrid", 0.08, "auto", share=0.6), timing("auto", 0.099),
        )
        self.assertEqual((cell.queue, cell.share), ((0.12, "queue:32"), (0.09, "0.7")))
        self.assertEqual((cell.fixed, cell.both), (0.09, (0.08, "auto")))
        self.assertEqual(cell.splits, {"0.7", "auto"})
        self.assertAlmostEqual(cell.ratio or 0, 1.1)
        self.assertAlmostEqual(cell.slower or 0, 4.0)
        self.assertEqual(cell.counts, {7})

    def test_a_split_counts_as_both_only_if_both_worked(self) -> None:
        cell = row(
            timing("cpu", 0.4), timing("gpu", 0.1), timing("hybrid", 0.05, "0"), timing("hybrid", 0.06, "1"),
            timing("hybrid", 0.07, "auto", share=1.0), timing("hybrid", 0.3, "0.5"),
        )
        self.assertEqual((cell.fixed, cell.both), (0.05, (0.3, "0.5")))
        self.assertFalse(cell.won)

    def test_repeated_times_replace_the_first_ones(self) -> None:
        cell = row(timing("cpu", 0.4), timing("gpu", 0.1), timing("hybrid", 0.06, "0.5"), timing("auto", 0.1))
        self.assertTrue(cell.won)
        self.assertAlmostEqual(cell.ratio or 0, 0.1 / 0.06)
        cell.repeated = row(timing("cpu", 0.4), timing("gpu", 0.08), timing("hybrid", 0.1, "0.5"), timing("auto", 0.088))
        self.assertFalse(cell.won)
        self.assertAlmostEqual(cell.ratio or 0, 1.1)
        self.assertAlmostEqual(cell.slower or 0, 5.0)

    def test_no_split_is_repeated_if_one_side_alone_is_the_best(self) -> None:
        self.assertEqual(row(timing("cpu", 0.4), timing("gpu", 0.1), timing("hybrid", 0.2, "0")).splits, frozenset())
        split_wins = row(timing("cpu", 0.4), timing("gpu", 0.1), timing("hybrid", 0.2, "0.5"))
        self.assertEqual(split_wins.splits, {"0.5"})

    def test_missing_times_are_not_compared(self) -> None:
        cell = row(timing("cpu", None), timing("gpu", 0.1))
        self.assertEqual((cell.ratio, cell.slower, cell.fixed), (None, None, 0.1))

    def test_goals_are_judged_by_the_cells(self) -> None:
        good = row(timing("cpu", 0.4), timing("gpu", 0.1), timing("hybrid", 0.08, "auto", share=0.7),
                   timing("auto", 0.1))
        bad = row(timing("cpu", 0.2), timing("gpu", 0.1), timing("hybrid", 0.15, "auto", share=0.7),
                  timing("auto", 0.2))
        far = row(timing("cpu", 9.0), timing("gpu", 0.1), timing("auto", 0.1))
        met = hybrid.cells_table("a GPU", 4, [good, far]).summary
        self.assertTrue(all("NOT" not in line for line in met), met)
        self.assertIn("1 of 1 cells", met[2])
        missed = hybrid.cells_table("a GPU", 4, [good, bad, far]).summary
        self.assertTrue(all("NOT MET" in line for line in missed if "goal" in line), missed)

    def test_long_and_short_joins_are_counted_separately(self) -> None:
        short = row(timing("cpu", 0.02), timing("gpu", 0.01), timing("hybrid", 0.02, "0.5"), timing("auto", 0.01))
        long = row(timing("cpu", 0.4), timing("gpu", 0.1), timing("hybrid", 0.08, "0.5"), timing("auto", 0.08))
        *_, below, above = hybrid.cells_table("a GPU", 4, [short, long, long]).summary
        self.assertEqual((below[-6:], above[-6:]), ("0 of 1", "2 of 2"))


class Caches(unittest.TestCase):
    """The cache folders."""

    def test_only_kernels_are_shared(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            caches = [Path(name) / one for one in ("a", "b", "c")]
            for cache, kernel in zip(caches, ("first", "second")):
                folder = cache / "simjoin" / "kernels"
                folder.mkdir(parents=True)
                (folder / kernel).write_text(kernel)
                (cache / "simjoin" / "rates").write_text("of its own")
            hybrid.share_kernels(caches)
            for cache in caches:
                kernels = sorted(path.name for path in (cache / "simjoin" / "kernels").iterdir())
                self.assertEqual(kernels, ["first", "second"])
            self.assertFalse((caches[2] / "simjoin" / "rates").exists())


class Shares(unittest.TestCase):
    """The device shares that are tried."""

    def test_the_shares_include_the_one_of_the_speed(self) -> None:
        for speed in split.SPEEDS:
            shares = [float(share) for share in split.shares(speed)]
            self.assertTrue(any(abs(one - speed / (1 + speed)) < 1e-4 for one in shares))
            self.assertEqual((shares[0], shares[-1], shares), (0.0, 1.0, sorted(shares)))

    def times(self, without: str = "") -> tuple[split.SplitTimes | None, str | None]:
        """Returns the results if a split takes as long as its slower side, and the CPU alone takes 2 seconds."""

        def ran(
            _binary: Path, words: list[str], _dataset: str, receive: bench.Receiver, variables: dict[str, str],
        ) -> None:
            self.assertEqual(variables, {split.VARIABLE: "speed=1,actual=0.5"})
            for way in words[words.index("--split") + 1].split(","):
                part = 0.3 if way == "auto" else float(way)
                seconds = max(2 * (1 - part), 4 * part)
                if way != without:
                    receive(Timing(Cell("d", "jaccard", "0.5"), "auto", 1, split=way, virtual=seconds))

        context = SimpleNamespace(folder=Path(), binary=Path(), limit=1.0)
        with mock.patch.object(split.data, "set_file", return_value=Path()), \
                mock.patch.object(split.bench, "run", side_effect=ran):
            return split.times(context, "d", "0.5", 1, 0.5)  # type: ignore[arg-type]

    def test_splits_are_compared_in_virtual_time(self) -> None:
        found, wrong = self.times()
        assert found is not None
        self.assertIsNone(wrong)
        self.assertEqual((found.best.split, found.slower, found.faster), ("0.333333", 2.0, 2.0))
        self.assertEqual(found.auto.virtual, 1.4)

    def test_unfinished_splits_are_reported(self) -> None:
        self.assertEqual(self.times(without="1"), (None, "not every split finished"))


if __name__ == "__main__":
    unittest.main()
