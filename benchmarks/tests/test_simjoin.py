"""Command lines and results of simjoin."""

import os
import tempfile
import unittest
from pathlib import Path

from harness import simjoin
from harness.cells import Cell
from harness.process import Finished

STATS = '{"pairs": 5, "seconds": {"read": 0.1, "join": 0.25, "total": 0.5}}'


class Arguments(unittest.TestCase):
    def test_a_technique_is_passed_on(self) -> None:
        arguments = simjoin.set_arguments(Path("a.txt"), Cell("a", "jaccard", "0.80"), "ppjoin", 2)
        self.assertEqual(
            [str(one) for one in arguments],
            ["sets", "a.txt", "--jaccard", "0.80", "--technique", "ppjoin", "--threads", "2"],
        )

    def test_auto_leaves_the_choice_to_simjoin(self) -> None:
        arguments = simjoin.set_arguments(Path("a.txt"), Cell("a", "overlap", "5"), simjoin.AUTO, 1)
        self.assertNotIn("--technique", arguments)


class Tiers(unittest.TestCase):
    def test_the_default_leaves_the_environment_alone(self) -> None:
        self.assertIsNone(simjoin.environment(simjoin.DEFAULT_TIER))
        asked = simjoin.environment("avx2")
        self.assertEqual(asked, {**os.environ, "SIMJOIN_SIMD": "avx2"})

    def test_refused_tiers_are_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "simjoin")
            program.write_text(
                "#!/bin/sh\n"
                'if [ "$SIMJOIN_SIMD" = neon ]; then echo no neon >&2; exit 2; fi\n'
                f"for last; do :; done; echo '{STATS}' > \"$last\"; echo 5\n"
            )
            program.chmod(0o755)
            self.assertEqual(simjoin.refusals(program), {"neon": "no neon"})


class Outcomes(unittest.TestCase):
    def test_answers_are_read(self) -> None:
        outcome = simjoin.read_outcome(Finished(0, 0.6, "5\n", ""), STATS)
        self.assertTrue(outcome.ok)
        self.assertEqual((outcome.pairs, outcome.wall, outcome.phase("join")), (5, 0.6, 0.25))
        self.assertIsNone(outcome.phase("write"))
        self.assertIsNone(outcome.peak)
        self.assertEqual(simjoin.read_outcome(Finished(0, 0.6, "5\n", "", 9), STATS).peak, 9)

    def test_out_of_time(self) -> None:
        self.assertEqual(simjoin.read_outcome(Finished(None, 9, "", ""), "").state, "timeout")

    def test_errors(self) -> None:
        for finished, stats, note in (
            (Finished(1, 1, "", "warning\nsimjoin: no such file\n"), "", "simjoin: no such file"),
            (Finished(-9, 1, "", ""), "", "ended by signal 9"),
            (Finished(0, 1, "left\tright\n", ""), STATS, "--count printed"),
            (Finished(0, 1, "5\n", ""), "", "--stats wrote no JSON"),
            (Finished(0, 1, "5\n", ""), '{"seconds": 3}', "--stats wrote no JSON"),
        ):
            with self.subTest(note):
                outcome = simjoin.read_outcome(finished, stats)
                self.assertEqual(outcome.state, "error")
                self.assertIn(note, outcome.note)
                self.assertIsNone(outcome.pairs)
