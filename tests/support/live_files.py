"""How does a test say "a table with these columns and these files" to the pruning room, in one line each?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ebbtide.protocol.schema import PrimitiveType, StructField, StructType
from ebbtide.pruning import prune

__all__ = ["columns", "kept", "live_files", "stats"]


def columns(**types: str | StructType) -> StructType:
    """`columns(id="long", p="date")`."""
    return StructType(
        tuple(StructField(name, PrimitiveType(kind) if isinstance(kind, str) else kind) for name, kind in types.items())
    )


def stats(
    low: Mapping[str, Any] | None = None,
    high: Mapping[str, Any] | None = None,
    nulls: Mapping[str, Any] | None = None,
    rows: int | None = 10,
    **more: Any,
) -> str:
    """The JSON of one file; what is None is left out."""
    fields = {"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": nulls, **more}
    return json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)


def live_files(
    statistics: Sequence[str | None], partitions: Sequence[Mapping[str, str | None]] | None = None
) -> pa.Table:
    """Files named "0", "1", ... as the log would list them, as far as pruning looks at them."""
    values = partitions if partitions is not None else [{}] * len(statistics)
    return pa.table(
        {
            "path": pa.array([str(number) for number in range(len(statistics))], pa.string()),
            "partition_values": pa.array([list(item.items()) for item in values], pa.map_(pa.string(), pa.string())),
            "stats": pa.array(statistics, pa.string()),
        }
    )


def kept(files: pa.Table, condition: str | None, schema: StructType, **options: Any) -> list[int]:
    """The numbers of the files that pruning keeps."""
    return [int(path) for path in prune(files, condition, schema=schema, **options)["path"].to_pylist()]
