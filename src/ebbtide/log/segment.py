"""Which log files make up one version of the table?

A `Segment` is the newest usable checkpoint at or before the version plus everything committed after it. Segments are
proposed best first: if the files of the first turn out to be unreadable, the next one starts at an older checkpoint,
and the last one uses the commits alone. Only names are read here.

Guarantees of a `Segment`:
- its log files cover every version after the checkpoint (or from 0) up to its version, each once, ascending;
- a compacted file replaces its commits wherever it fits (unless the caller asks otherwise).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ebbtide.errors import CorruptTableError, TableNotFoundError, VersionNotFoundError
from ebbtide.log.listing import CheckpointFiles, LogListing, last_checkpoint_version, list_log
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["LogFile", "Segment", "cover", "earliest_version", "find_log", "segments"]


@dataclass(frozen=True, slots=True)
class LogFile:
    """A commit (`version` == `end_version`) or a compacted run of commits."""

    version: int
    end_version: int
    file: ObjectMeta

    @property
    def is_compacted(self) -> bool:
        return self.version != self.end_version


@dataclass(frozen=True, slots=True)
class Segment:
    version: int
    checkpoint: CheckpointFiles | None
    log_files: tuple[LogFile, ...]
    # The commit that made `version`, when it was not cleaned up; its time is the version's time.
    commit: ObjectMeta | None


def find_log(store: ObjectStore, *, version: int | None = None) -> LogListing:
    """The part of the log that `version` (None: the newest) needs. TableNotFoundError when there is no log."""
    hint = last_checkpoint_version(store)
    if hint and (version is None or hint <= version):
        listing = list_log(store, start_version=hint)
        # Only a checkpoint at the hint itself makes the older files unnecessary; the error for a missing version needs
        # them all.
        is_found = any(checkpoint.version == hint for checkpoint in listing.checkpoints)
        if is_found and (version is None or version <= (listing.latest_version or 0)):
            return listing
    listing = list_log(store)
    if not listing.has_log_files:
        raise TableNotFoundError(
            f"There is no Delta table at {store.url}: its _delta_log directory is missing or holds no log files. "
            "Check the path, or create the table first."
        )
    return listing


def segments(listing: LogListing, *, version: int | None, table_url: str) -> Iterator[Segment]:
    """Every way to build `version` (None: the newest) from these files, best first; at least one, or an error.

    CorruptTableError when commits are missing, VersionNotFoundError when the version does not exist (yet, or any more).
    """
    latest = listing.latest_version
    if latest is None:
        raise CorruptTableError(
            f"the log of {table_url} has neither a commit nor a complete checkpoint; {_why_lost(listing)}",
            error_class="DELTA_TRUNCATED_TRANSACTION_LOG",
        )
    target = latest if version is None else version
    if target > latest or target < 0:
        raise _no_such_version_error(listing, target, latest, table_url)
    is_first = True
    for checkpoint in (*(c for c in listing.checkpoints if c.version <= target), None):
        first = 0 if checkpoint is None else checkpoint.version + 1
        if first < listing.start_version:
            continue
        try:
            log_files = cover(listing, first, target, table_url=table_url)
        except CorruptTableError:
            # An older checkpoint needs these commits as well, so only the first proposal raises.
            if not is_first:
                return
            if checkpoint is None and _starts_late(listing):
                raise _truncated_log_error(listing, target, version, latest, table_url) from None
            raise
        is_first = False
        commit = listing.commits.get(target)
        yield Segment(target, checkpoint, tuple(log_files), commit)
        if any(log_file.is_compacted for log_file in log_files):
            try:
                log_files = cover(listing, first, target, table_url=table_url, use_compacted=False)
            except CorruptTableError:
                continue
            yield Segment(target, checkpoint, tuple(log_files), commit)


def cover(listing: LogListing, first: int, target: int, *, table_url: str, use_compacted: bool = True) -> list[LogFile]:
    """Log files that cover `first` to `target` without a gap; CorruptTableError names the versions that are missing."""
    ends: dict[int, LogFile] = {}
    if use_compacted:
        for run in listing.compacted:
            known = ends.get(run.version)
            if run.end_version <= target and (known is None or run.end_version > known.end_version):
                ends[run.version] = LogFile(run.version, run.end_version, run.file)
    log_files: list[LogFile] = []
    version = first
    while version <= target:
        commit = listing.commits.get(version)
        log_file = ends.get(version) or (LogFile(version, version, commit) if commit else None)
        if log_file is None:
            raise _gap_error(listing, first, target, version, table_url)
        log_files.append(log_file)
        version = log_file.end_version + 1
    return log_files


def earliest_version(listing: LogListing) -> int | None:
    """The oldest version that can still be rebuilt; None when no version can. Needs a listing from version 0 on."""
    if 0 in listing.commits:
        return 0
    return listing.checkpoints[-1].version if listing.checkpoints else None


def _why_lost(listing: LogListing) -> str:
    return "a DROP TABLE did not finish; run it again" if listing.is_being_dropped else "files were lost"


def _starts_late(listing: LogListing) -> bool:
    return 0 not in listing.commits and not any(run.version == 0 for run in listing.compacted)


def _gap_error(listing: LogListing, first: int, target: int, missing: int, table_url: str) -> CorruptTableError:
    present = sorted(version for version in listing.commits if first <= version <= target)
    after = next((version for version in present if version > missing), target)
    shown = str(missing) if after <= missing + 1 else f"{missing} to {after - 1}"
    return CorruptTableError(
        f"the log of {table_url} is not contiguous: version {shown} is missing and needed for version {target}. "
        "Restore the file, or read a version before the gap.",
        error_class="DELTA_VERSIONS_NOT_CONTIGUOUS",
    )


def _truncated_log_error(
    listing: LogListing, target: int, version: int | None, latest: int, table_url: str
) -> CorruptTableError | VersionNotFoundError:
    if version is not None and earliest_version(listing) is not None:
        return _no_such_version_error(listing, target, latest, table_url)
    return CorruptTableError(
        f"the log of {table_url} starts at version {min(listing.commits, default=target)} without a complete "
        f"checkpoint at or before version {target}, so that version cannot be rebuilt; {_why_lost(listing)}",
        error_class="DELTA_TRUNCATED_TRANSACTION_LOG",
    )


def _no_such_version_error(listing: LogListing, target: int, latest: int, table_url: str) -> VersionNotFoundError:
    earliest = earliest_version(listing)
    known = f"versions {latest if earliest is None else earliest} to {latest} are available"
    reason = "does not exist yet" if target > latest else "does not exist" if target < 0 else "was cleaned up"
    return VersionNotFoundError(f"version {target} of the table at {table_url} {reason}; {known}")
