"""Is the log in storage still the log that a snapshot was read from?

A table may be dropped and created again in the same place. A writer of the old table could then add its next version to
the log of the new one: a gap in the log, or rows of two tables in one. So a writer checks once more before it commits.
The commit that made its version must still be there with the same size and time; where a cleanup has removed that
commit, the checkpoint must be.
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
        # On a local disk a listing reads the whole directory.
        try:
            return store.head(commit.path) == commit
        except ObjectNotFoundError:
            return False
    listing = list_log(store, start_version=snapshot.version)
    if commit is not None:
        return listing.commits.get(snapshot.version) == commit
    return snapshot.segment.checkpoint in listing.checkpoints
