"""What the job of the papers' experiments decides."""

from __future__ import annotations

import unittest
from pathlib import Path

from harness.jobs import papers


class PapersTest(unittest.TestCase):
    """The papers' figures and our collections."""

    def test_the_papers_figures_are_read(self) -> None:
        known = papers.figures()
        self.assertEqual(known[("2", "7", "AOL", "0.5")]["SKJ"], 126.74)
        self.assertEqual(known[("2", "9", "ENRON-25", "0.7")]["Dichotomy"], 293.28)
        self.assertEqual(known[("2", "11", "20M-50K-5", "0.9")]["Queue"], 31.23)
        self.assertEqual(known[("4", "A.2", "WORDS-100K", "")]["MM"], 43.36)
        self.assertEqual(known[("1", "4", "DBLP", "0.9")], {"join": 2815.0})
        self.assertNotIn("CPU", known[("2", "7", "TWITTER", "0.5")])

    def test_the_best_is_told_by_processor(self) -> None:
        theirs = papers.best_of({"CPU": 3.0, "SKJ": 2.0, "Queue": 1.5, "GPU": 4.0})
        self.assertEqual((theirs.cpu, theirs.gpu, theirs.best), (2.0, 1.5, 1.5))
        self.assertIsNone(papers.best_of({}).best)

    def test_every_collection_of_every_stage_can_be_made(self) -> None:
        for name, stage in papers.STAGES.items():
            datasets = {key[2] for key in papers.figures() if key[:2] == (stage.paper, stage.number)}
            made = [papers.collection(name, dataset) for dataset in datasets]
            self.assertTrue(any(made), name)
            for one in filter(None, made):
                self.assertIn("--sets", one.arguments(5, Path("a.txt")))
        self.assertEqual(papers.collection("synthetic", "20M-500K-25").sets, 20_000_000)
        self.assertIsNone(papers.collection("overlaps", "BMS-25K"))

    def test_parts_are_parts(self) -> None:
        self.assertEqual(papers.part("0.5"), 0.5)
        with self.assertRaises(Exception):
            papers.part("0")


if __name__ == "__main__":
    unittest.main()
