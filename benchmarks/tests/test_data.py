"""Reads the tables of the data folder, and unpacks files."""

import lzma
import os
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

from harness import data
from harness.cells import Cell

EXPECTED = "file\tjoin\tmeasure\tthreshold\tpairs\na.txt\tself\tjaccard\t0.5\t12\n"
REFERENCE = (
    "file\tjaccard\talgorithm\tpairs\tprepare_ms\tindex_ms\tjoin_ms\n"
    "a\t0.9\tallpairs\t7\t1\t2\t3\na\t0.9\tgroupjoin\t7\t1\t2\t4\n"
)


class Tables(unittest.TestCase):
    def test_expected(self) -> None:
        self.assertEqual(data.parse_expected(EXPECTED), {Cell("a", "jaccard", "0.5"): 12})

    def test_expected_counts_are_found_by_value(self) -> None:
        known = data.by_key(data.parse_expected(EXPECTED))
        self.assertEqual(known[Cell("a", "jaccard", "0.500").key], 12)

    def test_reference_techniques_have_the_names_of_simjoin(self) -> None:
        first, second = data.parse_reference(REFERENCE)
        self.assertEqual((first.technique, first.index_ms, first.join_ms), ("all-pairs", 2, 3))
        self.assertEqual(second.technique, "group-join")

    def test_wrong_headers_and_rows_are_errors(self) -> None:
        with self.assertRaises(ValueError):
            data.parse_expected("file\tpairs\n")
        with self.assertRaises(ValueError):
            data.parse_expected(EXPECTED + "a.txt\tself\n")


class Shapes(unittest.TestCase):
    def test_order_and_repetition_of_tokens_do_not_matter(self) -> None:
        shape = data.shape_of(["1 2\n", "2 1\n", "1 2 2\n", "3\n"])
        self.assertEqual((shape.rows, shape.distinct), (4, 2))

    def test_identical_sets_dominate_if_less_than_half_are_distinct(self) -> None:
        self.assertFalse(data.Shape(4, 2).identical_dominate)
        self.assertTrue(data.Shape(5, 2).identical_dominate)


class Unpacking(unittest.TestCase):
    def test_files_are_unpacked_once_and_again_after_a_change(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            packed, target = Path(name, "a.txt.xz"), Path(name, "out", "a.txt")
            packed.write_bytes(lzma.compress(b"1 2\n"))
            self.assertTrue(data.unpack(packed, target))
            self.assertEqual(target.read_bytes(), b"1 2\n")
            self.assertFalse(data.unpack(packed, target))
            target.write_bytes(b"")
            self.assertTrue(data.unpack(packed, target))
            os.utime(packed, (1, 1))
            self.assertTrue(data.unpack(packed, target))

    def test_threads_may_unpack_the_same_file(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            packed, target = Path(name, "a.txt.xz"), Path(name, "out", "a.txt")
            packed.write_bytes(lzma.compress(b"1 2\n" * 1_000_000))
            with ThreadPoolExecutor(8) as pool:
                done = list(pool.map(lambda _: data.unpack(packed, target), range(8)))
            self.assertEqual(sum(done), 1)
            self.assertEqual(target.stat().st_size, 4_000_000)

    def test_the_folder_is_found_by_option_and_environment(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            self.assertEqual(data.locate(name), Path(name))
            with mock.patch.dict(os.environ, {data.ENVIRONMENT: name}):
                self.assertEqual(data.locate(None), Path(name))
            self.assertIsNone(data.locate(str(Path(name, "absent"))))
