"""A cell of a benchmark: a collection, a measure and a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

MEASURES = ("jaccard", "cosine", "dice", "overlap", "containment")


@dataclass(frozen=True)
class Cell:
    """A self-join. The threshold keeps its original text, because simjoin reads
    it as an exact fraction."""

    dataset: str
    measure: str
    threshold: str

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ValueError(f"unknown measure {self.measure!r}; known: {', '.join(MEASURES)}")
        if Fraction(self.threshold) <= 0:
            raise ValueError(f"a threshold must be above 0, not {self.threshold}")

    @property
    def value(self) -> Fraction:
        """Returns the threshold as an exact number."""
        return Fraction(self.threshold)

    @property
    def key(self) -> tuple[str, str, Fraction]:
        """Returns a key that is equal for cells with equal thresholds (0.5 and 0.50)."""
        return (self.dataset, self.measure, self.value)

    def __str__(self) -> str:
        return f"{self.dataset} {self.measure} {self.threshold}"


def parse_cell(text: str) -> Cell:
    """Reads ``dataset:measure:threshold`` or ``dataset:threshold`` (Jaccard)."""
    parts = text.strip().split(":")
    if len(parts) == 2:
        parts.insert(1, "jaccard")
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"a cell reads dataset:measure:threshold, not {text!r}")
    try:
        return Cell(*parts)
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"cell {text!r}: {error}") from None


def parse_cells(text: str) -> list[Cell]:
    """Reads a comma-separated list of cells."""
    return [parse_cell(part) for part in text.split(",") if part.strip()]


def comma_list(text: str) -> list[str]:
    """Splits a comma-separated option value."""
    return [part.strip() for part in text.split(",") if part.strip()]


def select(
    cells: list[Cell], datasets: list[str] | None, thresholds: list[str] | None
) -> list[Cell]:
    """Keeps the cells of the named datasets and thresholds (None keeps all)."""
    wanted = None if thresholds is None else {Fraction(text) for text in thresholds}
    return [
        cell
        for cell in cells
        if (datasets is None or cell.dataset in datasets)
        and (wanted is None or cell.value in wanted)
    ]
