"""Which actions give a table another schema?

New columns must have names and types that the table can hold. A type that needs a feature brings it along where the
reference does, and otherwise the error names the statement that adds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ebbtide import spark_border as border
from ebbtide.commands.define.definition import check_column_names, refuse_nested_void
from ebbtide.errors import UnsupportedFeatureError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action
from ebbtide.protocol.change_columns import refuse_change_columns
from ebbtide.protocol.features import supported_features, upgrade_protocol_for
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import PrimitiveType, StructField, StructType, all_fields
from ebbtide.protocol.schema_edits import FieldPath, shown_path
from ebbtide.protocol.schema_evolution import with_schema
from ebbtide.protocol.variables import refuse_variables
from ebbtide.transaction.table_changes import required_features

__all__ = ["schema_actions", "shown_field", "with_stats_columns"]

_STATS_COLUMNS: Final = "delta.dataskippingstatscolumns"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# As in the reference, these come with the column that needs them.
_AUTOMATIC: Final = frozenset({"variantType", "checkConstraints"})


def schema_actions(
    snapshot: Snapshot,
    schema: StructType,
    *,
    added: Iterable[StructField] = (),
    partition_columns: tuple[str, ...] | None = None,
    configuration: Mapping[str, str] | None = None,
) -> list[Action]:
    """The actions that give the table the schema; `added` are the fields that are new in it, or newly named."""
    new = list(all_fields(StructType(tuple(added))))
    properties = snapshot.properties
    refuse_variables(StructType(tuple(added)))
    refuse_nested_void(schema)
    if properties.column_mapping_mode == "none":
        check_column_names(field.name for field in new)
    if properties.enable_change_data_feed and new:
        refuse_change_columns(schema.names)
    changed = snapshot.metadata if configuration is None else replace(snapshot.metadata, configuration=configuration)
    if partition_columns is not None:
        changed = replace(changed, partition_columns=partition_columns)
    metadata = with_schema(changed, schema)
    missing = required_features(metadata) - supported_features(snapshot.protocol) - required_features(snapshot.metadata)
    _refuse_manual(snapshot, missing - _AUTOMATIC)
    protocol = upgrade_protocol_for(snapshot.protocol, missing)
    return [metadata] if protocol == snapshot.protocol else [protocol, metadata]


def with_stats_columns(configuration: Mapping[str, str], old: FieldPath, new: FieldPath | None) -> Mapping[str, str]:
    """The properties after a column was renamed, or dropped: the list of those with statistics follows."""
    listed = TableProperties.parse(configuration).data_skipping_stats_columns
    if listed is None:
        return configuration
    lowered = tuple(part.lower() for part in old)
    renamed = []
    for path in listed:
        if tuple(part.lower() for part in path[: len(old)]) != lowered:
            renamed.append(path)
        elif new is not None:
            renamed.append((*new, *path[len(old) :]))
    text = ",".join(".".join(_quoted_part(part) for part in path) for path in renamed)
    return {key: text if key.lower() == _STATS_COLUMNS else value for key, value in configuration.items()}


def shown_field(field: StructField, path: FieldPath) -> dict[str, Any]:
    """The field as the history shows it: under its whole name, and without what is inside it."""
    kind = field.type.name if isinstance(field.type, PrimitiveType) else str(dict(field.type.to_json())["type"])
    return {"name": shown_path(path), "type": kind, "nullable": field.nullable, "metadata": dict(field.metadata)}


def _quoted_part(part: str) -> str:
    return part if _PLAIN_NAME.fullmatch(part) else border.quote_name(part)


def _refuse_manual(snapshot: Snapshot, missing: frozenset[str]) -> None:
    if not missing:
        return
    name = min(missing)
    table = border.quote_name(snapshot.store.spark_path)
    raise UnsupportedFeatureError(
        f"The change needs the table feature {name}, which the table at {snapshot.store.url} does not have; every "
        f"reader or writer would have to know it. Add it first: ALTER TABLE delta.{table} SET TBLPROPERTIES "
        f"('delta.feature.{name}' = 'supported').",
        error_class="WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED"
        if name == "allowColumnDefaults"
        else "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT",
    )
