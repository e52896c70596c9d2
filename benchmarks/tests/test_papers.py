"""The decisions of the job papers."""

from __future__ import annotations

import csv
import io
import unittest

from harness import published
from harness.jobs import papers

LISTED = "name\tsets\tsize\tuniverse\tabout\nbms-100k\t100000\t17\t1657\tx\nbms\t510000\t7\t1657\tx\n"


class PublishedTest(unittest.TestCase):
    """The papers' figures and our collections."""

    def test_the_papers_figures_are_read(self) -> None:
        known = published.figures()
        self.assertEqual(known[("2", "7", "AOL", "0.5")]["SKJ"], 126.74)
        self.assertEqual(known[("2", "9", "ENRON-25", "0.7")]["Dichotomy"], 293.28)
        self.assertEqual(known[("2", "11", "20M-50K-5", "0.9")]["Queue"], 31.23)
        # These figures of table 14 belong to tables 7 and 9.
        self.assertEqual(known[("2", "7", "TWITTER", "0.8")]["Multi-CPU"], 111.298)
        self.assertEqual(known[("2", "9", "ENRON-25", "0.9")]["Fier"], 21.08)
        self.assertEqual(known[("4", "A.2", "WORDS-100K", "")]["MM"], 43.36)
        self.assertEqual(known[("1", "4", "DBLP", "0.9")], {"join": 2815.0})
        self.assertNotIn("CPU", known[("2", "7", "TWITTER", "0.5")])

    def test_the_best_is_found_by_processor(self) -> None:
        theirs = published.best_of({"CPU": 3.0, "SKJ": 2.0, "Queue": 1.5, "GPU": 4.0})
        self.assertEqual((theirs.cpu, theirs.gpu, theirs.best), (2.0, 1.5, 1.5))
        self.assertIsNone(published.best_of({}).best)

    def test_table_5_counts_seven_collections(self) -> None:
        won = published.winners()
        self.assertEqual(won["0.85"], {"all-pairs": 0, "ppjoin": 2, "group-join": 5})
        self.assertEqual({sum(counts.values()) for counts in won.values()}, {len(papers.SEVEN)})

    def test_every_claim_has_a_stage_and_two_configurations(self) -> None:
        claims = [claim for stage in papers.CLAIMED for claim in published.claims(stage)]
        self.assertEqual(len(claims), len(published.rows("claims.csv")))
        for claim in claims:
            self.assertGreater(claim.factor, 1)
            self.assertNotEqual(claim.slow, claim.fast)
        self.assertEqual(papers.technique_options("gpu-verify:ppjoin"),
                         ["--technique", "gpu-verify:ppjoin", "--engine", "gpu"])
        self.assertEqual(papers.technique_options("ppjoin")[-1], "cpu")

    def test_sizes_come_from_the_program(self) -> None:
        known = published.sizes(LISTED)
        self.assertEqual(known, {"bms-100k": 100_000, "bms": 510_000})
        made = published.similar_collection("BMS", 0.1, known)
        assert made is not None
        self.assertEqual(made.words, ("like", "bms", "--sets", "51000"))
        made = published.similar_collection("20M-500K-25", 1, known)
        assert made is not None
        self.assertEqual(made.words, ("zipf", "--universe", "500K", "--size", "25", "--sets", "20000000"))
        # The papers do not report the sizes of these sets.
        self.assertIsNone(published.similar_collection("BMS-25K", 1, known))


class PapersTest(unittest.TestCase):
    """The job papers."""

    def test_every_table_has_cells(self) -> None:
        for stage in papers.TIMED:
            self.assertTrue(papers.cells(stage), stage)
        originals = papers.cells("original")
        for _, dataset in papers.REAL:
            self.assertIn(dataset, originals)

    def test_the_whole_experiment_names_every_dataset_once(self) -> None:
        for stage in papers.TIMED:
            named = [dataset for _, of, datasets in papers.WHOLE if of == stage for dataset in datasets]
            if named:
                self.assertEqual(sorted(named), sorted(papers.cells(stage)))
        names = [name for name, _, _ in papers.WHOLE]
        self.assertEqual(len(names), len(set(names)))

    def test_distances_fall_with_the_number_of_points(self) -> None:
        self.assertEqual(papers.distance("ds1", papers.vectors.SIZE), "0.1968")
        self.assertEqual(papers.distance("ds1", papers.vectors.SIZE * 2**8), "0.0984")

    def test_parts_are_above_0_and_at_most_1(self) -> None:
        self.assertEqual(papers.part("0.5"), 0.5)
        with self.assertRaises(Exception):
            papers.part("0")

    def test_rows_become_csv(self) -> None:
        times, _, _ = papers.tables("", 0.5, 20)
        times.add(*(f"a,{number}" for number in range(len(times.columns))))
        self.assertEqual(list(csv.reader(io.StringIO(times.csv()))), [list(times.columns), *times.rows])


if __name__ == "__main__":
    unittest.main()
