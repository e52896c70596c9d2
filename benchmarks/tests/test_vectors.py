"""The parts of the vectors job that run no joins."""

import struct
import tempfile
import unittest
from pathlib import Path

from harness.jobs import vectors


class Npy(unittest.TestCase):
    def test_images_become_an_array_of_floats(self):
        raw = struct.pack(">IIII", 2051, 2, 1, 3) + bytes([0, 1, 255, 7, 8, 9])
        pixels = vectors.idx_pixels(raw)
        self.assertEqual(pixels, bytes([0, 1, 255, 7, 8, 9]))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.npy"
            vectors.write_npy(path, 2, 3, pixels)
            written = path.read_bytes()
        self.assertTrue(written.startswith(b"\x93NUMPY\x01\x00"))
        start = 10 + struct.unpack("<H", written[8:10])[0]
        self.assertEqual(start % 64, 0)
        self.assertEqual(struct.unpack("<6f", written[start:]), (0, 1, 255, 7, 8, 9))

    def test_other_files_are_refused(self):
        with self.assertRaises(ValueError):
            vectors.idx_pixels(struct.pack(">IIII", 2049, 2, 1, 3) + bytes(6))
        with self.assertRaises(ValueError):
            vectors.idx_pixels(struct.pack(">IIII", 2051, 2, 1, 3) + bytes(5))


class Shown(unittest.TestCase):
    def test_peers_without_an_answer_show_the_reason(self):
        self.assertEqual(vectors.PeerRun("ok", 1.5, 3).shown(60), "1.50")
        self.assertEqual(vectors.PeerRun("timeout").shown(60), ">60")
        self.assertEqual(vectors.PeerRun("memory").shown(60), "memory")
        self.assertEqual(vectors.mebibytes(3 << 20), "3")
        self.assertEqual(vectors.mebibytes(None), "–")


if __name__ == "__main__":
    unittest.main()
