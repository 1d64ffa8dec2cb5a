"""Which partition does a file that Spark wrote belong to?

Spark separates rows into directories by one helper column, and we read a file's partition values back from the name of
its directory. Spark's own directory names would not do: they lose the difference between types and between spellings,
and names that are not ASCII depend on the machine's locale. So each row gets a label of lower-case hex:

    d.v31.n             a data row whose first partition value has the text "1" and whose second is NULL
    c.v6465             a change row of the partition "de"
    d.h<sha256>         a label too long for a file name; the full one is reported by Spark beside the row count

One label is one directory, so the layout never depends on the values, and no value can come back changed. An empty
string is NULL: the log has one text for both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from pyspark.sql import Column
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.errors import CorruptTableError, InternalError, RequestError
from ebbtide.protocol.partition_values import (
    arrow_type,
    parse_partition_value,
    serialize_partition_value,
)
from ebbtide.protocol.schema import PrimitiveType, StructField

__all__ = [
    "Label",
    "hashed_labels",
    "is_change_label",
    "is_long_label",
    "label_column",
    "parse_label",
    "shortened_label",
]

# File systems allow names of up to 255 bytes. Spark adds the column's name, and escapes nothing in a label.
_MAX_LABEL_LENGTH = 180
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CHANGE = "c"
_DATA = "d"
# Types whose text in the log is what Spark's cast to string gives, whatever the value.
_TEXT_IS_LOG_TEXT = frozenset({"string", "byte", "short", "integer", "long", "boolean", "date"})


@dataclass(frozen=True, slots=True)
class Label:
    """What a directory name says: change rows or data rows, and the texts for the log, by partition column."""

    is_change: bool
    texts: tuple[str | None, ...]


def label_column(fields: Sequence[StructField], change_type: Column | None) -> Column:
    """The full label of a row of a frame that has the logical columns."""
    kind = F.lit(_DATA) if change_type is None else F.when(change_type.isNull(), _DATA).otherwise(_CHANGE)
    return F.concat_ws(".", kind, *(_part(field) for field in fields))


def is_change_label(label: Column) -> Column:
    return F.substring(label, 1, 1) == _CHANGE


def is_long_label(label: Column) -> Column:
    """Whether the label does not fit into a directory name."""
    return F.length(label) > _MAX_LABEL_LENGTH


def shortened_label(label: Column) -> Column:
    """The label as a directory name."""
    hashed = F.concat(F.substring(label, 1, 1), F.lit(".h"), F.sha2(label.cast("binary"), 256))
    return F.when(is_long_label(label), hashed).otherwise(label)


def hashed_labels(long_labels: Iterable[str]) -> Mapping[str, str]:
    """Maps the hashed directory name of each label that was too long to that label."""
    return {f"{label[0]}.h{hashlib.sha256(label.encode()).hexdigest()}": label for label in long_labels}


def parse_label(name: str, fields: Sequence[StructField], hashed: Mapping[str, str]) -> Label:
    """The meaning of a directory name that `shortened_label` gave; `hashed` comes from `hashed_labels`."""
    full = hashed.get(name, name)
    kind, *parts = full.split(".")
    if kind not in {_DATA, _CHANGE} or len(parts) != len(fields) or not all(part[:1] in {"v", "n"} for part in parts):
        raise InternalError(
            f"Spark wrote into a directory with the label '{name[:300]}', which stands for no partition."
        )
    texts = tuple(_log_text(part, field) for part, field in zip(parts, fields, strict=True))
    return Label(kind == _CHANGE, texts)


def _part(field: StructField) -> Column:
    arrow_type(field.type, column=field.name)
    column = border.column(field.name)
    name = field.type.name if isinstance(field.type, PrimitiveType) else ""
    if name == "binary":
        raw = column
    elif name == "timestamp":
        # A cast to string gives local time in the session's zone, where two moments can look alike.
        raw = F.unix_micros(column).cast("string").cast("binary")
    else:
        raw = column.cast("string").cast("binary")
    digits = F.lower(F.hex(raw))
    return F.when(F.length(digits) > 0, F.concat(F.lit("v"), digits)).otherwise(F.lit("n"))


def _log_text(part: str, field: StructField) -> str | None:
    if part == "n":
        return None
    raw = bytes.fromhex(part[1:])
    name = field.type.name if isinstance(field.type, PrimitiveType) else ""
    if name == "binary":
        return serialize_partition_value(raw, field.type, column=field.name)
    try:
        text = raw.decode()
        if name in _TEXT_IS_LOG_TEXT:
            return text
        if name == "timestamp":
            value = _EPOCH + timedelta(microseconds=int(text))
        else:
            value = parse_partition_value(text, field.type, column=field.name)
    except (CorruptTableError, ValueError, OverflowError) as error:
        raise RequestError(
            f"A value of the partition column '{field.name}' cannot be written to the log: it is not UTF-8, or a time "
            "outside the years 1 to 9999. Correct the rows that hold it."
        ) from error
    return serialize_partition_value(value, field.type, column=field.name)
