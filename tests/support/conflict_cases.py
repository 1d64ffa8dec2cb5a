"""What do the two transactions of a shared conflict case do, as actions of the log?"""

from __future__ import annotations

from typing import Any

from tests.support.log_builder import metadata, protocol
from tests.support.shared_material import load_cases
from tests.support.transactions import add_file, as_action, remove_of

from ebbtide.protocol.actions import Action, AddFile

__all__ = ["DV_VARIANTS", "actions_of", "conflict_cases", "files_of", "is_of_actions", "table_options"]

TYPES = {"STRING": "string", "INT": "integer", "BIGINT": "long"}
DV_VARIANTS: dict[str, dict[str, Any]] = {
    "dv_on": {
        "features": ["deletionVectors"],
        "enabled": {"delta.enableDeletionVectors": "true"},
    },
    "dv_off": {"features": None, "enabled": {}},
}


def conflict_cases() -> list[dict[str, Any]]:
    """SharedMaterialMissingError when there is nothing beside the clone."""
    return load_cases("conflicts")


def is_of_actions(case: dict[str, Any]) -> bool:
    """Whether both transactions are given as actions; otherwise as SQL."""
    return not any("sql" in case[name] for name in ("txn_a", "txn_b"))


def table_options(case: dict[str, Any], variant: str) -> tuple[dict[str, Any], list[str] | None]:
    """The arguments for `make_table`: the metadata's, and the features."""
    target = case["tables"]["target"]
    columns = dict(column.split() for column in target["schema"].split(", "))
    chosen = DV_VARIANTS[variant]
    return {
        "columns": {name: TYPES[type_name] for name, type_name in columns.items()},
        "partitions": target["partition_by"],
        "configuration": {**target["properties"], **chosen["enabled"]},
    }, chosen["features"]


def files_of(entries: list[dict[str, Any]], *, data_change: bool = True) -> dict[str, AddFile]:
    return {
        entry["file"]: add_file(entry["file"], partition=entry["partition"], data_change=data_change)
        for entry in entries
    }


def actions_of(spec: dict[str, Any], initial: dict[str, AddFile], options: dict[str, Any]) -> list[Action]:
    """What one of the transactions stages, on a table that holds the `initial` files."""
    data_change = spec.get("data_change", True)
    actions: list[Action] = list(files_of(spec["adds"], data_change=data_change).values())
    actions += [remove_of(initial[name], data_change=data_change) for name in spec["removes"]]
    if spec.get("metadata_change"):
        actions.append(as_action(metadata(**options, description="changed")))
    if spec.get("protocol_change"):
        features = ["appendOnly", "invariants", "deletionVectors", "v2Checkpoint"]
        actions.append(as_action(protocol(features=features, readerFeatures=["deletionVectors", "v2Checkpoint"])))
    return actions
