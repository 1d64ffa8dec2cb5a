"""Does FSCK ever raise a false alarm about honest statistics, and does it see those that are too narrow?

Random columns are written by pyarrow. Their statistics are taken from the values, in the dialects of several writers; then one
bound is moved beyond a value, by more than any dialect loses.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.commands.fsck.footer import footer_bytes, parse_footer
from ebbtide.commands.fsck.statistics_checks import StatisticsColumn, check_statistics
from ebbtide.protocol.schema import PrimitiveType

EPOCH = dt.datetime(1970, 1, 1)
ALPHABET = "abz\x7fé\ufffd\U0001f600\U0010ffff"
TYPES = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "decimal(9,2)": pa.decimal128(9, 2), "decimal(38,18)": pa.decimal128(38, 18),
    "string": pa.string(), "boolean": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
DECIMALS = {"decimal(9,2)": (9, 2), "decimal(38,18)": (38, 18)}


def single(number):
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def values(kind):
    if kind in DECIMALS:
        digits, scale = DECIMALS[kind]
        unscaled = st.integers(-(10**digits) + 1, 10**digits - 1) | st.integers(-300, 300)
        return unscaled.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)))
    match kind:
        case "byte" | "short" | "integer" | "long":
            bits = {"byte": 7, "short": 15, "integer": 31, "long": 63}[kind]
            return st.integers(-(2**bits), 2**bits - 1) | st.integers(-3, 3)
        case "float":
            return st.floats(width=32, allow_nan=True) | st.sampled_from([0.1, -0.0, 16777217.0]).map(single)
        case "double":
            return st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, 0.1])
        case "string":
            return st.text(ALPHABET, max_size=4) | st.builds(
                lambda stem, tail: stem * 32 + tail, st.sampled_from(ALPHABET), st.text(ALPHABET, max_size=3)
            )
        case "boolean":
            return st.booleans()
        case "date":
            return st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
        case _:
            moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2262, 1, 1))
            return moments.map(lambda at: at.replace(tzinfo=dt.timezone.utc)) if kind == "timestamp" else moments


@st.composite
def files(draw):
    """A kind, the rows of a file with at least one value, and its footer."""
    kind = draw(st.sampled_from(sorted(TYPES)))
    rows = draw(
        st.lists(st.none() | values(kind), min_size=1, max_size=6).filter(
            lambda rows: any(row is not None for row in rows)
        )
    )
    file = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array(rows, TYPES[kind])}), file, row_group_size=draw(st.sampled_from([1, 2, 10])))
    data = file.getvalue()
    return kind, rows, parse_footer(data[-footer_bytes(data, len(data)) :])


def timestamp_text(at, *, towards_zero):
    micros = (at.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
    millis = micros // 1000 if not towards_zero or micros >= 0 else -(-micros // 1000)
    text = (EPOCH + dt.timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")
    return text if at.tzinfo is None else f"{text}Z"


def spelled(value, kind, *, is_maximum, dialect):
    """The JSON of an honest bound; None where the dialect has none."""
    if kind in {"timestamp", "timestamp_ntz"}:
        return timestamp_text(value, towards_zero=dialect == "cut")
    if kind == "date":
        return value.isoformat()
    if kind in DECIMALS:
        return float(value) if dialect == "cut" else f"<{value:f}>"
    if kind == "float" and dialect == "cut":
        # As few digits as a float needs.
        return next(
            (short for digits in range(1, 10) if struct.pack("<f", short := float(f"{value:.{digits}g}")) == struct.pack("<f", value)),
            value,
        ) if abs(value) < 1e38 else value  # fmt: skip
    if kind == "string" and len(value) > 32:
        if not is_maximum:
            return value[:32]
        return value[:32] + "\U0010ffff" if dialect == "exact" and value[32] != "\U0010ffff" else value
    return value


def json_text(stats):
    text = json.dumps(stats, ensure_ascii=False).replace('"<', "").replace('>"', "")
    return text.replace("-Infinity", '"-Infinity"').replace(": Infinity", ': "Infinity"')


def honest(rows, kind, dialect):
    known = [row for row in rows if row is not None]
    stats = {"numRecords": len(rows), "nullCount": {"c": len(rows) - len(known)}}
    if not any(row != row for row in known):
        stats["minValues"] = {"c": spelled(min(known), kind, is_maximum=False, dialect=dialect)}
        stats["maxValues"] = {"c": spelled(max(known), kind, is_maximum=True, dialect=dialect)}
    return stats


def check(stats, footer, kind):
    return check_statistics(
        json_text(stats), footer, [StatisticsColumn("c", ("c",), PrimitiveType(kind), None)], has_deleted_rows=False
    )


@given(files(), st.sampled_from(["exact", "cut"]))
@settings(max_examples=150, deadline=None)
def test_honest_statistics_are_never_blamed(file, dialect):
    kind, rows, footer = file
    assert check(honest(rows, kind, dialect), footer, kind) is None


def moved(value, kind, direction):
    """A bound that is certainly beyond the value; None where there is none."""
    if kind == "boolean":
        return (not value) if value == (direction < 0) else None
    if kind == "string":
        return None if len(value) > 8 or not value else value + "a" if direction > 0 else ""
    if kind == "date":
        later = value + dt.timedelta(days=direction) if dt.date(1600, 1, 1) < value < dt.date(9000, 1, 1) else None
        return later and later.isoformat()
    if kind in {"timestamp", "timestamp_ntz"}:
        if value.replace(tzinfo=None) < dt.datetime(1901, 1, 1):
            return None
        return timestamp_text(value + direction * dt.timedelta(milliseconds=5), towards_zero=False)
    if kind in {"float", "double"}:
        return value + direction * (abs(value) / 1000 + 1) if abs(value) < 1e30 else None
    if kind in DECIMALS:
        return f"<{value + direction * (abs(value) / 1000 + 1):f}>"
    return value + direction


@given(files(), st.sampled_from(["minValues", "maxValues"]))
@settings(max_examples=150, deadline=None)
def test_bound_that_is_moved_beyond_a_value_is_found_and_put_right(file, bound):
    kind, rows, footer = file
    stats = honest(rows, kind, "exact")
    known = [row for row in rows if row is not None]
    if bound not in stats:
        return
    new = moved(min(known), kind, 1) if bound == "minValues" else moved(max(known), kind, -1)
    if new is None:
        return
    stats[bound] = {"c": new}
    verdict = check(stats, footer, kind)
    assert verdict is not None
    assert verdict.wrong_columns == ("c",)
    column = StatisticsColumn("c", ("c",), PrimitiveType(kind), None)
    assert check_statistics(verdict.corrected, footer, [column], has_deleted_rows=False) is None
    after = json.loads(verdict.corrected)
    assert after["numRecords"] == len(rows)
    assert ("c" in after["minValues"]) == ("c" in after["maxValues"])


@given(files(), st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_claims_about_nulls_are_compared_with_the_footer(file, claimed):
    kind, rows, footer = file
    nulls = sum(row is None for row in rows)
    verdict = check({"numRecords": len(rows), "nullCount": {"c": claimed}}, footer, kind)
    is_harmful = (claimed == 0 and nulls > 0) or (claimed == len(rows) and nulls < len(rows))
    assert (verdict is not None) == is_harmful
    if verdict is not None:
        assert json.loads(verdict.corrected)["nullCount"] == {"c": nulls}
