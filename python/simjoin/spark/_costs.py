"""What does each step of a divided join cost?

Costs are measured seconds of one core (see the constants). The planner compares layouts by them, and the
simulator adds them up. They are rough: an estimate within a factor of about two suffices to choose a layout.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass


@dataclass(frozen=True)
class CostTable:
    """Seconds of a core for each step.

    Measured on 2026-11-16 on a virtual machine of two cores (AMD EPYC, AVX2). ``join`` is the remaining time
    of joins of parts of ``acl_2grams`` and of post titles. ``different`` was fitted to ``debian_files``,
    ``posting`` to tasks of ``acl_2grams`` at Jaccard 0.6 and 0.8, and ``count`` to six times that collection.
    The costs of Spark for tasks and bytes are rougher. ``python -m simjoin.spark validate`` shows how well
    they fit.
    """

    #: Starting a join: planning, broadcasting and scheduling its stages.
    join: float = 3.0
    #: Scheduling a task, starting or waking its Python worker, and ending it.
    task: float = 0.08
    #: The driver's part in a task. The driver serves one task after the other.
    schedule: float = 0.003
    #: A record of the input on its way into a Python worker.
    row: float = 7e-7
    #: Extracting, hashing and counting a token in the first pass over the input.
    count: float = 8.5e-8
    #: A different token of a partition, on its way through Spark, which sums by token.
    different: float = 3e-6
    #: Extracting and hashing a token and finding its place in the second pass over the input.
    place: float = 5e-8
    #: A byte from the sender to the receiver, both in Spark: serialised, compressed, written, read.
    byte: float = 1.2e-8
    #: A token of a task's collection, decoded and prepared.
    token: float = 2.4e-8
    #: A pair of sets that the length filter leaves, by signatures.
    reach: float = 1e-9
    #: A token of a prefix, looked up.
    lookup: float = 5e-8
    #: A pair that meets at a prefix token, by lists.
    posting: float = 2.2e-10
    #: A pair in the answer, on its way out.
    pair: float = 2e-7

    def compare(self, reach: float, lookups: float, postings: float) -> float:
        """Returns the seconds of the cheaper way to find pairs: all signatures, or lists of prefix tokens."""
        return min(reach * self.reach, lookups * self.lookup + postings * self.posting)


def makespan(tasks: list[float], slots: list[float]) -> float:
    """Returns the seconds until all tasks are done. Tasks start in the given order, as in Spark; each runs in the
    slot that would end it first.

    >>> makespan([3, 2, 2, 1], [1, 1])
    4.0
    >>> makespan([4], [2, 1])
    2.0
    """
    if not tasks or not slots:
        return 0.0
    if len(set(slots)) == 1:
        free = [0.0] * len(slots)
        for task in tasks:
            heapq.heapreplace(free, free[0] + task / slots[0])
        return max(free)
    ends = [0.0] * len(slots)
    for task in tasks:
        # A slot takes the next task when it is free, whatever its speed.
        at = min(range(len(slots)), key=lambda slot: (ends[slot], -slots[slot]))
        ends[at] += task / slots[at]
    return max(ends)
