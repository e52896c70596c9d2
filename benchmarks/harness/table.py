"""Formats tables as aligned text for the terminal and as Markdown for the record."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Table:
    """A table: its title, notes on its columns, its rows, and lines of summary."""

    title: str
    columns: Sequence[str]
    left: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Appends a row."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(list(cells))

    def text(self) -> str:
        """Returns the table for a terminal."""
        widths = [
            max([len(name)] + [len(row[number]) for row in self.rows])
            for number, name in enumerate(self.columns)
        ]

        def line(cells: Sequence[str]) -> str:
            return "  ".join(
                cell.ljust(width) if name in self.left else cell.rjust(width)
                for name, cell, width in zip(self.columns, cells, widths)
            ).rstrip()

        parts = [self.title, ""]
        parts += [f"  {note}" for note in self.notes] + ([""] if self.notes else [])
        parts += [line(self.columns), "  ".join("-" * width for width in widths)]
        parts += [line(row) for row in self.rows]
        parts += ([""] if self.summary else []) + self.summary
        return "\n".join(parts) + "\n"

    def markdown(self) -> str:
        """Returns the table as Markdown."""
        parts = [f"# {self.title}", ""]
        parts += [f"* {note}" for note in self.notes] + ([""] if self.notes else [])
        parts.append(markdown_row(self.columns))
        parts.append(markdown_row([":--" if name in self.left else "--:" for name in self.columns]))
        parts += [markdown_row(row) for row in self.rows]
        parts += ([""] if self.summary else []) + [f"* {line}" for line in self.summary]
        return "\n".join(parts) + "\n"

    def csv(self) -> str:
        """Returns the rows as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()


def markdown_row(cells: Sequence[str]) -> str:
    """Returns one line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def seconds(value: float | None) -> str:
    """Formats seconds with about three significant digits; None is an en dash."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    if value >= 1:
        return f"{value:.2f}"
    return f"{value:.3f}"


def milliseconds(value: float | None) -> str:
    """Formats seconds as milliseconds, with one decimal below 100."""
    if value is None:
        return "–"
    thousandths = value * 1000
    return f"{thousandths:,.0f}" if thousandths >= 100 else f"{thousandths:.1f}"


def factor(value: float | None) -> str:
    """Formats a ratio, such as 12.3×."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}×"
    if value >= 10:
        return f"{value:.1f}×"
    return f"{value:.2f}×" if value >= 0.1 else f"{value:.3f}×"


def count(value: int | None) -> str:
    """Formats a whole number with separators of thousands."""
    return "–" if value is None else f"{value:,}"


def plural(number: int, noun: str) -> str:
    """Formats a number and a noun: ``1 run``, ``3 runs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def difference(value: int) -> str:
    """Formats a whole number with its sign, with a true minus sign."""
    return f"{value:+,}".replace("-", "−")


def percent(part: int, whole: int) -> str:
    """Formats a part, such as ``12 of 20 (60 %)``."""
    share = f" ({100 * part / whole:.0f} %)" if whole else ""
    return f"{part} of {whole}{share}"
