"""What do VACUUM, FSCK, RESTORE, CLONE, CONVERT and GENERATE say?"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.commands.clone.command import CloneHow, refuse_deep_clone
from ebbtide.errors import InvalidSyntaxError, RequestError
from ebbtide.sql.maintenance_statements import (
    Clone,
    Convert,
    Fsck,
    Generate,
    MaintenanceStatement,
    Restore,
    Vacuum,
)
from ebbtide.sql.parse_layout import parse_optimize, parse_reorg
from ebbtide.sql.reader import SYNTAX, StatementReader
from ebbtide.sql_text import TimeTravel, time_travel_at

__all__ = ["parse_clone", "parse_maintenance"]


def parse_maintenance(reader: StatementReader) -> MaintenanceStatement | None:
    """The statement, or None when it is none of these."""
    if reader.accept("optimize"):
        return parse_optimize(reader)
    if reader.accept("reorg", "table"):
        return parse_reorg(reader)
    if reader.accept("vacuum"):
        return _vacuum(reader)
    if reader.accept("fsck"):
        return _fsck(reader)
    if reader.accept("restore"):
        return _restore(reader)
    if reader.accept("convert", "to", "delta"):
        return _convert(reader)
    if reader.accept("generate"):
        mode = reader.name("symlink_format_manifest")
        reader.expect("for", "table")
        return reader.end(Generate(reader.table(), mode))
    if reader.accept("replace", "table"):
        clone = parse_clone(reader, reader.table(), "replace")
        if clone is None:
            raise reader.syntax_error("SHALLOW CLONE")
        return clone
    return None


def _restore(reader: StatementReader) -> Restore:
    reader.accept("table")
    path = reader.table()
    reader.accept("to")
    travel = _time_travel(reader)
    if travel is None:
        raise reader.syntax_error("TO VERSION AS OF a number, or TO TIMESTAMP AS OF a time")
    return reader.end(Restore(path, travel.version, travel.timestamp))


def _convert(reader: StatementReader) -> Convert:
    identifier = reader.dotted_name("a folder written as parquet.`/path/to/folder`")
    collects_statistics = not reader.accept("no", "statistics")
    columns = reader.in_parentheses("columns with their types") if reader.accept("partitioned", "by") else None
    return reader.end(Convert(identifier, columns, collects_statistics))


def parse_clone(reader: StatementReader, path: str, how: CloneHow) -> Clone | None:
    """What follows CREATE TABLE and the table's path; None when it is no clone."""
    is_shallow = reader.accept("shallow")
    if not is_shallow:
        reader.accept("deep")
    if not reader.accept("clone"):
        return None
    refuse_deep_clone(is_shallow)
    source = reader.table()
    travel = _time_travel(reader)
    version, timestamp = (None, None) if travel is None else (travel.version, travel.timestamp)
    properties = reader.properties() if reader.accept("tblproperties") else {}
    if reader.comes("location"):
        raise InvalidSyntaxError("The path of a clone is its location; leave LOCATION out.", error_class=SYNTAX)
    return reader.end(Clone(path, source, how, version, timestamp, properties))


def _time_travel(reader: StatementReader) -> TimeTravel | None:
    travel = time_travel_at(reader.source, reader.tokens, reader.brackets, reader.at)
    if travel is not None:
        reader.at = travel.end
    return travel


def _vacuum(reader: StatementReader) -> Vacuum:
    """The clauses may come in any order, each once."""
    statement = Vacuum(reader.table_or_path())
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
            raise reader.syntax_error("LITE, FULL, RETAIN n HOURS, DRY RUN or the end of the statement")
        if clause in seen:
            raise InvalidSyntaxError(f"{clause} is given twice.", error_class="DUPLICATE_CLAUSES")
        seen.add(clause)
    return statement


def _hours(reader: StatementReader) -> float:
    sign = -1 if reader.accept_sign("-") else 1
    token = reader.take("a number of hours after RETAIN")
    if token.kind != "number" or not token.text.replace(".", "", 1).isdecimal():
        reader.at -= 1
        raise reader.syntax_error("a number of hours after RETAIN")
    reader.expect("hours")
    return sign * float(token.text)


def _fsck(reader: StatementReader) -> Fsck:
    reader.expect("repair", "table")
    return reader.end(Fsck(reader.table(), dry_run=reader.accept("dry", "run")))
