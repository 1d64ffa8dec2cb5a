"""Which files hold columns that the table does not have any more?

With column mapping a column is dropped in the log alone: its values stay in the files. Only the footers know. Columns
that are in files for other reasons are not meant: row ids, the partition columns, and the empty change type of files
that were written together with change data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.change_columns import CHANGE_TYPE
from ebbtide.protocol.schema import ArrayType, DataType, MapType, StructType, physical_schema
from ebbtide.write import footer_of

__all__ = ["files_with_dropped_columns", "has_unknown_fields"]

_FOOTER_THREADS = 16


def files_with_dropped_columns(
    snapshot: Snapshot, adds: Sequence[AddFile], *, storage_options: Mapping[str, str] | None = None
) -> list[AddFile]:
    """Those of the files that hold a dropped column, or a dropped field of a struct. Reads the footer of each."""
    mode = snapshot.properties.column_mapping_mode
    if mode == "none":
        # Without column mapping, columns cannot be dropped.
        return []
    schema = physical_schema(snapshot.schema, mode)
    properties = snapshot.properties
    hidden = {properties.materialized_row_id_column, properties.materialized_row_commit_version_column, CHANGE_TYPE}

    def holds_more(add: AddFile) -> bool:
        footer = footer_of(snapshot, add, storage_options=storage_options)
        columns = (field for field in footer.schema.to_arrow_schema() if field.name not in hidden)
        return has_unknown_fields(columns, schema)

    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        found = pool.map(holds_more, adds)
        return [add for add, is_found in zip(adds, found, strict=True) if is_found]


def has_unknown_fields(fields: Iterable[pa.Field], schema: StructType) -> bool:
    """Whether a file's columns, or the fields of its structs, are more than those of the schema."""
    known = {field.name.lower(): field.type for field in schema.fields}
    return any(
        field.name.lower() not in known or _holds_unknown(field.type, known[field.name.lower()]) for field in fields
    )


def _holds_unknown(found: pa.DataType, wanted: DataType) -> bool:
    match wanted:
        case StructType() if pa.types.is_struct(found):
            return has_unknown_fields(list(found), wanted)
        case ArrayType() if pa.types.is_list(found):
            return _holds_unknown(found.value_type, wanted.element_type)
        case MapType() if pa.types.is_map(found):
            return _holds_unknown(found.key_type, wanted.key_type) or _holds_unknown(found.item_type, wanted.value_type)
    return False
