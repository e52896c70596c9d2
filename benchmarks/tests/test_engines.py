"""The joins that every engine runs."""

from __future__ import annotations

import lzma
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness import data
from harness.context import Context
from harness.jobs import engines


class Cells(unittest.TestCase):
    """The joins of a small folder."""

    def cells(self, datasets: list[str] | None) -> list[engines.EngineJoin]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file in ("sets/acl_2grams.txt", "text/reddit_titles_400k.txt", "linkage/abt_buy_A.csv",
                         "linkage/abt_buy_B.csv", "linkage/abt_buy_gt.csv", "linkage/cora_A.csv",
                         "vectors/aloi_27d.npy"):
                path = folder / f"{file}.xz"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(lzma.compress(b"1 2\n1 2\n3 4\n"))
            context = Context(folder, Path("simjoin"), 1, 1.0, datasets)
            with (
                mock.patch.object(data, "UNPACKED", folder / "unpacked"),
                mock.patch.object(engines, "CACHE", folder / "cache"),
            ):
                return engines.cells(context)

    def test_every_kind_of_file_is_joined_by_every_measure(self) -> None:
        found = self.cells(None)
        count = {name: sum(cell.dataset == name for cell in found) for name in
                 ("acl_2grams", "reddit_titles_400k", "abt_buy", "cora", "aloi_27d")}
        self.assertEqual(list(count.values()), [5, 5, 5, 5, 2])
        self.assertEqual(len(found), 22)
        by_name = {(cell.dataset, cell.measure): cell for cell in found}
        self.assertEqual(by_name["acl_2grams", "overlap"].threshold, "100")
        self.assertEqual(by_name["reddit_titles_400k", "dice"].words[-2:], ("--tokens", "words"))
        tables = by_name["abt_buy", "jaccard"].words
        self.assertEqual([Path(word).name for word in tables[1:3]], ["abt_buy_A.csv", "abt_buy_B.csv"])
        self.assertEqual(by_name["cora", "jaccard"].words[2], "--column")
        self.assertIs(by_name["aloi_27d", "within"].engines, engines.VECTOR_ENGINES)

    def test_only_selected_datasets_are_joined(self) -> None:
        self.assertEqual({cell.dataset for cell in self.cells(["abt_buy"])}, {"abt_buy"})


if __name__ == "__main__":
    unittest.main()
