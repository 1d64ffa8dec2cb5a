"""What was written for one commit, what are its metrics, and how does it follow a winner?

Rows without numbers stand whatever others commit. Numbers are taken from where the table stopped counting, so after
a lost race there are two cases. If all of ours lie beyond the winner's, they stay. Otherwise the rows are written again
with later numbers, and the first files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ebbtide.commands.delete.results import DeleteMetrics
from ebbtide.commands.row_level.work import Work
from ebbtide.commands.write.destination import Destination
from ebbtide.commands.write.request import WriteMetrics
from ebbtide.commands.write.rows import WrittenRows
from ebbtide.protocol.actions import Action
from ebbtide.storage import ObjectStore
from ebbtide.write import WrittenFiles, discard

__all__ = ["WriteWork"]


@dataclass(slots=True)
class WriteWork:
    """What was written for one commit."""

    rows: WrittenRows
    place: Destination
    # Writes the rows again, and leaves this many numbers to other writers.
    rewrite: Callable[[Destination, int], WrittenRows]
    deletion: Work[DeleteMetrics] | None = None
    _rewrites: int = field(default=0, init=False)

    @property
    def written(self) -> WrittenFiles:
        return self.rows.files

    @property
    def hands_out_numbers(self) -> bool:
        return bool(self.rows.used.ranges)

    def actions(self) -> tuple[Action, ...]:
        removed = () if self.deletion is None else self.deletion.actions()
        return (*self.place.actions(self.rows.used), *removed, *self.written.adds, *self.written.change_files)

    def follow(self, place: Destination) -> None:
        """Move to the table as the winners left it; no file of theirs conflicts with ours."""
        if self.rows.used.collide_with(place.metadata):
            self._rewrites += 1
            again = self.rewrite(place, self.rows.used.choose_gap(self._rewrites))
            discard(place.target.store, [self.written])
            self.rows = again
        self.place = place

    def metrics(self, *, replaces_rows: bool) -> WriteMetrics:
        metrics = WriteMetrics(
            num_files=len(self.written.adds),
            num_output_rows=self.written.num_rows,
            num_output_bytes=self.written.num_bytes,
            num_added_change_files=len(self.written.change_files),
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
