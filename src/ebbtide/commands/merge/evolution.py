"""Which columns and nested fields does a MERGE add to the table, and how are values stored in the changed schema?

Only `*` and assigned columns can add something, under the source's own name. A struct of the source that
lacks fields of its column is assigned field by field, so that the other fields keep their values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import types as T

from ebbtide.commands.merge.request import DeleteClause, Expression, MergeRequest
from ebbtide.commands.merge.source import Source
from ebbtide.commands.row_level.assignments import Assignment, Target
from ebbtide.errors import UnknownColumnError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Metadata
from ebbtide.protocol.features import column_mapping_mode
from ebbtide.protocol.schema import DataType, StructField, StructType, parse_schema, split_column_path
from ebbtide.protocol.schema_evolution import evolved_metadata

__all__ = ["UNRESOLVED", "split_by_field", "evolve_metadata", "has_same_fields"]

# The reference's error class for a name in a merge that does not resolve.
UNRESOLVED = "DELTA_MERGE_UNRESOLVED_EXPRESSION"


def evolve_metadata(snapshot: Snapshot, request: MergeRequest, source: Source) -> Metadata:
    """The table's metadata with the columns and nested fields that the merge adds; the same if it adds none."""
    if not request.schema_evolution:
        return snapshot.metadata
    wanted: dict[str, StructField] = {}
    for clause in (*request.matched, *request.not_matched):
        if isinstance(clause, DeleteClause):
            continue
        paths = [(name,) for name in source.fields] if clause.values is None else _paths(clause.values, request, source)
        for path in paths:
            column = source.get(path[0])
            if column is not None:
                key = source.key(path[0])
                field = _narrow_to_path(_protocol_field(column), path)
                known = wanted.get(key)
                wanted[key] = field if known is None else _unite_fields(known, field)
    incoming = StructType(tuple(wanted[name] for name in source.fields if name in wanted))
    mode = column_mapping_mode(snapshot.protocol, snapshot.metadata)
    return evolved_metadata(snapshot.metadata, incoming, column_mapping_mode=mode)


def _paths(
    values: Sequence[tuple[str, Expression]], request: MergeRequest, source: Source
) -> Iterator[tuple[str, ...]]:
    alias = request.target_alias
    for name, _ in values:
        parts = split_column_path(name)
        has_alias = alias is not None and source.key(parts[0]) == source.key(alias)
        yield parts[1:] if has_alias and len(parts) > 1 else parts


def _protocol_field(column: T.StructField) -> StructField:
    return parse_schema(T.StructType([column]).json(), source="the schema of the source").fields[0]


def _narrow_to_path(field: StructField, path: Sequence[str]) -> StructField:
    """The field with only those nested fields that the path leads to."""
    if len(path) == 1 or not isinstance(field.type, StructType):
        return field
    inner = field.type.get(path[1])
    kept = () if inner is None else (_narrow_to_path(inner, path[1:]),)
    return StructField(field.name, StructType(kept), field.nullable, field.metadata)


def _unite_fields(one: StructField, other: StructField) -> StructField:
    if not (isinstance(one.type, StructType) and isinstance(other.type, StructType)):
        return one
    fields = {field.name.lower(): field for field in one.type.fields}
    for field in other.type.fields:
        known = fields.get(field.name.lower())
        fields[field.name.lower()] = field if known is None else _unite_fields(known, field)
    return StructField(one.name, StructType(tuple(fields.values())), one.nullable, one.metadata)


def split_by_field(assignment: Assignment) -> Iterator[Assignment]:
    """Assign a struct of the source that lacks fields of the column field by field, so that those are kept."""
    given, wanted = assignment.given, assignment.target.field.type
    if _covers(given, wanted) or not (isinstance(given, T.StructType) and isinstance(wanted, StructType)):
        yield assignment
        return
    for part in given.fields:
        field = wanted.get(part.name)
        if field is None:
            raise UnknownColumnError(
                f"'{assignment.target.dotted_name}' has no field '{part.name}'.", error_class=UNRESOLVED
            )
        target = Target((*assignment.target.path, field.name), field)
        yield from split_by_field(Assignment(target, assignment.value.getField(part.name), part.dataType))


def _covers(given: T.DataType, wanted: DataType) -> bool:
    if isinstance(given, T.StructType) and isinstance(wanted, StructType):
        parts = {part.name.lower(): part.dataType for part in given.fields}
        return all(
            field.name.lower() in parts and _covers(parts[field.name.lower()], field.type) for field in wanted.fields
        )
    return True


def has_same_fields(given: T.DataType, wanted: DataType) -> bool:
    if isinstance(given, T.StructType) and isinstance(wanted, StructType):
        parts = {part.name.lower(): part.dataType for part in given.fields}
        return set(parts) == {field.name.lower() for field in wanted.fields} and all(
            has_same_fields(parts[field.name.lower()], field.type) for field in wanted.fields
        )
    return True
