#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table in README.md and the tests name the same vectors, each once, and every row has its verdict."""

import collections
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).parent
COLUMNS = 5
VERDICT = re.compile(r"(kept|fixed)(,.*)?")


def rows(text):
    """The id and the other columns of each row of the table."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and re.fullmatch(r"[A-Z][0-9]+", cells[0]):
            yield cells[0], cells[1:]


def tests(text):
    return re.findall(r"^TEST\((\w+)\)", text, re.MULTILINE)


def complaints(table, sources):
    listed = list(rows(table))
    ids = collections.Counter(name.lower() for name, _ in listed)
    names = collections.Counter(name for source in sources for name in tests(source))
    for name in sorted(ids | names):
        if ids[name] != 1:
            yield f"{name}: {ids[name]} rows in the table"
        if names[name] != 1:
            yield f"{name}: {names[name]} tests"
    for name, cells in listed:
        if len(cells) != COLUMNS - 1:
            yield f"{name}: {len(cells) + 1} columns, not {COLUMNS}"
        elif not VERDICT.fullmatch(cells[1]):
            yield f"{name}: '{cells[1]}' is neither kept nor fixed"
        elif cells[1].startswith("fixed") and not cells[3]:
            yield f"{name}: fixed, but not said why"
    if not listed:
        yield "README.md: no vectors in the table"


def main():
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("test_*.c"))]
    found = list(complaints(table, sources))
    for complaint in found:
        print(complaint)
    print(f"{len(list(rows(table)))} vectors, {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
