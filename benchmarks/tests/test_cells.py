"""Cells and lists on the command line."""

import unittest

from harness.cells import Cell, comma_list, parse_cell, parse_cells, select


class Cells(unittest.TestCase):
    def test_two_parts_are_jaccard(self) -> None:
        self.assertEqual(parse_cell("retail:0.5"), Cell("retail", "jaccard", "0.5"))

    def test_three_parts(self) -> None:
        self.assertEqual(parse_cell("retail:overlap:10"), Cell("retail", "overlap", "10"))

    def test_what_is_no_cell(self) -> None:
        for text in ("retail", "retail:", ":0.5", "a:b:c:d", "retail:hamming:3", "retail:zero",
                     "retail:0", "retail:1/0"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse_cell(text)

    def test_lists(self) -> None:
        self.assertEqual(len(parse_cells("a:0.5, b:dice:0.8,")), 2)
        self.assertEqual(comma_list(" a, b ,,c"), ["a", "b", "c"])

    def test_the_threshold_keeps_its_text_and_its_value(self) -> None:
        one, other = parse_cell("a:0.5"), parse_cell("a:0.50")
        self.assertNotEqual(one, other)
        self.assertEqual(one.key, other.key)

    def test_select(self) -> None:
        cells = parse_cells("a:0.5,a:0.9,b:0.5")
        self.assertEqual(select(cells, None, None), cells)
        self.assertEqual(select(cells, ["a"], ["0.50"]), cells[:1])
