"""How are CHECK constraints taken from a table?

A constraint is a table property with an expression. Dropping one reads only the log and never evaluates the
expression, so it also works for one that Ebbtide refuses to run. The feature stays in the protocol.
"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import SchemaMismatchError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action
from ebbtide.protocol.properties import CONSTRAINT_PREFIX
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation

__all__ = ["drop_constraint"]


def drop_constraint(store: ObjectStore, name: str, *, if_exists: bool = False, options: WriteOptions) -> AlterResult:
    """Drop the CHECK constraint of that name, ignoring case. Commits even if there is none and `if_exists` is given."""
    wanted = f"{CONSTRAINT_PREFIX}{name}".lower()

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        configuration = snapshot.metadata.configuration
        dropped = [text for key, text in configuration.items() if key.lower() == wanted]
        if not dropped and not if_exists:
            known = ", ".join(snapshot.properties.constraints) or "none"
            raise SchemaMismatchError(
                f"The table at {store.url} has no constraint {name}; its constraints: {known}. Use DROP CONSTRAINT IF "
                "EXISTS if it may be missing.",
                error_class="DELTA_CONSTRAINT_DOES_NOT_EXIST",
            )
        kept = {key: text for key, text in configuration.items() if key.lower() != wanted}
        parameters = {"name": name, **({"expr": dropped[-1]} if dropped else {}), "existed": str(bool(dropped)).lower()}
        operation = Operation("DROP CONSTRAINT", parameters, user_metadata=options.user_metadata)
        return [replace(snapshot.metadata, configuration=kept)], operation

    return commit_change(store, change, options)
