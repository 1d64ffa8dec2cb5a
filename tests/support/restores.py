"""How does a table go back to an older version, as other engines write it?

Ebbtide has no RESTORE, but reads the tables of engines that have: files that were live then come back with the vectors they
had, and those of now go.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.log_reading import log_state, newest_version

__all__ = ["restore_by_hand"]

KEPT_BY_REMOVE = ("path", "partitionValues", "size", "deletionVector")


def restore_by_hand(table: Path, version: int) -> None:
    """One commit that makes the table show `version` again."""
    newest = newest_version(table)
    then, now = log_state(table, version).live, log_state(table).live
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 1, "operation": "RESTORE"}}]
    for key, add in now.items():
        if key not in then:
            kept = {name: add[name] for name in KEPT_BY_REMOVE if name in add}
            actions.append(
                {"remove": kept | {"deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True}}
            )
    actions += [{"add": add | {"dataChange": True}} for key, add in then.items() if key not in now]
    log = table / "_delta_log" / f"{newest + 1:020d}.json"
    log.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
