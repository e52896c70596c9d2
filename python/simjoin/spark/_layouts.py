"""How can a join be divided, and which layout is the cheapest?

A *layout* names the tasks of a join: groups of tokens, and ranges of sizes within each group. A pair of sets
belongs to the group of its first common token and to the pair of its ranges.

* **tokens**, the distribution of *Set Similarity Joins on Heterogeneous Clusters*: many groups. A set goes once to
  each group of its prefix tokens. A heavy token, whose sets would make a task much larger than others, gets a group
  of its own, cut into ranges.
* **tiles**: one group, cut into ranges of sizes. A set goes to the tasks that pair its range with a range that the
  length filter leaves.

The planner tries both on a sample of the records, with several numbers of tasks, and converts the work and the
bytes of the tasks into seconds (:class:`~simjoin.spark.CostTable`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simjoin import _native
from simjoin._errors import UsageError
from simjoin._options import threshold
from simjoin.spark._cluster import Cluster
from simjoin.spark._costs import CostTable, makespan

if TYPE_CHECKING:
    from simjoin.spark._statistics import Statistics

#: Places of tokens in the table begin here; see `simjoin-cluster`, `order.rs`.
TABLE = 1 << 63

#: The most tasks of a layout, and the numbers of tasks for each slot of the cluster that are tried.
MOST_TASKS = 10_000
TASKS_PER_SLOT = (1, 2, 4, 8, 16)

#: A token is heavy if it has more sets than this fraction of the mean of a group.
HEAVY = 0.5

#: A task may take longer than expected by this fraction of its time, and the others then wait for it.
DOUBT = 0.25

#: A task with fewer records of the sample than this is estimated by the mean of similar tasks.
FEW = 300

#: The load of a task by the sample: records on the left and right, bytes, tokens, lookups, reach and postings.
Load = tuple[float, float, float, float, float, float, float]

#: Bytes that a task takes in memory for each token.
TOKEN_BYTES = 16

MEASURES = ("jaccard", "cosine", "dice", "overlap", "containment")

DISTRIBUTIONS = ("auto", "tokens", "tiles")


def threshold_of(asked: dict[str, Any]) -> tuple[str, str]:
    """Returns the name of the measure and the threshold as decimal text."""
    unknown = [name for name in asked if name not in MEASURES]
    if unknown:
        raise UsageError(f"unknown measure {unknown[0]!r}; expected one of {', '.join(MEASURES)}")
    return threshold(asked, "jaccard=0.8")


@dataclass(frozen=True)
class Question:
    """The join that the user has requested."""

    measure: str
    threshold: str
    itself: bool

    def spec(
        self,
        zones: list[tuple[int | None, int, int]],
        groups: list[list[tuple[int, int]]],
        heavy: list[tuple[int, int]] | None = None,
        gpu: list[int] | None = None,
    ) -> str:
        """Returns a layout as JSON."""
        return json.dumps(
            {
                "measure": self.measure,
                "threshold": self.threshold,
                "itself": self.itself,
                "zones": zones,
                "heavy": heavy or [],
                "groups": groups,
                "gpu": gpu or [],
            }
        )


@dataclass(frozen=True)
class Task:
    """The expected work of a task."""

    number: int
    records: float
    bytes: float
    tokens: float
    seconds: float
    gpu: bool = False


@dataclass(frozen=True)
class Layout:
    """A way to divide a join, with its expected costs."""

    distribution: str
    text: str = field(repr=False)
    tasks: tuple[Task, ...] = field(repr=False)
    groups: int
    heavy: int
    #: Bytes that are shuffled, and how often a record is sent on average.
    bytes: float
    copies: float
    #: Seconds for sending, seconds for the joins of all tasks on the cluster, and all seconds.
    route_seconds: float
    join_seconds: float
    seconds: float
    #: Seconds that the other tasks may have to wait for the longest task.
    doubt: float
    #: Seconds of all cores together.
    core_seconds: float
    #: The shares of the work for CPUs and GPUs.
    shares: tuple[float, float] = (1.0, 0.0)
    #: The first place whose tokens are for GPUs. This number replaces the workload-distribution table.
    cut: int | None = None

    @property
    def skew(self) -> float:
        """The seconds of the longest task over the mean of all tasks."""
        times = [task.seconds for task in self.tasks]
        return max(times) * len(times) / sum(times) if times and sum(times) > 0 else 1.0

    def partitions(self, gpu: bool) -> int:
        """Returns the number of tasks for CPUs or for GPUs."""
        return sum(1 for task in self.tasks if task.gpu == gpu)

    def turns(self, gpu: bool) -> list[int]:
        """Returns the turn of each task for CPUs or for GPUs, in the order of the tasks; the longest goes first."""
        times = [task.seconds for task in self.tasks if task.gpu == gpu]
        turns = [0] * len(times)
        for turn, place in enumerate(sorted(range(len(times)), key=lambda at: -times[at])):
            turns[place] = turn
        return turns


class Planner:
    """Finds the cheapest layout for a collection on a cluster."""

    def __init__(
        self,
        statistics: Statistics,
        question: Question,
        cluster: Cluster,
        costs: CostTable | None = None,
        task_memory: int = 2 << 30,
    ) -> None:
        self.statistics, self.question, self.cluster = statistics, question, cluster
        self.costs = costs or CostTable()
        self.task_memory = task_memory
        self.sample = statistics.native_sample()
        self.shares = cluster.workload()
        self.slots = max(cluster.cores + cluster.gpus, 1)
        self.considered: list[Layout] = []

    def choose(self, distribution: str = "auto", tasks: int | None = None) -> Layout:
        """Returns the cheapest layout of one distribution or of both, with about ``tasks`` tasks if given."""
        if distribution not in DISTRIBUTIONS:
            expected = ", ".join(DISTRIBUTIONS)
            raise UsageError(f"unknown distribution {distribution!r}; expected one of {expected}")
        if tasks is not None and not 1 <= tasks <= MOST_TASKS:
            raise UsageError(f"tasks {tasks!r} is not from 1 to {MOST_TASKS}")
        seen: dict[str, Layout] = {}
        for wanted in self._numbers(tasks):
            if distribution in ("auto", "tiles"):
                layout = self.tiles(wanted)
                seen.setdefault(layout.text, layout)
            if distribution in ("auto", "tokens"):
                layout = self.tokens(wanted)
                seen.setdefault(layout.text, layout)
        self.considered = sorted(seen.values(), key=lambda one: one.seconds + one.doubt)
        # Prefer layouts that fit the memory.
        fits = [layout for layout in self.considered if self._memory(layout) <= self.task_memory]
        smallest = min(self.considered, key=self._memory)
        return fits[0] if fits else smallest

    def _numbers(self, tasks: int | None) -> list[int]:
        if tasks is not None:
            return [tasks]
        least = self.statistics.tokens * TOKEN_BYTES / self.task_memory
        numbers = {min(self.slots * per, MOST_TASKS) for per in TASKS_PER_SLOT}
        # Try the number of tasks that the memory needs, and multiples of it: copies take memory too.
        numbers |= {min(max(round(least * times), 1), MOST_TASKS) for times in (1, 4, 16, 64)}
        return sorted(numbers)

    def _memory(self, layout: Layout) -> float:
        return max((task.tokens * TOKEN_BYTES for task in layout.tasks), default=0.0)

    def tiles(self, wanted: int) -> Layout:
        """Returns a layout of one group, cut into ranges of equally many records, with about ``tasks`` tasks."""
        probe = _native.ClusterLayout(self.question.spec([(None, 0, 1)], [[]]))
        cuts = self.sample.cuts(probe, None)
        text, tasks = self.question.spec([(None, 0, 1)], [[]]), 1
        ranges = 1
        while tasks < wanted and ranges < 2 * wanted:
            ranges += max(1, ranges // 8)
            now = self.question.spec([(None, 0, 1)], [_cut(cuts, ranges)])
            count = len(_native.ClusterLayout(now).tasks())
            if count > MOST_TASKS or now == text:
                break
            text, tasks = now, count
        return self._evaluate("tiles", json.loads(text))

    def tokens(self, wanted: int) -> Layout:
        """Returns a layout with groups of tokens by hash, and with a group for each heavy token."""
        probe = _native.ClusterLayout(self.question.spec([(None, 0, 1)], [[]]))
        counts = self.sample.prefix_counts(probe)
        total = sum(count for _, count in counts)
        cut = self._cut_of_work(counts, total)
        cpu_groups = gpu_groups = 0
        zones: list[tuple[int | None, int, int]] = []
        if self.shares[0] > 0:
            cpu_groups = max(round(wanted * self.cluster.cores / self.slots), 1)
            zones.append((cut, 0, cpu_groups))
        if self.shares[1] > 0:
            gpu_groups = max(round(wanted * self.cluster.gpus / self.slots), 1)
            zones.append((None, cpu_groups, gpu_groups))
        groups: list[list[tuple[int, int]]] = [[] for _ in range(cpu_groups + gpu_groups)]
        mean = total / max(len(groups), 1)
        heavy = []
        # A token of only one or two records of the sample is not heavy.
        for place, count in sorted(counts, key=lambda one: -one[1]):
            if count <= max(HEAVY * mean, 2) or len(groups) >= MOST_TASKS:
                break
            heavy.append((place, len(groups)))
            groups.append([])
        if heavy:
            room = MOST_TASKS - len(groups)
            layout = _native.ClusterLayout(self.question.spec(zones, groups, heavy))
            for _, group in heavy:
                cuts = self.sample.cuts(layout, group)
                ranges = min(max(round(len(cuts) / max(mean, 1)), 1), 64)
                # n ranges make about n²/2 tasks.
                if (ranges * ranges) // 2 <= room:
                    groups[group] = _cut(cuts, ranges)
                    room -= (ranges * ranges) // 2
        spec = json.loads(self.question.spec(zones, groups, heavy))
        return self._evaluate("tokens", spec, cut)

    def _cut_of_work(self, counts: list[tuple[int, int]], total: int) -> int | None:
        """The workload-distribution table: tokens by rising frequency go to CPUs until these have
        their part; all others go to GPUs. One place says which.
        """
        if self.shares[0] == 0 or self.shares[1] == 0:
            return None
        load = 0
        for place, count in counts:
            if load >= total * self.shares[0]:
                return place
            load += count
        return None if not counts else counts[-1][0] + 1

    def _evaluate(
        self, distribution: str, spec: dict[str, object], cut: int | None = None
    ) -> Layout:
        native = _native.ClusterLayout(json.dumps(spec))
        loads = _smooth(self.sample.loads(native), native.tasks(), set(_heavy_groups(spec)))
        tasks = [self._task(number, load) for number, load in enumerate(loads)]
        on_gpu = self._for_gpus(distribution, spec, native, tasks, cut)
        if on_gpu:
            spec = {**spec, "gpu": sorted(on_gpu)}
            tasks = [
                Task(t.number, t.records, t.bytes, t.tokens, t.seconds, t.number in on_gpu)
                for t in tasks
            ]
        statistics, costs = self.statistics, self.costs
        # A heterogeneous join routes the records twice: once for each kind of processor.
        looks = 1 + bool(on_gpu and len(on_gpu) < len(tasks))
        sent = sum(task.bytes for task in tasks)
        read = statistics.rows * costs.row + statistics.tokens * costs.place
        cores = max(self.cluster.cores, 1) if self.cluster.cores else self.slots
        network = self.cluster.network * self.cluster.machines
        route = read * looks / cores + max(sent * costs.byte / cores, sent / network)
        joins = doubt = 0.0
        for gpu in (False, True):
            times = sorted((task.seconds for task in tasks if task.gpu == gpu), reverse=True)
            slots = self.cluster.slots(gpu)
            joins = max(joins, makespan(times, slots))
            if times and self.slots > 1:
                doubt = max(doubt, DOUBT * times[0] / slots[0])
        records = sum(task.records for task in tasks)
        filled = max(len(self.sample) * statistics.scale, 1.0)
        return Layout(
            distribution=distribution,
            text=json.dumps(spec),
            tasks=tuple(tasks),
            groups=len(spec["groups"]),  # type: ignore[arg-type]
            heavy=len(spec["heavy"]),  # type: ignore[arg-type]
            bytes=sent,
            copies=records / filled,
            route_seconds=route,
            join_seconds=joins,
            seconds=costs.join + len(tasks) * costs.schedule + route + joins,
            doubt=doubt,
            core_seconds=read * looks + sent * costs.byte + sum(task.seconds for task in tasks),
            shares=self.shares,
            cut=cut,
        )

    def _task(self, number: int, load: Load) -> Task:
        left, right, size, tokens, lookups, reach, postings = load
        scale, costs = self.statistics.scale, self.costs
        work = costs.compare(reach * scale**2, lookups * scale, postings * scale**2)
        seconds = costs.task + tokens * scale * costs.token + work
        # Ids travel too: a few bytes each.
        sent = (size + 4 * (left + right)) * scale
        return Task(number, (left + right) * scale, sent, tokens * scale, seconds)

    def _for_gpus(
        self,
        distribution: str,
        spec: dict[str, object],
        native: _native.ClusterLayout,
        tasks: list[Task],
        cut: int | None,
    ) -> set[int]:
        if self.shares[1] == 0:
            return set()
        if self.shares[0] == 0:
            return {task.number for task in tasks}
        if distribution == "tokens":
            zones: list[tuple[int | None, int, int]] = spec["zones"]  # type: ignore[assignment]
            heavy: list[tuple[int, int]] = spec["heavy"]  # type: ignore[assignment]
            first, count = zones[-1][1], zones[-1][2]
            groups = set(range(first, first + count))
            groups |= {group for place, group in heavy if cut is not None and place >= cut}
            return {
                number for number, (group, _, _) in enumerate(native.tasks()) if group in groups
            }
        # Small tasks go to CPUs until these have their share, as rare tokens do.
        total, load, chosen = sum(task.seconds for task in tasks), 0.0, set()
        for task in sorted(tasks, key=lambda task: task.seconds):
            if load >= total * self.shares[0]:
                chosen.add(task.number)
            load += task.seconds
        return chosen


def _heavy_groups(spec: dict[str, Any]) -> list[int]:
    return [group for _, group in spec["heavy"]]


def _smooth(
    loads: Sequence[Load], tasks: list[tuple[int, int, int]], heavy: set[int]
) -> list[Load]:
    """Replaces the work of small tasks by the mean of similar tasks.

    If a task has only a few records of the sample, it may look large by chance. Tasks of groups by
    hash, and tiles on and off the diagonal, differ only by chance, so each gets their mean.
    """
    kinds: dict[tuple[bool, int | None], list[int]] = {}
    for number, (group, left, right) in enumerate(tasks):
        # Heavy tokens differ too much for a mean.
        kinds.setdefault((left == right, group if group in heavy else None), []).append(number)
    smooth = list(loads)
    for numbers in kinds.values():
        records = sum(loads[number][0] + loads[number][1] for number in numbers)
        if len(numbers) > 1 and records < FEW * len(numbers):
            sums = [sum(loads[number][at] for number in numbers) for at in range(7)]
            mean = tuple(one / len(numbers) for one in sums)
            for number in numbers:
                smooth[number] = mean  # type: ignore[assignment]
    return smooth


def _cut(cuts: list[tuple[int, int]], ranges: int) -> list[tuple[int, int]]:
    """Returns the cuts between ranges of equally many records."""
    places = (round(at * len(cuts) / ranges) for at in range(1, ranges))
    return sorted({cuts[place] for place in places if 0 < place < len(cuts)})
