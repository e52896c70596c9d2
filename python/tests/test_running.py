"""Does a join release the interpreter, and end when it should?"""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest
import simjoin as sj


def rows(count: int, universe: int = 4001) -> list[list[int]]:
    """Returns sets that are nearly all slightly similar, so that a join of all pairs takes long."""
    return [[(at * 7919 + k * k * 31) % universe for k in range(60)] for at in range(count)]


def script(text: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


#: Joins by one thread that take any machine far longer than sending a signal.
LONG = """
import simjoin as sj
if "points" in {call!r}:
    import numpy as np
    points = np.random.default_rng(1).normal(size=(300_000, 48)).astype(np.float32)
else:
    rows = [[(at * 7919 + k * k * 31) % 1_000_003 for k in range(60)] for at in range(40_000)]
print("begin", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print("ended", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(
    "call",
    [
        "sj.self_join(rows, jaccard=0.05, technique='naive', threads=1, count=True)",
        "sj.self_join(rows, jaccard=0.9, technique='naive', threads=1, groups=True)",
        "sj.self_join(rows, jaccard=0.9, technique='naive', threads=1)",
        "list(sj.self_join(rows, jaccard=0.9, technique='naive', threads=1, stream=True))",
        "sum(len(batch) for batch in sj.overlaps(rows, threads=1, stream=True))",
        "sj.vector_join(points, within=3, technique='nested-loop', threads=1, count=True)",
    ],
)
def test_ctrl_c_ends_a_long_join(call: str) -> None:
    process = script(LONG.format(call=call))
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n"
    if os.path.isdir("/proc/self/task"):
        # The thread of a join starts after the lists have been read.
        while process.poll() is None and not native_threads(process.pid):
            time.sleep(0.01)
    else:
        time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    # The test does not check how soon, because the machine may be busy.
    assert out == "interrupted\n", err


def test_other_threads_run_during_a_join() -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    data = rows(3000)
    thread = threading.Thread(target=tick)
    thread.start()
    try:
        # A busy machine may not run the other thread during one join.
        for _ in range(100):
            before = ticks
            sj.self_join(data, jaccard=0.9, technique="naive", count=True, threads=1)
            # One or two steps may have run before and after the join.
            if ticks > before + 3:
                break
        else:
            pytest.fail("no other thread went on during a join")
    finally:
        done.set()
        thread.join()


def test_several_threads_can_join_at_once() -> None:
    data = rows(500)
    expected = sj.self_join(data, jaccard=0.3, count=True)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(sj.self_join(data, jaccard=0.3, count=True)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


def native_threads(process: int | str = "self") -> int:
    """Returns the number of threads of joins in a process, if the system reports it."""
    names = []
    try:
        tasks = os.listdir(f"/proc/{process}/task")
    except FileNotFoundError:
        return 0
    for task in tasks:
        try:
            with open(f"/proc/{process}/task/{task}/comm") as file:
                names.append(file.read().strip())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return names.count("simjoin")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
@pytest.mark.parametrize("how", ["drop", "close", "with", "arrow"])
def test_abandoned_stream_ends_its_join(how: str) -> None:
    # The answer has eight million pairs, far more than the queue holds.
    data = [["a"]] * 4000
    stream: Any = sj.self_join(data, jaccard=1, stream=True)
    if how == "with":
        with stream as batches:
            next(batches)
    elif how == "arrow":
        pa = pytest.importorskip("pyarrow")
        reader = pa.RecordBatchReader.from_stream(stream)
        reader.read_next_batch()
        del reader
    else:
        next(stream)
        if how == "close":
            stream.close()
            assert list(stream) == []
            with pytest.raises(sj.UsageError, match="already been read or closed"):
                stream.__arrow_c_stream__()
    del stream
    gc.collect()
    deadline = time.monotonic() + 120
    while native_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert native_threads() == 0


def test_stream_is_read_by_one_thread_and_closed_by_any() -> None:
    # The stream does not end before the second thread starts, however late that is.
    data = rows(40_000, universe=1_000_003)
    stream = sj.self_join(data, jaccard=0.95, technique="naive", stream=True, threads=1)
    batches: list[Any] = []
    refused: list[str] = []

    def read() -> None:
        try:
            batches.append(list(stream))
        except sj.UsageError as error:
            refused.append(str(error))
            stream.close()

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(batches) == 1
    assert len(refused) == 1 and "read by another thread" in refused[0]
    assert list(stream) == []


def test_stream_waits_for_its_reader() -> None:
    """The join pauses when the queue is full, instead of using more memory."""
    data = [["a"]] * 3000
    stream = sj.self_join(data, jaccard=1, stream=True, memory="4M")
    total = 0
    for batch in stream:
        total += len(batch)
        assert len(batch) <= 65_536
    assert total == 3000 * 2999 // 2
    assert stream.stats is not None and stream.stats["pairs"] == total


def test_stream_uses_little_memory() -> None:
    """The answer has about 18 million pairs, which are 576 MB as a table."""
    process = script(
        """
        import resource
        import simjoin as sj
        rows = [["a"]] * 6000
        sum(len(batch) for batch in sj.self_join(rows[:50], jaccard=1, stream=True))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        total = sum(len(batch) for batch in sj.self_join(rows, jaccard=1, stream=True))
        print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """
    )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    total, kilobytes = map(int, out.split())
    assert total == 6000 * 5999 // 2
    assert kilobytes < 150_000


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="limits the address space")
@pytest.mark.parametrize("memory", [None, "64M"])
@pytest.mark.parametrize("ids", [False, True])
def test_an_answer_larger_than_the_memory_is_an_error(memory: str | None, ids: bool) -> None:
    """The answer has 112 million pairs, which are 3.6 GB as a table."""
    process = script(
        f"""
        import resource
        import simjoin as sj
        import pyarrow as pa
        rows = pa.table({{"t": [["a"]] * 15_000, "i": [str(at) * 5 for at in range(15_000)]}})
        options = dict(jaccard=1, threads=2, memory={memory!r}, column="t", id={"i" if ids else None!r})
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (900 << 20), used + (900 << 20)))
        for _ in range(2):
            try:
                sj.self_join(rows, **options)
            except MemoryError as error:
                print(type(error).__name__, error)
        print(sum(len(batch) for batch in sj.self_join(rows, stream=True, **options)))
        """
    )
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    *errors, total = out.splitlines()
    assert len(errors) == 2 and int(total) == 15_000 * 14_999 // 2
    for error in errors:
        assert re.fullmatch(
            r"MemoryLimitError the answer is larger than the memory: \d+ rows took \d+ MiB so far; "
            r"`stream=True` returns it in parts, `count=True` only counts it",
            error,
        )


def test_progress_function_sees_phases_and_can_raise() -> None:
    seen: list[tuple[str, int, int]] = []
    sj.self_join(
        rows(3000),
        jaccard=0.9,
        technique="naive",
        count=True,
        threads=1,
        progress=lambda *what: seen.append(what),
    )
    assert all(phase in ("reading", "preparing", "joining") for phase, _, _ in seen)
    assert all(done <= total or total == 0 for _, done, total in seen)

    def fail(*_: Any) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        sj.self_join(rows(7000), jaccard=0.9, technique="naive", count=True, progress=fail)


def test_bar_is_not_written_to_files(capsys: pytest.CaptureFixture[str]) -> None:
    sj.self_join(rows(200), jaccard=0.9, progress=True)
    captured = capsys.readouterr()
    assert captured.err == "" and captured.out == ""


def test_bar_appears_after_a_second_and_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    from io import StringIO

    from simjoin._progress import Bar, shown

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with shown(True) as bar:
        assert isinstance(bar, Bar)
        bar("reading", 5, 0)
        assert terminal.getvalue() == "", "nothing within a second"
        bar.begin -= 2
        bar.last -= 2
        bar("joining", 1, 4)
        assert "joining ━━━━━━━━" in terminal.getvalue() and " 25%" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")
    with shown(False) as nothing:
        assert nothing is None


def test_plans_name_techniques_and_estimates() -> None:
    data = rows(400)
    plan = sj.plan(data, jaccard=0.5, threads=1)
    assert plan.techniques and plan.pairs is not None
    assert all(seconds is None or seconds >= 0 for part in plan.considered for _, seconds in part)
    assert str(plan) == plan.text and "on 1 thread" in plan.text
    assert "plan, step 1 of" in sj.explain(data, data, cosine=0.8)
    vectors = sj.vector_plan([row[:3] for row in data], within=10)
    assert vectors.techniques[0] in ("quantile", "grid", "nested-loop")
    assert "expected: about" in vectors.text
