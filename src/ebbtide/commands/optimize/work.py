"""What has an OPTIMIZE written, and how does it follow a concurrent writer?

One `GroupCopy` per group of files. When another writer wins, a copy whose files nobody touched stays valid.
`optimize.following` brings the others up to date where it can; the rest are copied again, from the files as they are
now. Nobody depends on a compaction, so a group that keeps losing is given up: the next OPTIMIZE finds its files again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ebbtide.commands.optimize.copying import Copier, GroupCopy
from ebbtide.commands.optimize.following import Follower
from ebbtide.commands.optimize.packing import partition_of
from ebbtide.commands.optimize.planning import LayoutPlan
from ebbtide.commands.optimize.request import OptimizeRequest
from ebbtide.commands.optimize.results import OptimizeMetrics
from ebbtide.commands.row_level.counters import now_ms
from ebbtide.commands.row_level.work import FileWork
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action
from ebbtide.scan import ScanFile
from ebbtide.transaction import Lost

__all__ = ["Relayout", "copy_groups"]

# A group whose files winners changed so often is given up.
_MOST_TIMES_REDONE = 3


@dataclass(slots=True)
class Relayout:
    """The work of one OPTIMIZE on one snapshot; `follow` moves it to a newer one."""

    copier: Copier
    request: OptimizeRequest
    snapshot: Snapshot
    plan: LayoutPlan
    copies: list[GroupCopy] = field(default_factory=list)
    num_dropped: int = 0

    @property
    def keeps_row_ids(self) -> bool:
        return all(copy.keeps_row_ids for copy in self.copies)

    @property
    def parts(self) -> list[FileWork]:
        return [copy.work for copy in self.copies]

    def actions(self) -> tuple[Action, ...]:
        now = now_ms()
        return tuple(action for part in self.parts for action in part.actions(now))

    def metrics(self) -> OptimizeMetrics:
        removed = [add for part in self.parts for add in part.replaced]
        return replace(
            self.plan.metrics(self.snapshot),
            added_sizes=tuple(add.size for part in self.parts for add in part.adds),
            removed_sizes=tuple(add.size for add in removed),
            num_deletion_vectors_removed=sum(1 for add in removed if add.deletion_vector is not None),
            num_deletion_vector_rows_removed=sum(len(file.marks or ()) for copy in self.copies for file in copy.files),
            num_carried_rows=sum(file.number_of_modified_rows for part in self.parts for file in part.hidden),
            num_groups=len(self.copies),
            num_dropped_groups=self.num_dropped,
            partitions=frozenset(partition_of(add) for add in removed),
        )

    def parameters(self) -> Mapping[str, Any]:
        return self.plan.parameters()

    def discard(self, *, keeping: Relayout | None = None) -> None:
        """Delete what was written, except what `keeping` uses. Only if no commit can have named it."""
        kept = [] if keeping is None else keeping.parts
        for part in self.parts:
            part.discard(self.snapshot.store, keeping=kept)

    # --- following a winner -------------------------------------------------------------------------------------------

    def follow(self, lost: Lost, /) -> Relayout:
        """The same on top of the winners."""
        changes = lost.file_changes()
        touched = [copy for copy in self.copies if not changes.leaves_alone(file.add.path for file in copy.files)]
        return self.moved_to(lost.newest, touched)

    def moved_to(self, newest: Snapshot, touched: Sequence[GroupCopy], *, again: bool = False) -> Relayout:
        """The same on a newer version, in which files of these copies may have changed; `again`: copied once more."""
        moved = replace(self, snapshot=newest, copies=[copy for copy in self.copies if copy not in touched])
        try:
            moved.take_over(touched, again=again)
        except BaseException:
            # What it took over is still ours, and goes with us.
            moved.discard(keeping=self)
            raise
        self.discard(keeping=moved)
        return moved

    def take_over(self, touched: Sequence[GroupCopy], *, again: bool = False) -> None:
        """Move the copies if that can be done; otherwise copy what is left of their files again."""
        follower = Follower(self.snapshot, self.request.options)
        left: list[tuple[list[ScanFile], int]] = []
        for copy in touched:
            moved = None if again else follower.bring_up_to_date(copy)
            if moved is not None:
                self.copies.append(moved)
            elif copy.times_redone >= _MOST_TIMES_REDONE:
                self.num_dropped += 1
            else:
                left.append((follower.live_now(copy), copy.times_redone + 1))
        for files, times in left:
            self._copy_again(files, times)

    def _copy_again(self, files: Sequence[ScanFile], times_redone: int) -> None:
        file_of = {file.add.path: file for file in files}
        for group in self.plan.regroup([file.add for file in files]):
            members = [file_of[add.path] for add in group.files]
            self.copies.append(self.copier(self.snapshot, members, times_redone=times_redone))


def copy_groups(
    groups: Iterable[tuple[Callable[[], GroupCopy], Callable[[], object]]],
    *,
    threads: int,
    on_done: Callable[[GroupCopy], None],
    on_left: Callable[[GroupCopy], None],
) -> None:
    """Run the copies side by side; `on_done` is called in this thread for each one, as it is finished.

    A group is a copy and what stops its Spark jobs. After an error, Ctrl-C included, no further copy begins, and those
    that run are stopped. One that had come to its end is handed to `on_left`.
    """
    waiting = iter(groups)
    running: dict[Future[GroupCopy], Callable[[], object]] = {}
    with ThreadPoolExecutor(threads, "ebbtide-optimize") as pool:
        try:
            while True:
                for copy, stop in islice(waiting, threads - len(running)):
                    running[pool.submit(copy)] = stop
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[future]
                    on_done(future.result())
        except BaseException:
            for stop in running.values():
                stop()
            for future in running:
                if future.exception() is None:
                    on_left(future.result())
            raise
