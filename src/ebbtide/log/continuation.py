"""Is the log in storage still the log that a snapshot was read from?

A table may be dropped and made anew at the same place. The next version of the old table could then be put behind the
commits of the new one: a gap in its log, or rows of two tables in one. So a writer asks once more before it puts. The
commit that made its version must be there as it was read, by size and time; where a cleanup had removed that commit
already, the checkpoint must be.
"""

from __future__ import annotations

from ebbtide.errors import ObjectNotFoundError
from ebbtide.log.listing import list_log
from ebbtide.log.snapshot import Snapshot
from ebbtide.storage.store import is_local

__all__ = ["is_continued"]


def is_continued(snapshot: Snapshot) -> bool:
    """Whether the log still holds what made the snapshot's version. Costs one request."""
    store, commit = snapshot.store, snapshot.segment.commit
    if commit is not None and is_local(store):
        # A listing of the disk reads the whole directory.
        try:
            return store.head(commit.path) == commit
        except ObjectNotFoundError:
            return False
    listing = list_log(store, start_version=snapshot.version)
    if commit is not None:
        return listing.commits.get(snapshot.version) == commit
    return snapshot.segment.checkpoint in listing.checkpoints
