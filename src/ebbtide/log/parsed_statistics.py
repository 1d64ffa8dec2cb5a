"""How do the typed statistics of a checkpoint become the JSON text that the engine reads?

A checkpoint may keep file statistics as a struct (`stats_parsed`) instead of JSON (`stats`). `statistics_as_json`
rebuilds the text with Delta's conventions, column by column in Arrow, not row by row:

    date        "2024-02-29"
    timestamp   "2024-02-29T12:00:00.123456Z" (without the Z where the column has no time zone)
    decimal     12.50 (a number, every digit kept)
    NaN, inf    left out, like null: an absent bound is unknown and never prunes a file wrongly

Binary, list and map columns have no bounds and are left out too.
"""

from __future__ import annotations

import orjson
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["statistics_as_json"]

# Arrow prints dates beyond its calendar as a note in angle brackets.
_OUT_OF_RANGE = "<"


def statistics_as_json(parsed: pa.StructArray) -> pa.StringArray:
    """One JSON object per row; null where the struct is null."""
    text = _struct(parsed)
    assert text is not None, "a struct always has a JSON form"
    return text


def _json(values: pa.Array) -> pa.StringArray | None:
    """The JSON text of each value, null for "leave it out"; None when the type has no statistics."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _json(values.cast(kind.value_type))
    if pa.types.is_struct(kind):
        return _struct(values)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind)).cast(pa.string())
    if pa.types.is_date(kind):
        return _quote(_drop_out_of_range(values.cast(pa.string())))
    if pa.types.is_timestamp(kind):
        return _timestamp(values)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _quote(_escape(values.cast(pa.string())))
    return None


def _struct(values: pa.StructArray) -> pa.StringArray:
    # A member carries its own comma; joining with nulls skipped would be shorter, but Arrow then drops rows that are
    # null in every member (seen in pyarrow 26).
    members = [pa.array([""] * len(values), pa.string())]
    for field, child in zip(values.type, values.flatten(), strict=True):
        text = _json(child)
        if text is not None:
            name = orjson.dumps(field.name).decode()
            members.append(pc.fill_null(pc.binary_join_element_wise(f",{name}:", text, ""), ""))
    body = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, ""), 1)
    text = pc.binary_join_element_wise("{", body, "}", "")
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))


def _timestamp(values: pa.TimestampArray) -> pa.StringArray:
    zone = None if values.type.tz is None else "UTC"
    # A finer unit is cut to microseconds, which is what Spark's timestamps hold.
    text = values.cast(pa.timestamp("us", zone), safe=False).cast(pa.string())
    return _quote(pc.replace_substring(_drop_out_of_range(text), " ", "T", max_replacements=1))


def _drop_out_of_range(text: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.starts_with(text, _OUT_OF_RANGE), pa.scalar(None, pa.string()), text)


def _quote(text: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise('"', text, '"', "")


def _escape(text: pa.StringArray) -> pa.StringArray:
    if not pc.any(pc.match_substring_regex(text, r'["\\\x00-\x1f]')).as_py():
        return text
    escaped = [None if value is None else orjson.dumps(value).decode()[1:-1] for value in text.to_pylist()]
    return pa.array(escaped, pa.string())
