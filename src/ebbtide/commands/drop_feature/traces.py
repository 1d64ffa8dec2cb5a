"""How is a feature taken out of use in the newest version of a table?

First the property that switches it on goes, so that nobody brings it back; then what it left in files and metadata.
Each step is a commit of its own, and one that finds nothing to do makes none: a run that died is finished by the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import orjson

from ebbtide.commands.define.alter import set_properties, unset_properties
from ebbtide.commands.define.committing import commit_change
from ebbtide.commands.define.schemas import shown_field
from ebbtide.commands.drop_feature.older_types import without_type_changes
from ebbtide.commands.drop_feature.rewriting import Rewriting
from ebbtide.commands.drop_feature.uses import live_uses
from ebbtide.commands.drop_feature.vector_tombstones import vector_tombstones
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import UnsupportedFeatureError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.actions import Action
from ebbtide.protocol.schema import StructType, all_fields
from ebbtide.protocol.type_changes import TYPE_CHANGES
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation, Transaction

__all__ = ["Traces"]

_SWITCHES: Final = {
    "deletionVectors": "delta.enableDeletionVectors",
    "typeWidening": "delta.enableTypeWidening",
    "typeWidening-preview": "delta.enableTypeWidening",
    "inCommitTimestamp": "delta.enableInCommitTimestamps",
    "inCommitTimestamp-preview": "delta.enableInCommitTimestamps",
}
# What only a person can decide to give up.
_NOT_OURS_TO_END: Final = {
    "checkConstraints": "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE",
    "domainMetadata": "",
}


@dataclass(frozen=True, slots=True)
class Traces:
    store: ObjectStore
    feature: str
    options: WriteOptions
    rewriting: Rewriting

    def remove(self, snapshot: Snapshot) -> bool:
        """End every use; whether older versions used it in a way that the newest one did until now."""
        uses = list(live_uses(snapshot, self.feature))
        if uses and self.feature in _NOT_OURS_TO_END:
            raise self._refusal(snapshot, uses[0])
        if uses and self.feature == "columnMapping":
            self.rewriting.unmap()
        elif uses:
            self._switch_off(snapshot)
        if self.feature == "deletionVectors":
            # Also when no use was found: a PURGE before this call may have left vectors to older versions alone.
            self.rewriting.purge()
            self._name_vectors()
        elif self.feature.startswith("typeWidening"):
            # A property alone leaves nothing in the history.
            return self._forget_types(snapshot)
        return bool(uses)

    def _refusal(self, snapshot: Snapshot, use: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"The feature {self.feature} cannot be dropped from the table at {snapshot.store.url}: {use}.",
            error_class=_NOT_OURS_TO_END[self.feature],
        )

    def _switch_off(self, snapshot: Snapshot) -> None:
        """Unset the property that switches the feature on, in a commit of its own."""
        name = _SWITCHES.get(self.feature)
        if name is not None and any(key.lower() == name.lower() for key in snapshot.metadata.configuration):
            unset_properties(self.store, [name], if_exists=True, options=self.options)
        if self.feature == "v2Checkpoint":
            set_properties(self.store, {"delta.checkpointPolicy": "classic"}, options=self.options)

    def _name_vectors(self) -> None:
        """Name the vector files that older versions need: an engine without the feature then keeps them as long."""
        transaction = Transaction.begin(self.store, config=self.options.config)
        actions = vector_tombstones(transaction.snapshot)
        transaction.commit(actions, Operation("Deletion Vector Tombstones"), allow_empty=True)

    def _forget_types(self, snapshot: Snapshot) -> bool:
        """Rewrite what has types of before, then take the notes of them out of the schema."""
        if not any(TYPE_CHANGES in field.metadata for field in all_fields(snapshot.schema)):
            return False
        self.rewriting.rewrite_types()
        commit_change(self.store, self._without_notes, self.options, load_snapshot(self.store, hint=snapshot))
        return True

    def _without_notes(self, snapshot: Snapshot) -> tuple[list[Action], Operation]:
        cleaned = without_type_changes(snapshot.schema)
        assert isinstance(cleaned, StructType)
        changed = [
            shown_field(after, (after.name,))
            for before, after in zip(all_fields(snapshot.schema), all_fields(cleaned), strict=True)
            if before.metadata != after.metadata
        ]
        metadata = replace(snapshot.metadata, schema_string=cleaned.to_schema_string())
        parameters = {"columns": orjson.dumps(changed).decode()}
        operation = Operation("DROP FEATURE", parameters, user_metadata=self.options.user_metadata)
        return [metadata], operation
