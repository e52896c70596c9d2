"""Cells and lists on the command line."""

import unittest

from harness.cells import Cell, comma_list, parse_cell, parse_cells, select


class Cells(unittest.TestCase):
    def test_cells_with_two_parts_are_jaccard(self) -> None:
        self.assertEqual(parse_cell("retail:0.5"), Cell("retail", "jaccard", "0.5"))

    def test_cells_with_three_parts_name_the_measure(self) -> None:
        self.assertEqual(parse_cell("retail:overlap:10"), Cell("retail", "overlap", "10"))

    def test_invalid_cells_are_refused(self) -> None:
        for text in ("retail", "retail:", ":0.5", "a:b:c:d", "retail:hamming:3", "retail:zero",
                     "retail:0", "retail:1/0"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse_cell(text)

    def test_lists_are_split_at_commas(self) -> None:
        self.assertEqual(len(parse_cells("a:0.5, b:dice:0.8,")), 2)
        self.assertEqual(comma_list(" a, b ,,c"), ["a", "b", "c"])

    def test_thresholds_keep_their_text_and_compare_by_value(self) -> None:
        one, other = parse_cell("a:0.5"), parse_cell("a:0.50")
        self.assertNotEqual(one, other)
        self.assertEqual(one.key, other.key)

    def test_cells_are_selected_by_dataset_and_threshold(self) -> None:
        cells = parse_cells("a:0.5,a:0.9,b:0.5")
        self.assertEqual(select(cells, None, None), cells)
        self.assertEqual(select(cells, ["a"], ["0.50"]), cells[:1])
