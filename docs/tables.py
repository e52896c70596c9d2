"""How do recorded figures get into the pages?

A line `{table: JOB | COLUMN=VALUE,… | COLUMN,…}` becomes those rows and columns of the latest record of
a benchmark job, with its date and machine. A hook of mkdocs: it ends the build where there is no such
record, column or row, so that a page cannot show what was not measured.
"""

from __future__ import annotations

import re
from pathlib import Path

RECORDED = Path(__file__).resolve().parent.parent / "benchmarks" / "recorded"
LINE = re.compile(r"^\{table: *(?P<job>[\w-]+) *\|(?P<where>[^|]*)\|(?P<columns>[^|]*)\}$", re.MULTILINE)
RULE = re.compile(r"^\|[ :|-]+\|$")


def cells(line: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text: str) -> list[tuple[list[str], list[dict[str, str]]]]:
    """The tables of a record: their columns, and their rows by column."""
    found: list[tuple[list[str], list[dict[str, str]]]] = []
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if RULE.match(line) and at > 0:
            header = cells(lines[at - 1])
            rows = []
            for row in lines[at + 1:]:
                if not row.startswith("|"):
                    break
                rows.append(dict(zip(header, cells(row))))
            found.append((header, rows))
    return found


def fact(text: str, name: str) -> str:
    """What a record says of its date or machine."""
    match = re.search(rf"^\* {name}: (.*)$", text, re.MULTILINE)
    return match.group(1) if match else ""


def table(job: str, where: dict[str, str], columns: list[str]) -> str:
    """Rows and columns of the latest record of a job, as Markdown."""
    records = sorted(RECORDED.glob(f"????-??-??-{job}.md"))
    if not records:
        raise ValueError(f"there is no record of the job {job!r}")
    text = records[-1].read_text(encoding="utf-8")
    for header, rows in tables(text):
        if not {*where, *columns} <= set(header):
            continue
        chosen = [row for row in rows if all(row[name] in value.split("/") for name, value in where.items())]
        if not chosen:
            continue
        shown = [[row[name] for name in columns] for row in chosen]
        lines = [columns, ["--:"] * len(columns), *shown]
        source = f"*{fact(text, 'Machine')}, {fact(text, 'Date')}; from `benchmarks/recorded/{records[-1].name}`.*"
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n\n" + source
    raise ValueError(f"{records[-1].name} has no rows {where} with the columns {columns}")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Called by mkdocs for each page."""
    def replaced(match: re.Match[str]) -> str:
        where = dict(item.strip().split("=", 1) for item in match["where"].split(",") if item.strip())
        return table(match["job"], where, [name.strip() for name in match["columns"].split(",")])

    return LINE.sub(replaced, markdown)
