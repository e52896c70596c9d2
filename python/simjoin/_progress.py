"""How is progress shown?

A line on standard error, in terminals and notebooks, for joins of more than a second; nothing if standard error
is a file. The line is updated in place, and removed at the end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simjoin._options import Progress

Show = Callable[[str, int, int], object]

WIDTH = 30


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    instance = shell.get_ipython() if shell is not None else None
    return type(instance).__name__ == "ZMQInteractiveShell"


class Bar:
    """A progress bar that appears after a second and is updated ten times a second."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.last = self.begin + 0.9
        self.shown = 0

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Shows the phase and the work done."""
        now = time.monotonic()
        if now - self.last < 0.1:
            return
        self.last = now
        elapsed = now - self.begin
        if total > 0:
            part = done / total
            filled = round(WIDTH * part)
            text = f"{phase} {'━' * filled}{' ' * (WIDTH - filled)} {part:4.0%} {elapsed:.1f} s"
        else:
            text = f"{phase} {done:,} rows {elapsed:.1f} s" if done else f"{phase} {elapsed:.1f} s"
        sys.stderr.write("\r" + text.ljust(self.shown))
        sys.stderr.flush()
        self.shown = len(text)

    def close(self) -> None:
        """Removes the line."""
        if self.shown:
            sys.stderr.write("\r" + " " * self.shown + "\r")
            sys.stderr.flush()
            self.shown = 0


@contextmanager
def shown(progress: Progress) -> Iterator[Show | None]:
    """Yields the function to call while a join runs; None if nothing is shown."""
    if callable(progress):
        yield progress
        return
    if not progress or not (sys.stderr.isatty() or _in_notebook()):
        yield None
        return
    bar = Bar()
    try:
        yield bar
    finally:
        bar.close()
