"""Tables and numbers."""

import unittest

from harness import table


class Numbers(unittest.TestCase):
    def test_seconds(self) -> None:
        found = [table.seconds(one) for one in (None, 0.01234, 1.234, 12.34, 123.4)]
        self.assertEqual(found, ["–", "0.012", "1.23", "12.3", "123"])

    def test_milliseconds(self) -> None:
        found = [table.milliseconds(one) for one in (None, 0.00123, 12.3456)]
        self.assertEqual(found, ["–", "1.2", "12,346"])

    def test_factor(self) -> None:
        found = [table.factor(one) for one in (None, 0.0123, 0.5, 12.34, 1234.0)]
        self.assertEqual(found, ["–", "0.012×", "0.50×", "12.3×", "1,234×"])

    def test_whole_numbers(self) -> None:
        self.assertEqual(table.count(1234567), "1,234,567")
        self.assertEqual(table.count(None), "–")
        self.assertEqual(table.difference(-1234), "−1,234")
        self.assertEqual([table.plural(n, "run") for n in (1, 3)], ["1 run", "3 runs"])
        self.assertEqual(table.difference(5), "+5")
        self.assertEqual(table.percent(3, 4), "3 of 4 (75 %)")
        self.assertEqual(table.percent(0, 0), "0 of 0")


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        self.table = table.Table("Title", ["name", "n"], frozenset({"name"}), ["a note"])
        self.table.add("long name", "1")
        self.table.add("x|y", "1,000")
        self.table.summary.append("the end")

    def test_text(self) -> None:
        self.assertEqual(
            self.table.text(),
            "Title\n\n  a note\n\n"
            "name           n\n---------  -----\nlong name      1\nx|y        1,000\n\nthe end\n",
        )

    def test_markdown(self) -> None:
        self.assertEqual(
            self.table.markdown(),
            "# Title\n\n* a note\n\n| name | n |\n| :-- | --: |\n| long name | 1 |\n"
            "| x\\|y | 1,000 |\n\n* the end\n",
        )

    def test_rows_must_fit_the_columns(self) -> None:
        with self.assertRaises(ValueError):
            self.table.add("alone")
