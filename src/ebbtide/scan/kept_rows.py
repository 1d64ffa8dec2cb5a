"""Which rows of a file does a scan show?

All of them, all but some (a deletion vector), or only some (rows that a command has already found). One
value says which.
"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.deletion_vectors import RowIndexSet

__all__ = ["ALL_ROWS", "AllRows", "KeptRows", "OnlyRows", "WithoutRows", "without_rows"]


@dataclass(frozen=True, slots=True)
class AllRows:
    """No row is hidden, so the scan needs no row index."""


@dataclass(frozen=True, slots=True, eq=False)
class WithoutRows:
    """Every row but these."""

    rows: RowIndexSet


@dataclass(frozen=True, slots=True, eq=False)
class OnlyRows:
    """These rows and no others."""

    rows: RowIndexSet


KeptRows = AllRows | WithoutRows | OnlyRows

ALL_ROWS = AllRows()


def without_rows(rows: RowIndexSet | None) -> AllRows | WithoutRows:
    """All rows but these; hiding none is showing all."""
    return WithoutRows(rows) if rows else ALL_ROWS
