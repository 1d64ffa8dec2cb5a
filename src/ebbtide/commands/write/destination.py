"""What will the table be after the rows are written to it?

An existing table must agree with the request and have all columns of the rows, unless the request lets it gain some
(`merge_schema`) or replaces its definition (`overwrite_schema`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.commands.define.definition import (
    TableDefinition,
    check_column_names,
    define_table,
    refuse_nested_void,
    target_of,
)
from ebbtide.commands.write.request import WriteRequest
from ebbtide.errors import SchemaMismatchError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, Metadata, Protocol
from ebbtide.protocol.change_columns import refuse_change_columns
from ebbtide.protocol.features import upgrade_protocol_for
from ebbtide.protocol.identity_columns import advance_marks
from ebbtide.protocol.properties import FEATURE_PREFIX
from ebbtide.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructType
from ebbtide.protocol.schema_evolution import evolved_metadata
from ebbtide.protocol.variables import refuse_variables
from ebbtide.spark_border import is_case_sensitive
from ebbtide.transaction.table_changes import required_features
from ebbtide.write import UsedNumbers, WriteTarget

__all__ = ["Destination", "definition_of", "destination_of"]

_VOID = PrimitiveType("void")


@dataclass(frozen=True, slots=True)
class Destination:
    """The table as it will be after the commit, and the actions that make it so."""

    target: WriteTarget
    metadata: Metadata
    definition_actions: tuple[Action, ...] = ()

    def actions(self, used: UsedNumbers) -> tuple[Action, ...]:
        """What the commit says of the definition, once these numbers are in the rows."""
        metadata = advance_marks(self.metadata, used.marks)
        if metadata is self.metadata:
            return self.definition_actions
        return (*(action for action in self.definition_actions if not isinstance(action, Metadata)), metadata)


def definition_of(request: WriteRequest, incoming: StructType, description: str | None = None) -> TableDefinition:
    """The table that the request asks for, if it makes one or replaces its columns."""
    is_exact = is_case_sensitive(request.frame.sparkSession)
    return TableDefinition(incoming, request.partition_by, request.properties, description, is_exact)


def destination_of(snapshot: Snapshot, request: WriteRequest, incoming: StructType) -> Destination:
    """The table as rows with the `incoming` columns need it; refused where the request does not allow that."""
    if request.overwrite_schema:
        definition = definition_of(request, incoming, snapshot.metadata.description)
        protocol, metadata = define_table(definition, replaced=snapshot, keeps_properties=True)
        return _with_definition(snapshot, protocol, metadata)
    _check_agreement(snapshot, request)
    added = _new_names(snapshot.schema, incoming)
    if not added:
        return Destination(WriteTarget.of(snapshot), snapshot.metadata)
    if not request.merge_schema:
        raise SchemaMismatchError(
            f"The rows have columns that the table at {snapshot.store.url} does not have: {', '.join(added)}. It "
            f"has {', '.join(snapshot.schema.names) or 'no columns'}. Leave them out, or write with merge_schema=True "
            "to add them.",
            error_class="DELTA_METADATA_MISMATCH",
        )
    return _evolve_schema(snapshot, incoming)


def _with_definition(snapshot: Snapshot, protocol: Protocol, metadata: Metadata) -> Destination:
    actions: list[Action] = [] if protocol == snapshot.protocol else [protocol]
    if metadata != snapshot.metadata:
        actions.append(metadata)
    return Destination(target_of(snapshot.store, protocol, metadata, config=snapshot.config), metadata, tuple(actions))


def _evolve_schema(snapshot: Snapshot, incoming: StructType) -> Destination:
    """The table with the new columns of the rows. A column of type void is not added."""
    useful = StructType(
        tuple(field for field in incoming.fields if field.type != _VOID or snapshot.schema.get(field.name) is not None)
    )
    refuse_variables(useful)
    added = _new_names(snapshot.schema, useful)
    mode = snapshot.properties.column_mapping_mode
    if mode == "none":
        check_column_names(name.rpartition(".")[2] for name in added)
    if snapshot.properties.enable_change_data_feed:
        refuse_change_columns(added)
    refuse_nested_void(useful)
    metadata = evolved_metadata(snapshot.metadata, useful, column_mapping_mode=mode)
    missing = required_features(metadata) - required_features(snapshot.metadata)
    return _with_definition(snapshot, upgrade_protocol_for(snapshot.protocol, missing), metadata)


def _new_names(schema: StructType, incoming: StructType, prefix: str = "") -> list[str]:
    """The columns and nested fields of the rows that the table lacks, as dotted names."""
    found: list[str] = []
    for field in incoming.fields:
        known = schema.get(field.name)
        if known is None:
            found.append(f"{prefix}{field.name}")
        else:
            found += _new_names_inside(known.type, field.type, f"{prefix}{known.name}.")
    return found


def _new_names_inside(known: DataType, incoming: DataType, prefix: str) -> list[str]:
    match known, incoming:
        case StructType(), StructType():
            return _new_names(known, incoming, prefix)
        case ArrayType(), ArrayType():
            return _new_names_inside(known.element_type, incoming.element_type, f"{prefix}element.")
        case MapType(), MapType():
            return [
                *_new_names_inside(known.key_type, incoming.key_type, f"{prefix}key."),
                *_new_names_inside(known.value_type, incoming.value_type, f"{prefix}value."),
            ]
    return []


def _check_agreement(snapshot: Snapshot, request: WriteRequest) -> None:
    """Check that the table is already as the request says: a write does not repartition or reconfigure it."""
    partitioned = snapshot.metadata.partition_columns
    if request.partition_by and not _are_same(request, partitioned):
        raise SchemaMismatchError(
            f"partition_by={list(request.partition_by)} is not how the table at {snapshot.store.url} is partitioned: "
            f"{list(partitioned)}. Leave it out, or replace the table with mode='overwrite', overwrite_schema=True.",
            error_class="DELTA_PARTITIONING_MISMATCH",
        )
    for key, value in request.properties.items():
        if key.lower().startswith(FEATURE_PREFIX):
            continue
        now = snapshot.metadata.description if key == "comment" else snapshot.properties.raw(key)
        if now != value:
            raise SchemaMismatchError(
                f"The property {key} of the table at {snapshot.store.url} is {now!r}, not {value!r}. A write does not "
                "change it: use ALTER TABLE ... SET TBLPROPERTIES.",
                error_class="DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY",
            )


def _are_same(request: WriteRequest, partitioned: Sequence[str]) -> bool:
    if is_case_sensitive(request.frame.sparkSession):
        return list(request.partition_by) == list(partitioned)
    return [name.lower() for name in request.partition_by] == [name.lower() for name in partitioned]
