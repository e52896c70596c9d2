"""The rows of the device job."""

import unittest

from harness import bench
from harness.jobs import device

LINE = (
    '{"measure": "jaccard", "threshold": "0.5", "technique": "gpu-bitmap:512", "ran": "gpu-bitmap",'
    ' "threads": 4, "pairs": 7, "candidates": 9, "prepare": 0.1, "join_min": 0.02, "runs": 3,'
    ' "finished": true, "device": {"compared": 1000000000000, "filter": 0.5, "verify": 0.001,'
    ' "copies": 0.002, "host": 0.01, "waited": 0.1, "hidden": 0.8}}'
)


class Rows(unittest.TestCase):
    """The cells of a row."""

    def test_rows_have_the_stages_the_rate_and_the_gain(self) -> None:
        timing = bench.parse_line("titles", LINE)
        cpu = bench.Timing(timing.cell, "auto", 4, "bitmap", 7, 0.1, 0.4, 3)
        table = device.device_table("a GPU", 4)
        device.add_row(table, "gpu", timing, cpu)
        device.add_row(table, "cpu", cpu, cpu)
        shown = dict(zip(table.columns, table.rows[0]))
        # 2e12 pairs of 512 bits are a fifth of 2e13 pairs of 256.
        self.assertEqual(shown["compared/s"], "2.00e+12")
        self.assertEqual(shown["ceiling"], "20 %")
        self.assertEqual(shown["filter"], "500")
        self.assertEqual(shown["hidden"], "80 %")
        self.assertEqual(shown["CPU/this"], "20.0×")
        self.assertEqual(shown["candidates"], "9")
        shown = dict(zip(table.columns, table.rows[1]))
        self.assertEqual((shown["filter"], shown["CPU/this"]), ("–", "1.00×"))

    def test_differing_counts_are_reported(self) -> None:
        timing = bench.parse_line("titles", LINE)
        other = bench.Timing(timing.cell, "auto", 4, "bitmap", 8)
        rows = {("gpu", "gpu-bitmap:512"): timing}
        self.assertEqual(device.disagreements(timing.cell, rows), [])
        lines = device.disagreements(timing.cell, rows | {("cpu", "auto"): other})
        self.assertIn("gpu gpu-bitmap:512 7, cpu auto 8", lines[0])


if __name__ == "__main__":
    unittest.main()
