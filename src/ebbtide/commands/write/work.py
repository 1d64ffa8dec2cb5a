"""What was written for one commit, and what are its metrics?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ebbtide.commands.delete.results import DeleteMetrics
from ebbtide.commands.row_level.work import Work
from ebbtide.commands.write.request import WriteMetrics
from ebbtide.protocol.actions import Action
from ebbtide.storage import ObjectStore
from ebbtide.write import WrittenFiles, discard

__all__ = ["WriteWork"]


@dataclass(slots=True)
class WriteWork:
    """What was written for one commit."""

    written: WrittenFiles
    definition_actions: tuple[Action, ...] = ()
    deletion: Work[DeleteMetrics] | None = None

    def actions(self) -> tuple[Action, ...]:
        removed = () if self.deletion is None else self.deletion.actions()
        return (*self.definition_actions, *removed, *self.written.adds, *self.written.changes)

    def metrics(self, *, replaces_rows: bool) -> WriteMetrics:
        metrics = WriteMetrics(
            num_files=len(self.written.adds),
            num_output_rows=self.written.num_rows,
            num_output_bytes=self.written.num_bytes,
            num_added_change_files=len(self.written.changes),
            replaces_rows=replaces_rows,
        )
        if self.deletion is None:
            return metrics
        removed = self.deletion.metrics()
        return replace(
            metrics,
            removes=True,
            num_removed_files=removed.num_removed_files,
            num_removed_bytes=removed.num_removed_bytes,
            num_added_change_files=metrics.num_added_change_files + removed.num_added_change_files,
            num_deleted_rows=removed.num_affected_rows,
            num_copied_rows=removed.num_copied_rows,
        )

    def discard(self, store: ObjectStore) -> None:
        """Delete the files; no commit names them, and none will."""
        discard(store, [self.written])
        if self.deletion is not None:
            self.deletion.discard()
