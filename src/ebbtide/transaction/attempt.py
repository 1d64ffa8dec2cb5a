"""Did our commit become the version we tried for?

One conditional put decides. When its answer is lost, or the object exists already, we read the object: the first line
of a commit holds a `txnId` that no other commit has. While the outcome is open, the same bytes are put again. That is
always safe: at most one object can ever have the name, and either it is ours or it is not. Nothing is ever deleted
here.
"""

from __future__ import annotations

from typing import Final

from ebbtide.errors import CommitOutcomeUnknownError, ObjectExistsError, StorageError
from ebbtide.protocol.log_names import commit_name, log_path
from ebbtide.storage import ObjectStore, PutOutcomeUnknownError
from ebbtide.transaction.clock import Clock

__all__ = ["put_commit"]

# Attempts to put and to look before the outcome is reported as unknown.
_MAX_TRIES: Final = 5


def put_commit(store: ObjectStore, version: int, data: bytes, *, txn_id: str, clock: Clock) -> bool:
    """Whether the commit landed as `version`; False when another one did.

    CommitOutcomeUnknownError when even a look did not help. Any other StorageError: nothing was created.
    """
    path = log_path(commit_name(version))
    first_line = data[: data.index(b"\n") + 1]
    failure: StorageError | None = None
    for tries in range(1, _MAX_TRIES + 1):
        try:
            store.put_if_absent(path, data)
            return True
        except ObjectExistsError as error:
            # It may still be ours: a client repeats a request whose answer was lost.
            failure = failure or error
        except PutOutcomeUnknownError as error:
            failure = error
        except StorageError as error:
            if failure is None:
                raise
            # This put did nothing, but an earlier one may have.
            failure = error
        is_ours = _is_ours(store, path, first_line)
        if is_ours is not None:
            return is_ours
        if tries < _MAX_TRIES:
            clock.wait(tries)
    raise CommitOutcomeUnknownError(
        f"It is not known whether version {version} of the table at {store.url} is this commit: storage did not say, "
        f"and looking did not help either ({failure}). Nothing was cleaned up, and no file that was written may be "
        f"deleted yet. To find out, read {path}: if its commitInfo has txnId {txn_id}, the operation has landed; if "
        "the file is there with another txnId, it has not and can be run again. With txnAppId and txnVersion it can be "
        "repeated without looking."
    ) from failure


def _is_ours(store: ObjectStore, path: str, first_line: bytes) -> bool | None:
    """Whether the object holds our commit; None when it is not there (yet) or cannot be read."""
    try:
        return store.read_range(path, 0, len(first_line)) == first_line
    except StorageError:
        return None
