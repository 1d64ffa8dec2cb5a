"""How do remedies become one commit?

Missing and truncated files leave the log, with `dataChange` true: rows are gone, and readers of changes must see it.
Files with wrong statistics are added again, with `dataChange` false. If a checkpoint is to be replaced, the new version
gets one. Files that are said to be missing are looked for once more right before the commit; files that another writer
changed in the meantime are left to the next run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ebbtide.commands.fsck.file_checks import object_at
from ebbtide.commands.fsck.findings import Finding, NewCheckpoint, RemoveFromLog, RestateStatistics
from ebbtide.commands.fsck.results import FsckMetrics
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import ObjectNotFoundError, RequestError
from ebbtide.log import Snapshot, write_checkpoint
from ebbtide.protocol.actions import Action, AddFile, RemoveFile
from ebbtide.protocol.features import ensure_writable
from ebbtide.protocol.paths import canonical_path
from ebbtide.storage.prefetch import prefetch
from ebbtide.transaction import SYSTEM_CLOCK, Lost, Operation, Rebased, Transaction

__all__ = ["Repaired", "repair_table"]


@dataclass(frozen=True, slots=True)
class Repaired:
    """`version` is None when nothing was left to do."""

    version: int | None
    findings: tuple[Finding, ...]
    metrics: FsckMetrics


def repair_table(
    snapshot: Snapshot,
    found: Sequence[Finding],
    options: WriteOptions,
    metrics: FsckMetrics,
    on_phase: Callable[[str], None],
) -> Repaired:
    """Repair what can be repaired. `snapshot` may have files that are live twice, and is whole otherwise."""
    _refuse_doubtful_state(found, snapshot)
    ensure_writable(snapshot.protocol, snapshot.metadata)
    on_phase("Looking for the missing files once more")
    chosen = _still_true([finding for finding in found if finding.is_repairable], snapshot, options.storage_options)
    if not chosen:
        return Repaired(None, (), metrics)
    plan = _Plan(snapshot, chosen, metrics)
    on_phase("Committing")
    transaction = Transaction(snapshot.store, snapshot, config=options.config, clock=SYSTEM_CLOCK)
    committed = transaction.commit(
        plan.actions(),
        plan.operation(options.user_metadata),
        rebase=plan.follower(options.user_metadata),
        allow_empty=plan.wants_checkpoint,
    )
    if not committed.is_new_version:
        return Repaired(None, (), metrics)
    if plan.wants_checkpoint:
        on_phase("Writing a checkpoint")
        write_checkpoint(committed.snapshot)
    return Repaired(committed.version, plan.findings, plan.metrics())


def _refuse_doubtful_state(found: Sequence[Finding], snapshot: Snapshot) -> None:
    doubtful = next((finding for finding in found if finding.kind == "checkpoint-disagrees"), None)
    checkpoint = snapshot.segment.checkpoint
    if doubtful is not None and checkpoint is not None and checkpoint.version == doubtful.version:
        raise RequestError(
            f"The table at {snapshot.store.url} is not repaired: its checkpoint {doubtful.path} and its commits "
            "disagree, so it is not known which files are part of it. Move the checkpoint away, look at the table, and "
            "run this again. Nothing was changed."
        )


def _still_true(
    found: Sequence[Finding], snapshot: Snapshot, storage_options: Mapping[str, str] | None
) -> list[Finding]:
    """The findings without files that are there after all: storage may have been restored beside us."""

    def is_true(finding: Finding) -> bool:
        remedy = finding.remedy
        if finding.kind != "missing-data-file" or not isinstance(remedy, RemoveFromLog):
            return True
        store, path = object_at(remedy.add.path, snapshot, storage_options)
        try:
            store.head(path)
        except ObjectNotFoundError:
            return True
        return False

    return [finding for finding, kept in zip(found, prefetch(is_true, found), strict=True) if kept]


class _Plan:
    """The commit in the making. A lost race takes files from it that the winner changed."""

    def __init__(self, snapshot: Snapshot, chosen: Sequence[Finding], metrics: FsckMetrics) -> None:
        self.table_url = snapshot.store.url
        self.findings = tuple(chosen)
        self.before = metrics

    @property
    def wants_checkpoint(self) -> bool:
        return any(isinstance(finding.remedy, NewCheckpoint) for finding in self.findings)

    def removes(self) -> list[RemoveFromLog]:
        """One per file, though several things may be wrong with it."""
        remedies = [found.remedy for found in self.findings if isinstance(found.remedy, RemoveFromLog)]
        return list({(remedy.add.path, remedy.add.dv_id): remedy for remedy in remedies}.values())

    def restatements(self) -> list[RestateStatistics]:
        """A file that leaves needs no statistics, and one whose other entry leaves keeps those it has for now."""
        gone = {canonical_path(remedy.add.path, self.table_url) for remedy in self.removes()}
        remedies = [found.remedy for found in self.findings if isinstance(found.remedy, RestateStatistics)]
        by_path = {canonical_path(remedy.add.path, self.table_url): remedy for remedy in remedies}
        return [remedy for path, remedy in by_path.items() if path not in gone]

    def actions(self) -> list[Action]:
        now_ms = SYSTEM_CLOCK.now_ms()
        removes: list[RemoveFile] = [remedy.add.remove(now_ms) for remedy in self.removes()]
        adds: list[AddFile] = [replace(remedy.add, stats=remedy.stats) for remedy in self.restatements()]
        return [*removes, *adds]

    def operation(self, user_metadata: str | None) -> Operation:
        kinds = sorted({finding.kind for finding in self.findings})
        return Operation("FSCK", {"repaired": json.dumps(kinds)}, self.metrics().operation_metrics, user_metadata)

    def metrics(self) -> FsckMetrics:
        removes = self.removes()
        rows = [remedy.num_rows for remedy in removes]
        known = [count for count in rows if count is not None]
        return replace(
            self.before,
            num_removed_files=len(removes),
            num_removed_bytes=sum(remedy.add.size for remedy in removes),
            num_lost_rows=sum(known) if len(known) == len(rows) else -1,
            num_restated_files=len(self.restatements()),
        )

    def follower(self, user_metadata: str | None) -> Callable[[Lost], Rebased | None]:
        def follow(lost: Lost, /) -> Rebased | None:
            changes = lost.file_changes()
            self.findings = tuple(found for found in self.findings if _is_left_alone(found, changes.leaves_alone))
            actions = self.actions()
            if not actions and not self.wants_checkpoint:
                return None
            return Rebased(tuple(actions), self.operation(user_metadata))

        return follow


def _is_left_alone(finding: Finding, leaves_alone: Callable[[list[str]], bool]) -> bool:
    remedy = finding.remedy
    return isinstance(remedy, NewCheckpoint) or remedy is None or leaves_alone([remedy.add.path])
