"""Which files does the log directory hold?

One pass over `_delta_log`, sorted into commits, compacted logs and complete checkpoints. Other names are ignored, and
so are multi-part checkpoints with a missing part. `_last_checkpoint` is read here too. It is a hint that saves listing
old versions and is never trusted: if it is missing, corrupt or wrong, the answer is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ebbtide.errors import CorruptTableError, ObjectNotFoundError
from ebbtide.protocol.json_fields import JsonFields, load_json_object
from ebbtide.protocol.log_names import (
    DROP_NOTE,
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    CheckpointName,
    CommitName,
    CompactedName,
    V2CheckpointName,
    commit_name,
    listing_start,
    log_path,
    parse_log_name,
)
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["CheckpointFiles", "CompactedFile", "LogListing", "last_checkpoint_version", "list_log", "look_ahead"]

# It holds a few numbers and perhaps a schema; a longer file is not a hint worth reading.
_MAX_LAST_CHECKPOINT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """All files of one checkpoint, except the sidecars that it names inside."""

    version: int
    files: tuple[ObjectMeta, ...]
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class CompactedFile:
    version: int
    end_version: int
    file: ObjectMeta


@dataclass(frozen=True, slots=True)
class LogListing:
    """What was found at or after `start_version`; `has_log_files` also counts what cannot be used alone."""

    start_version: int
    commits: dict[int, ObjectMeta] = field(default_factory=dict)
    compacted: tuple[CompactedFile, ...] = ()
    # Newest first; several checkpoints of one version are alternatives.
    checkpoints: tuple[CheckpointFiles, ...] = ()
    has_log_files: bool = False
    # A DROP TABLE has begun.
    is_being_dropped: bool = False

    @property
    def latest_version(self) -> int | None:
        """The newest committed version: that of a commit, or of a checkpoint whose commit was cleaned up."""
        newest = [*([max(self.commits)] if self.commits else []), *(c.version for c in self.checkpoints[:1])]
        return max(newest, default=None)


def list_log(store: ObjectStore, *, start_version: int = 0) -> LogListing:
    """List the log from `start_version` on."""
    start_after = listing_start(start_version) if start_version else None
    commits: dict[int, ObjectMeta] = {}
    compacted: list[CompactedFile] = []
    parts: dict[tuple[int, int], dict[int, ObjectMeta]] = {}
    checkpoints: list[CheckpointFiles] = []
    has_log_files = is_being_dropped = False
    for meta in store.list_directory(LOG_DIRECTORY, start_after=start_after):
        name = parse_log_name(meta.path.rpartition("/")[2])
        is_being_dropped = is_being_dropped or meta.path == log_path(DROP_NOTE)
        has_log_files = has_log_files or name is not None or is_being_dropped
        match name:
            case CommitName(version):
                commits[version] = meta
            case CompactedName(version, end_version):
                compacted.append(CompactedFile(version, end_version, meta))
            case CheckpointName(version, part, total, is_multipart=True):
                parts.setdefault((version, total), {})[part] = meta
            case CheckpointName(version):
                checkpoints.append(CheckpointFiles(version, (meta,)))
            case V2CheckpointName(version, _, format):
                checkpoints.append(CheckpointFiles(version, (meta,), is_json=format == "json"))
            case _:
                pass
    for (version, total), found in parts.items():
        if len(found) == total:
            checkpoints.append(CheckpointFiles(version, tuple(found[part] for part in sorted(found))))
    # The sort is stable: within a version, a single file comes before a multi-part checkpoint.
    checkpoints.sort(key=lambda checkpoint: -checkpoint.version)
    return LogListing(start_version, commits, tuple(compacted), tuple(checkpoints), has_log_files, is_being_dropped)


def look_ahead(store: ObjectStore, start_version: int, *, at_most: int) -> LogListing | None:
    """The commits from `start_version` on, found by requesting one name after the other; no checkpoints.

    Where a listing reads a whole directory, the cost of this does not depend on the length of the log. None when there
    are more than `at_most`, or there is a gap: then a listing is needed.
    """
    commits: dict[int, ObjectMeta] = {}
    for version in range(start_version, start_version + at_most):
        found = _commit(store, version)
        if found is None:
            is_last = _commit(store, version + 1) is None
            return LogListing(start_version, commits, has_log_files=bool(commits)) if is_last else None
        commits[version] = found
    return None


def _commit(store: ObjectStore, version: int) -> ObjectMeta | None:
    try:
        return store.head(log_path(commit_name(version)))
    except ObjectNotFoundError:
        return None


def last_checkpoint_version(store: ObjectStore) -> int | None:
    """The version that `_last_checkpoint` names; None when the file is missing or makes no sense."""
    source = log_path(LAST_CHECKPOINT)
    try:
        data = store.read(source, max_bytes=_MAX_LAST_CHECKPOINT_BYTES)
        return JsonFields(load_json_object(data, source=source), subject=LAST_CHECKPOINT).integer("version", minimum=0)
    except (CorruptTableError, ObjectNotFoundError):
        return None
