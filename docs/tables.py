"""How do recorded figures get into the pages?

A line `{table: JOB,… | COLUMN=VALUE/…,… ; … | COLUMN,…}` becomes rows and columns of the latest records of
benchmark jobs, with their date and machine: those rows that meet all conditions between two semicolons. A hook
of mkdocs: it ends the build where there is no such record, column or row, so that a page cannot show what was
not measured.

Where a file is shown as it is, such as the README, the line stands in a comment before the table, and
`check.py` compares the two.
"""

from __future__ import annotations

import re
from pathlib import Path

RECORDED = Path(__file__).resolve().parent.parent / "benchmarks" / "recorded"
REQUEST = r"\{table: *(?P<jobs>[\w, -]+?) *\|(?P<where>[^|]*)\|(?P<columns>[^|]*)\}"
LINE = re.compile(rf"^{REQUEST}$", re.MULTILINE)
SHOWN = re.compile(rf"^<!-- {REQUEST} -->\n(?P<table>.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
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


def conditions(text: str) -> list[dict[str, list[str]]]:
    """The conditions of a request: alternatives of columns with the values that they may have."""
    found = []
    for alternative in text.split(";"):
        pairs = [item.strip().split("=", 1) for item in alternative.split(",") if item.strip()]
        found.append({name: value.split("/") for name, value in pairs})
    return found


def table(request: re.Match[str]) -> str:
    """The rows and columns that a line asks for, as Markdown."""
    wanted = conditions(request["where"])
    columns = [name.strip() for name in request["columns"].split(",")]
    needed = {*columns, *(name for one in wanted for name in one)}
    shown: list[list[str]] = []
    sources: dict[str, list[str]] = {}
    for job in (name.strip() for name in request["jobs"].split(",")):
        records = sorted(RECORDED.glob(f"????-??-??-{job}.md"))
        if not records:
            raise ValueError(f"there is no record of the job {job!r}")
        text = records[-1].read_text(encoding="utf-8")
        rows = [row for header, rows in tables(text) if needed <= set(header) for row in rows]
        rows = [row for row in rows if any(all(row[name] in of for name, of in one.items()) for one in wanted)]
        if not rows:
            raise ValueError(f"{records[-1].name} has no rows {request['where'].strip()!r} with {columns}")
        shown += [[row[name] for name in columns] for row in rows]
        where = ", ".join(filter(None, (fact(text, name) for name in ("Machine", "GPU", "Date"))))
        sources.setdefault(where, []).append(f"`benchmarks/recorded/{records[-1].name}`")
    lines = [columns, ["--:"] * len(columns), *shown]
    source = "; ".join(f"{where}; from {' and '.join(files)}" for where, files in sources.items())
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n*{source}.*"


def differences(text: str) -> list[tuple[tuple[int, int], str]]:
    """Where a file that is shown as it is has other tables than the records: places, and what belongs there."""
    found = []
    for match in SHOWN.finditer(text):
        wanted = f"\n{table(match)}\n\n"
        if match["table"] != wanted:
            found.append((match.span("table"), wanted))
    return found


def on_page_markdown(markdown: str, **_: object) -> str:
    """Called by mkdocs for each page."""
    return LINE.sub(table, markdown)
