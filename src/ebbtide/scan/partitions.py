"""Where do the values of partition columns come from while Spark reads files?

Always from the log. When the directories agree with the log for every file, Spark may take them from there: that costs
nothing and lets Spark prune partitions by later filters. Otherwise a small table of values, one row per
file, is joined on the file's identity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from ebbtide.protocol.partition_values import partition_directory, to_arrow
from ebbtide.protocol.schema import PrimitiveType, StructField
from ebbtide.scan.files import ScanFile

__all__ = ["directories_tell_values", "value_table"]

# Spellings that Spark reads from a directory name exactly as the log means them. Other types go through the join.
_SAFE_SPELLINGS: Mapping[str, re.Pattern[str]] = {
    "string": re.compile(r"(?!__HIVE_DEFAULT_PARTITION__$).+", re.DOTALL),
    "integer": re.compile(r"-?(0|[1-9][0-9]{0,8})"),
    "long": re.compile(r"-?(0|[1-9][0-9]{0,17})"),
    "short": re.compile(r"-?(0|[1-9][0-9]{0,3})"),
    "byte": re.compile(r"-?(0|[1-9][0-9]?)"),
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
}


def directories_tell_values(files: Sequence[ScanFile], fields: Sequence[tuple[str, StructField]]) -> bool:
    """Whether every file lies in the directory that its values in the log imply."""
    patterns = [_spelling(field) for _, field in fields]
    if None in patterns:
        return False
    seen: dict[tuple[str | None, ...], str | None] = {}
    for file in files:
        if file.relative_path is None:
            return False
        values = tuple(file.add.partition_values.get(name) for name, _ in fields)
        if values not in seen:
            seen[values] = _expected_directory(values, fields, patterns)
        if file.relative_path.rpartition("/")[0] != seen[values]:
            return False
    return True


def value_table(files: Sequence[ScanFile], fields: Sequence[tuple[str, StructField]], time_zone: str) -> pa.Table:
    """The typed values of each file under the physical column names, one row per file."""
    columns = {}
    for name, field in fields:
        texts = pa.array([file.add.partition_values.get(name) for file in files], pa.string())
        columns[name] = to_arrow(texts, field.type, column=field.name, time_zone=time_zone)
    return pa.table(columns)


def _spelling(field: StructField) -> re.Pattern[str] | None:
    return _SAFE_SPELLINGS.get(field.type.name) if isinstance(field.type, PrimitiveType) else None


def _expected_directory(
    values: tuple[str | None, ...],
    fields: Sequence[tuple[str, StructField]],
    patterns: Sequence[re.Pattern[str] | None],
) -> str | None:
    for value, pattern in zip(values, patterns, strict=True):
        if value and pattern is not None and not pattern.fullmatch(value):
            return None
    return partition_directory([(name, value or None) for (name, _), value in zip(fields, values, strict=True)])
