"""Which columns of a table have statistics, and of which types are these?

A table keeps statistics of its first leaf columns, or of the columns it names; partition columns never have any.
`indexed_columns` chooses them and `statistics_type` is the Arrow type of the statistics of one file, with the
physical names that the log uses. See "Per-file Statistics" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import pyarrow as pa

from ebbtide.protocol.actions import Metadata, Protocol
from ebbtide.protocol.features import column_mapping_mode
from ebbtide.protocol.partition_values import arrow_type
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import (
    DataType,
    PrimitiveType,
    StructField,
    leaf_columns,
    parse_schema,
    physical_schema,
)

__all__ = ["indexed_columns", "statistics_type"]

# A leaf column as the chain of fields from the root to it.
_Chain: TypeAlias = tuple[StructField, ...]
# Types without an order that statistics could use.
_UNBOUNDED: Final = frozenset({"boolean", "binary", "variant", "void"})


def indexed_columns(metadata: Metadata, protocol: Protocol) -> list[_Chain]:
    """The leaf columns that have statistics, in schema order, under their physical names."""
    schema = parse_schema(metadata.schema_string)
    properties = TableProperties.parse(metadata.configuration)
    partitions = {name.lower() for name in metadata.partition_columns}
    physical = physical_schema(schema, column_mapping_mode(protocol, metadata))
    chains = [
        (logical, renamed)
        for logical, renamed in zip(leaf_columns(schema), leaf_columns(physical), strict=True)
        if logical[0].name.lower() not in partitions
    ]
    named = properties.data_skipping_stats_columns
    if named is not None:
        wanted = {tuple(part.lower() for part in column) for column in named}
        return [renamed for logical, renamed in chains if _is_wanted(logical, wanted)]
    count = properties.data_skipping_num_indexed_cols
    return [renamed for _, renamed in (chains if count < 0 else chains[:count])]


def statistics_type(metadata: Metadata, protocol: Protocol) -> pa.StructType:
    """The type of `stats_parsed`: counts, bounds by column, and whether the bounds are tight."""
    chains = indexed_columns(metadata, protocol)
    bounds = _nest((chain, _bound_type(chain[-1].type)) for chain in chains)
    counts = _nest((chain, pa.int64()) for chain in chains)
    members = {"numRecords": pa.int64(), "minValues": bounds, "maxValues": bounds, "nullCount": counts}
    # Always present, even where the table cannot have deletion vectors (any more): under wide bounds a null count
    # means something else, and a reader of the struct alone must not take it as exact.
    members["tightBounds"] = pa.bool_()
    return pa.struct([(name, member) for name, member in members.items() if member is not None])


def _is_wanted(chain: _Chain, wanted: set[tuple[str, ...]]) -> bool:
    path = tuple(field.name.lower() for field in chain)
    return any(path[:length] in wanted for length in range(1, len(path) + 1))


def _bound_type(data_type: DataType) -> pa.DataType | None:
    if not isinstance(data_type, PrimitiveType) or data_type.name in _UNBOUNDED:
        return None
    return arrow_type(data_type, column="statistics")


def _nest(leaves: Iterable[tuple[_Chain, pa.DataType | None]]) -> pa.StructType | None:
    """A struct of structs with these leaves; None when there are none, since Parquet has no empty struct."""
    children: dict[str, list[tuple[_Chain, pa.DataType]]] = {}
    types: dict[str, pa.DataType] = {}
    for chain, leaf_type in leaves:
        if leaf_type is None:
            continue
        name = chain[0].name
        types[name] = leaf_type
        if len(chain) > 1:
            children.setdefault(name, []).append((chain[1:], leaf_type))
    nested = {name: _nest(members) for name, members in children.items()}
    fields = [(name, nested.get(name, leaf_type)) for name, leaf_type in types.items()]
    return pa.struct(fields) if fields else None
