"""What do the statements of maintenance say?"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.errors import InvalidSyntaxError, RequestError
from ebbtide.sql.maintenance_statements import Fsck, MaintenanceStatement, Vacuum
from ebbtide.sql.reader import StatementReader

__all__ = ["parse_maintenance"]


def parse_maintenance(reader: StatementReader) -> MaintenanceStatement | None:
    """The statement, or None when it is none of these."""
    if reader.accept("vacuum"):
        return _vacuum(reader)
    if reader.accept("fsck"):
        return _fsck(reader)
    return None


def _vacuum(reader: StatementReader) -> Vacuum:
    """The clauses may come in any order, each once."""
    token = reader.peek()
    path = reader.string("a table") if token is not None and token.kind == "string" else reader.table()
    statement = Vacuum(path)
    seen: set[str] = set()
    while not reader.is_done():
        if reader.comes("lite") or reader.comes("full"):
            is_lite = reader.accept("lite") or not reader.accept("full")
            clause, statement = "LITE/FULL", replace(statement, lite=is_lite)
        elif reader.accept("retain"):
            clause, statement = "RETAIN", replace(statement, retain_hours=_hours(reader))
        elif reader.accept("dry", "run"):
            clause, statement = "DRY RUN", replace(statement, dry_run=True)
        elif reader.comes("using", "inventory"):
            raise RequestError(
                "VACUUM ... USING INVENTORY is not supported: Ebbtide lists the table itself. Leave the clause out.",
                error_class="UNSUPPORTED_FEATURE",
            )
        else:
            raise reader.unexpected("LITE, FULL, RETAIN n HOURS, DRY RUN or the end of the statement")
        if clause in seen:
            raise InvalidSyntaxError(f"{clause} is given twice.", error_class="DUPLICATE_CLAUSES")
        seen.add(clause)
    return statement


def _hours(reader: StatementReader) -> float:
    sign = -1 if reader.accept_sign("-") else 1
    token = reader.take("a number of hours after RETAIN")
    if token.kind != "number" or not token.text.replace(".", "", 1).isdecimal():
        reader.at -= 1
        raise reader.unexpected("a number of hours after RETAIN")
    reader.expect("hours")
    return sign * float(token.text)


def _fsck(reader: StatementReader) -> Fsck:
    reader.expect("repair", "table")
    return reader.end(Fsck(reader.table(), dry_run=reader.accept("dry", "run")))
