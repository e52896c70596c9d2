"""What do the workers do?

This module has three functions for ``mapInArrow``. Each gets one partition, batch by batch, and hands whole Arrow
columns to the native engine, which runs one join for a partition. They are objects, so that Spark sends their
fields to the workers; large fields are broadcasts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from simjoin import _native

#: The orders and layouts that a worker has built. Spark reuses its workers.
_built: dict[object, Any] = {}


def _keep(key: object, build: Any) -> Any:
    if key not in _built:
        # Usually there is one join at a time; a few may overlap.
        if len(_built) >= 8:
            _built.clear()
        _built[key] = build()
    return _built[key]


def _batches(table: Any) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    yield from pa.RecordBatchReader.from_stream(table)


def _context() -> Any:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "not on a worker"
    return context


class Count:
    """Counts tokens and sizes, and draws a sample."""

    def __init__(
        self,
        side: int,
        name: str,
        tokens: str | None,
        multiset: bool,
        keys: tuple[int, int],
        sample: int,
    ) -> None:
        self.side, self.name = side, name
        self.tokens, self.multiset, self.keys, self.sample = tokens, multiset, keys, sample

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from simjoin import _native

        partition = 2 * _context().partitionId() + self.side
        counter = _native.ClusterCounter(
            self.keys, self.tokens, self.multiset, partition, self.sample
        )
        for batch in batches:
            yield from _batches(counter.add(self.name, batch.column(0)))
        yield from _batches(counter.finish())


class Route:
    """Routes records to tasks, in blocks."""

    def __init__(
        self,
        order: Any,
        layout: Any,
        spans: dict[int, tuple[int, int]],
        side: int,
        names: tuple[str, str | None],
        tokens: str | None,
        multiset: bool,
        gpu: bool,
    ) -> None:
        self.order, self.layout, self.spans, self.side = order, layout, spans, side
        self.names, self.tokens, self.multiset, self.gpu = names, tokens, multiset, gpu

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from simjoin import _native

        name, id_name = self.names
        # Rows keep the numbers that they got in the counting.
        first, end = self.spans.get(_context().partitionId(), (0, 0))
        order, layout = order_of(self.order.value), layout_of(self.layout.value)
        router = _native.ClusterRouter(
            order, layout, self.tokens, self.multiset, (self.side, first), self.gpu
        )
        for batch in batches:
            ids = batch.column(1) if id_name is not None else None
            yield from _batches(router.add(name, batch.column(0), id_name or "", ids))
        rest, next_row = router.finish()
        if next_row != end:
            raise changed(next_row - first, end - first)
        yield from _batches(rest)


class JoinTasks:
    """Joins the records of a task. A partition holds one task; several would work too."""

    def __init__(
        self,
        layout: Any,
        gpu: bool,
        engine: str,
        technique: str,
        memory: str | None,
        needs_device: bool,
    ) -> None:
        self.layout, self.gpu, self.needs_device = layout, gpu, needs_device
        self.engine, self.technique, self.memory = engine, technique, memory

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from simjoin import _native

        layout = layout_of(self.layout.value)
        tasks: dict[int, _native.ClusterTask] = {}
        for batch in batches:
            for place, blocks in _runs(batch):
                if place not in tasks:
                    tasks[place] = _native.ClusterTask(layout, place, self.gpu)
                tasks[place].add(blocks)
        context = _context()
        if self.gpu:
            _own_device(context, self.needs_device)
        for place in sorted(tasks):
            task = tasks.pop(place)
            found = task.run(self.engine, self.technique, max(context.cpus(), 1), self.memory)
            for part in found:
                yield from _batches(part)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Array]]:
    """Yields the blocks of each task in a batch."""
    import pyarrow.compute as pc

    places, blocks = batch.column(0), batch.column(1)
    different = pc.unique(places).to_pylist()
    if len(different) == 1:
        yield different[0], blocks
        return
    for place in different:
        yield place, blocks.filter(pc.equal(places, place))


def order_of(content: tuple[tuple[int, int], bytes, bool]) -> _native.ClusterOrder:
    """Returns the order of tokens, which each worker builds once."""
    from simjoin import _native

    keys, table, complete = content
    key = ("order", keys, hash(table), len(table), complete)
    order: _native.ClusterOrder = _keep(key, lambda: _native.ClusterOrder(*content))
    return order


def layout_of(text: str) -> _native.ClusterLayout:
    """Returns the layout, which each worker builds once."""
    from simjoin import _native

    layout: _native.ClusterLayout = _keep(("layout", text), lambda: _native.ClusterLayout(text))
    return layout


def _own_device(context: Any, needed: bool) -> None:
    """Shows a task only the devices that Spark has assigned to it."""
    from simjoin._errors import UnavailableError

    given = context.resources().get("gpu")
    if given is None and needed:
        raise UnavailableError(
            "Spark has assigned no GPU to a task; the resource profile must request one for each task"
        )
    if given is not None and "SIMJOIN_SIMULATED_GPU" not in os.environ:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(given.addresses)


def changed(now: int, before: int) -> Exception:
    """Returns the message for an input that has changed since it was counted."""
    from simjoin._errors import InputError

    return InputError(
        f"the input has changed during the join: a partition had {before} rows and now has {now}; "
        "write it to a file or checkpoint it before the join"
    )
