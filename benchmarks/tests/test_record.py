"""The record of a run."""

import unittest

from harness import record
from harness.table import Table


class Facts(unittest.TestCase):
    def test_machine(self) -> None:
        self.assertEqual(record.cpu_model("processor : 0\nmodel name\t: A  B\n"), "A B")
        self.assertEqual(record.memory_gib("MemTotal:       24663840 kB\n"), "24 GiB")
        self.assertEqual(record.memory_gib(""), "unknown")

    def test_recorded_command_lines_contain_no_absolute_paths(self) -> None:
        text = record.command_line(["reading", "--data", "/a/b", "--simjoin=/c/d", "--runs=3"])
        self.assertEqual(
            text, "python3 benchmarks/run.py reading --data … --simjoin=… --runs=3"
        )

    def test_the_facts_follow_the_title(self) -> None:
        text = record.markdown(Table("Title", ["a"], notes=["n"]), {"Date": "2025-01-02"})
        self.assertTrue(text.startswith("# Title\n\n* Date: 2025-01-02\n\n* n\n"), text)
