"""How does a DROP FEATURE run?

    what can be dropped -> no use left in the newest version -> barriers -> look again -> a protocol without the feature

Older versions still use the feature, and a reader who does not know it would misread them. There are two ways, as in
the reference. By default three checkpoints are written first, the feature is exchanged for `checkpointProtection`, and
log cleanup must not come nearer than those checkpoints. With TRUNCATE HISTORY those versions have to go: the first run
ends the use and raises, and one after the retention cuts the log off, looks at all that is left of it, and takes the
feature out without a substitute. Features that only writers need are simply taken out of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import orjson
from pyspark.sql import SparkSession

from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.drop_feature.history import History
from ebbtide.commands.drop_feature.names import IN_HISTORY, PROTECTION, droppable_feature
from ebbtide.commands.drop_feature.rewriting import Rewriting
from ebbtide.commands.drop_feature.traces import Traces
from ebbtide.commands.drop_feature.uses import live_uses
from ebbtide.commands.optimize.request import OptimizeSettings
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import ProtocolChangedException
from ebbtide.log import Snapshot, load_snapshot, write_checkpoint
from ebbtide.protocol.actions import Action
from ebbtide.protocol.features import ensure_writable, supported_features, weakest_protocol
from ebbtide.storage import ObjectStore
from ebbtide.transaction import SYSTEM_CLOCK, Clock, Operation, Transaction

__all__ = ["DropFeatureCommand", "DropFeatureRequest"]

_PROTECTED_BEFORE: Final = "delta.requireCheckpointProtectionBeforeVersion"
_BARRIERS: Final = 3
# A protocol that loses a feature follows no winner, so the commit begins anew; a busy table may win a few times.
_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class DropFeatureRequest:
    """Take a feature out of the protocol. `settings` are those of the rewrite that this may take."""

    store: ObjectStore
    name: str
    truncate_history: bool = False
    settings: OptimizeSettings = field(default_factory=OptimizeSettings)
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None


@dataclass(slots=True)
class DropFeatureCommand:
    """One DROP FEATURE. `on_phase` is told what is being done, for people."""

    spark: SparkSession
    request: DropFeatureRequest
    on_phase: Callable[[str], None] = lambda _: None
    clock: Clock = SYSTEM_CLOCK

    REWRITING: ClassVar[type[Rewriting]] = Rewriting

    def run(self) -> AlterResult:
        request, config = self.request, self.request.options.config
        snapshot = load_snapshot(request.store, config=config, hint=request.hint)
        ensure_writable(snapshot.protocol, snapshot.metadata)
        feature = droppable_feature(snapshot, request.name, truncates=request.truncate_history)
        if feature == PROTECTION:
            return self._drop_protection(snapshot)
        was_used = self._traces(feature).remove(snapshot)
        if feature not in IN_HISTORY:
            return self._downgrade(lambda newest: self._without(newest, feature))
        if request.truncate_history:
            return self._drop_after_truncation(feature, was_used=was_used)
        for _ in range(_BARRIERS):
            self._write_barrier()
        dropped = self._downgrade(lambda newest: self._exchange(newest, feature))
        write_checkpoint(load_snapshot(request.store, config=config))
        return dropped

    def _traces(self, feature: str) -> Traces:
        request = self.request
        rewriting = self.REWRITING(self.spark, request.store, request.settings, request.options, self.on_phase)
        return Traces(request.store, feature, request.options, rewriting)

    # --- with the history cut off -------------------------------------------------------------------------------------

    def _drop_after_truncation(self, feature: str, *, was_used: bool) -> AlterResult:
        history = History(self._write_barrier(), feature, self.clock.now_ms(), self.request.options.config)
        if was_used:
            raise history.wait_for_retention()
        self._ensure_unused(history.snapshot, feature)
        self.on_phase("Truncating the log")
        history.truncate()
        self.on_phase("Looking at the history")
        history.ensure_unused()

        def change(newest: Snapshot) -> tuple[list[Action], Operation]:
            history.ensure_unused_since(newest)
            return self._without(newest, feature)

        return self._downgrade(change)

    def _drop_protection(self, snapshot: Snapshot) -> AlterResult:
        """Once no version that it protects is left."""
        history = History(snapshot, PROTECTION, self.clock.now_ms(), self.request.options.config)
        if not history.is_truncated_to_protection():
            history = replace(history, snapshot=self._write_barrier())
            history.truncate()
            if not history.is_truncated_to_protection():
                raise history.wait_for_protected()
        self._downgrade(self._unset_protection)
        return self._downgrade(lambda newest: self._without(newest, PROTECTION))

    # --- commits ------------------------------------------------------------------------------------------------------

    def _write_barrier(self) -> Snapshot:
        """An empty commit and its checkpoint: whoever reads from there on meets no older commit."""
        self.on_phase("Writing a checkpoint")
        transaction = Transaction.begin(self.request.store, config=self.request.options.config)
        committed = transaction.commit((), Operation("Empty Commit"), allow_empty=True)
        write_checkpoint(committed.snapshot)
        return committed.snapshot

    def _downgrade(self, change: Callable[[Snapshot], tuple[list[Action], Operation]]) -> AlterResult:
        """Commit the change. When another writer was first, all that it rests on is looked at again."""
        self.on_phase("Committing")
        for _ in range(_ATTEMPTS - 1):
            with suppress(ProtocolChangedException):
                return commit_change(self.request.store, change, self.request.options)
        return commit_change(self.request.store, change, self.request.options)

    def _ensure_unused(self, snapshot: Snapshot, feature: str) -> None:
        use = next(live_uses(snapshot, feature), None)
        if use is not None:
            raise ProtocolChangedException(
                f"Another writer used the feature {feature} of {snapshot.store.url} while it was being dropped: {use}. "
                "Run DROP FEATURE again.",
                error_class="DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL",
            )

    def _without(self, snapshot: Snapshot, feature: str) -> tuple[list[Action], Operation]:
        self._ensure_unused(snapshot, feature)
        protocol = weakest_protocol(supported_features(snapshot.protocol) - {feature})
        return [protocol, snapshot.metadata], self._operation(feature)

    def _exchange(self, snapshot: Snapshot, feature: str) -> tuple[list[Action], Operation]:
        self._ensure_unused(snapshot, feature)
        kept = supported_features(snapshot.protocol) - {feature} | {PROTECTION}
        configuration = {**snapshot.metadata.configuration, _PROTECTED_BEFORE: str(snapshot.version + 1)}
        metadata = replace(snapshot.metadata, configuration=configuration)
        return [weakest_protocol(kept), metadata], self._operation(feature)

    def _unset_protection(self, snapshot: Snapshot) -> tuple[list[Action], Operation]:
        kept = {key: value for key, value in snapshot.metadata.configuration.items() if key != _PROTECTED_BEFORE}
        parameters = {"properties": orjson.dumps([_PROTECTED_BEFORE]).decode(), "ifExists": True}
        operation = Operation("UNSET TBLPROPERTIES", parameters, user_metadata=self.request.options.user_metadata)
        return [replace(snapshot.metadata, configuration=kept)], operation

    def _operation(self, feature: str) -> Operation:
        parameters = {"featureName": feature, "truncateHistory": self.request.truncate_history}
        return Operation("DROP FEATURE", parameters, user_metadata=self.request.options.user_metadata)
