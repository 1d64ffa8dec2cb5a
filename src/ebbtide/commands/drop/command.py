"""How does a DROP TABLE run?

    is there a table? -> what lies there, and is all of it the table's? -> a note -> no version can be read any more
    -> data files -> the rest of the log -> empty directories

Only the log and storage are read: no Spark. If something below the root is not the table's, nothing is deleted.
Wherever a DROP TABLE is interrupted, the table is whole or cannot be read at all, and another one finishes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ebbtide.commands.drop.belongings import Belongings, survey_belongings
from ebbtide.commands.drop.log_deletion import delete_log, end_versions, noted_names, write_note
from ebbtide.commands.drop.results import DropResult
from ebbtide.commands.vacuum.deletion import Deletion
from ebbtide.commands.vacuum.protected import protect
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import CorruptTableError, RequestError, StorageError, TableNotFoundError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.listing import LogListing, list_log
from ebbtide.protocol.features import ensure_writable
from ebbtide.storage import ObjectStore, is_local
from ebbtide.storage.unlinked import remove_root

__all__ = ["DropCommand", "DropRequest"]

_NAMED_STRANGERS: Final = 20
_NAMED_FAILURES: Final = 10


@dataclass(frozen=True, slots=True)
class DropRequest:
    store: ObjectStore
    if_exists: bool = False
    dry_run: bool = False
    config: EngineConfig = DEFAULT_CONFIG


@dataclass(slots=True)
class DropCommand:
    """One DROP TABLE. `confirm` gets what would be deleted, before anything is, and raises if it must not be."""

    request: DropRequest
    on_phase: Callable[[str], None] = lambda _: None
    confirm: Callable[[DropResult], None] = lambda _: None

    def run(self) -> DropResult:
        store = self.request.store
        listing = list_log(store)
        if not listing.has_log_files:
            return self._not_found()
        snapshot = self._readable_snapshot()
        self.on_phase("Listing")
        found = survey_belongings(store)
        vouched = self._claim_odd_files(found, snapshot)
        self._refuse_strangers(found)
        planned = self._plan(found, listing)
        if self.request.dry_run:
            return planned
        self.confirm(planned)
        write_note(store, vouched)
        end_versions(store)
        self._delete_files(found)
        self.on_phase("Deleting the log")
        delete_log(store)
        if is_local(store):
            Deletion(store).remove_directories(found.directories)
            remove_root(store)
        return planned

    def _not_found(self) -> DropResult:
        if self.request.if_exists:
            return DropResult(self.request.store.url, is_found=False, is_dry_run=self.request.dry_run)
        raise TableNotFoundError(
            f"There is no Delta table at {self.request.store.url}, so nothing was dropped. Check the path, or write IF "
            "EXISTS."
        )

    def _readable_snapshot(self) -> Snapshot | None:
        """The newest version; None where the log is broken. What Ebbtide may not write, it may not drop."""
        try:
            snapshot = load_snapshot(self.request.store, config=self.request.config)
        except CorruptTableError:
            return None
        ensure_writable(snapshot.protocol, snapshot.metadata)
        return snapshot

    def _claim_odd_files(self, found: Belongings, snapshot: Snapshot | None) -> set[str]:
        """Names that say nothing belong to the table if a version has them, or an earlier DROP TABLE noted them."""
        if not found.odd:
            return set()
        noted = noted_names(self.request.store, self.request.config)
        named = protect(snapshot, cutoff_ms=0) if snapshot is not None else ()
        vouched = {path for path in found.odd if path in named or path in noted}
        found.claim(vouched)
        return vouched

    def _refuse_strangers(self, found: Belongings) -> None:
        strangers = found.strangers()
        if not strangers:
            return
        rest = len(strangers) - _NAMED_STRANGERS
        more = f", and {rest:,} more" if rest > 0 else ""
        raise RequestError(
            f"The table at {self.request.store.url} was not dropped, because its directory holds what is not the "
            f"table's: {', '.join(strangers[:_NAMED_STRANGERS])}{more}. Move or delete that by hand first."
        )

    def _plan(self, found: Belongings, listing: LogListing) -> DropResult:
        return DropResult(
            self.request.store.url,
            num_files=len(found.files),
            num_log_files=len(found.log),
            size_in_bytes=found.files.size_in_bytes + found.log.size_in_bytes,
            num_versions=len(listing.commits),
            is_dry_run=self.request.dry_run,
        )

    def _delete_files(self, found: Belongings) -> None:
        total, deletion = len(found.files), Deletion(self.request.store)
        deletion.delete_files(found.files, lambda done: self.on_phase(f"Deleting: {done:,} of {total:,} files"))
        if deletion.num_failed:
            named = "; ".join(list(deletion.failures.values())[:_NAMED_FAILURES])
            raise StorageError(
                f"DROP TABLE deleted {deletion.num_deleted:,} files of {self.request.store.url}, but "
                f"{deletion.num_failed:,} could not be deleted: {named}. The table cannot be read any more; run DROP "
                "TABLE again when they can be."
            )
