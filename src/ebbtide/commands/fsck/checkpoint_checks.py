"""Is every checkpoint whole, and does it say what the commits say?

Walks from the oldest checkpoint to the newest. Where all commits in between are there, the state is carried forward
by them and compared with the next checkpoint: the commits are the truth. One state and one checkpoint are in memory at
a time. Version checksums are compared with the same states, and `_last_checkpoint` with what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.commands.fsck import findings
from ebbtide.commands.fsck.log_checks import LogFiles
from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError, ObjectNotFoundError
from ebbtide.log.checkpoint import open_checkpoint
from ebbtide.log.last_checkpoint import json_checksum
from ebbtide.log.listing import CheckpointFiles
from ebbtide.log.replay import LiveFiles
from ebbtide.log.segment import cover
from ebbtide.log.small_actions import SmallActions
from ebbtide.log.table_state import scan_log_files
from ebbtide.protocol.actions import Metadata
from ebbtide.protocol.json_fields import JsonFields, load_json_object
from ebbtide.protocol.log_names import LAST_CHECKPOINT, log_path
from ebbtide.storage import ObjectStore

__all__ = ["check_checkpoints", "check_checksum", "check_last_checkpoint"]

# Commits are carried forward this many at a time, so that a log of any length takes bounded memory.
_COMMITS_AT_ONCE: Final = 1000
_MAX_HINT_BYTES: Final = 16 * 1024 * 1024
_MAX_CHECKSUM_BYTES: Final = 256 * 1024 * 1024
_Unusable = (CorruptTableError, ObjectNotFoundError)


@dataclass(frozen=True, slots=True)
class _State:
    """What commits, or a checkpoint, say about a version."""

    version: int
    live: LiveFiles
    small: SmallActions


@dataclass(frozen=True, slots=True)
class _Broken:
    kind: Callable[..., findings.Finding]
    path: str
    version: int
    problem: str | CorruptTableError


def check_checkpoints(
    store: ObjectStore, log: LogFiles, config: EngineConfig, on_progress: Callable[[int, int], None]
) -> Iterator[findings.Finding]:
    """Every checkpoint that is broken, or disagrees with its commits."""
    walk = _Walk(store, log, config)
    checkpoints = sorted(log.listing.checkpoints, key=lambda files: files.version)
    broken = [_incomplete(found.version, found.path, found.missing_parts, found.parts) for found in log.incomplete]
    newest_whole = -1
    for version, of_version in groupby(checkpoints, key=lambda files: files.version):
        walk.advance(version)
        for files in of_version:
            opened = walk.open(files)
            if isinstance(opened, _Broken):
                broken.append(opened)
                continue
            newest_whole = version
            yield from walk.compare(files.files[0].path, opened)
        yield from walk.compare_checksum()
        on_progress(version, checkpoints[-1].version)
    for found in broken:
        # A whole checkpoint of the same version does as well as a newer one.
        is_replaced = newest_whole >= found.version
        yield found.kind(found.path, found.version, found.problem, is_replaced=is_replaced)


class _Walk:
    def __init__(self, store: ObjectStore, log: LogFiles, config: EngineConfig) -> None:
        self.store, self.log, self.config = store, log, config
        # As the commits say; None where commits are missing or broken, until the next whole checkpoint.
        self.state: _State | None = _State(-1, LiveFiles(), SmallActions())

    def advance(self, version: int) -> None:
        """Carry the state forward by commits."""
        while self.state is not None and self.state.version < version:
            target = min(version, self.state.version + _COMMITS_AT_ONCE)
            self.state = self._after_commits(self.state, target)

    def _after_commits(self, state: _State, target: int) -> _State | None:
        try:
            log_files = cover(
                self.log.listing, state.version + 1, target, table_url=self.store.url, use_compacted=False
            )
            scan = scan_log_files(self.store, tuple(log_files), self.config)
            adds, removes = scan.file_actions()
            live = state.live.replay(adds, removes, self.store.url, allow_repeats=True)
            small = scan.small.after(state.small)
            small.ensure_well_formed()
        except _Unusable:
            return None
        return _State(target, live, small)

    def open(self, files: CheckpointFiles) -> _State | _Broken:
        path = files.files[0].path
        try:
            checkpoint = open_checkpoint(self.store, files, self.config)
            checkpoint.small.ensure_well_formed()
            if checkpoint.small.protocol is None or checkpoint.small.metadata is None:
                return _Broken(findings.corrupt_checkpoint, path, files.version, "it has no protocol or no metadata")
            live = LiveFiles.of_checkpoint(checkpoint.live_files(), self.store.url, allow_repeats=True)
            checkpoint.tombstones()
        except ObjectNotFoundError as error:
            return _Broken(findings.incomplete_checkpoint, path, files.version, f"a file of it is missing ({error})")
        except CorruptTableError as error:
            return _Broken(findings.corrupt_checkpoint, path, files.version, error)
        return _State(files.version, live, checkpoint.small)

    def compare(self, path: str, checkpoint: _State) -> Iterator[findings.Finding]:
        if self.state is None:
            self.state = checkpoint
            return
        problem = next(_differences(self.state, checkpoint), None)
        if problem is not None:
            yield findings.checkpoint_disagrees(path, checkpoint.version, problem)

    def compare_checksum(self) -> Iterator[findings.Finding]:
        if self.state is not None:
            small = self.state.small
            yield from check_checksum(self.store, self.log, self.state.version, self.state.live, small.metadata)


def _incomplete(version: int, path: str, missing: tuple[int, ...], parts: int) -> _Broken:
    shown = f"part {missing[0]}" if len(missing) == 1 else f"the parts {', '.join(map(str, missing))}"
    return _Broken(findings.incomplete_checkpoint, path, version, f"it lacks {shown} of {parts}")


def _differences(commits: _State, checkpoint: _State) -> Iterator[str]:
    """How the checkpoint differs, the gravest first."""
    ours, theirs = commits.live.keys(), checkpoint.live.keys()
    lost = ours.filter(pc.invert(pc.is_in(ours, value_set=theirs)))
    extra = theirs.filter(pc.invert(pc.is_in(theirs, value_set=ours)))
    if len(lost):
        yield f"it lacks {len(lost)} of {len(ours)} files, such as '{_path(lost)}'"
    if len(extra):
        yield f"it has {len(extra)} files that the commits do not, such as '{_path(extra)}'"
    if commits.live.size_in_bytes != checkpoint.live.size_in_bytes:
        yield "it gives its files other sizes"
    if commits.small.protocol != checkpoint.small.protocol:
        yield "it has another protocol"
    before, after = commits.small.metadata, checkpoint.small.metadata
    if before is not None and after is not None and _definition(before) != _definition(after):
        yield "it has another schema, other properties or other partition columns"
    if _domains(commits.small) != _domains(checkpoint.small):
        yield "it has other metadata domains"


def _path(keys: pa.StringArray) -> str:
    return str(keys[0].as_py()).partition("\x00")[0]


def _definition(metadata: Metadata) -> Metadata:
    # Not every writer keeps the rest in its checkpoints.
    return replace(metadata, name=None, description=None, created_time=None, format_options={})


def _domains(small: SmallActions) -> dict[str, str]:
    return {name: domain.configuration for name, domain in small.domain_metadata.items() if not domain.removed}


# --- the hint and the checksum ----------------------------------------------------------------------------------------


def check_last_checkpoint(store: ObjectStore, log: LogFiles) -> Iterator[findings.Finding]:
    """Where the hint leads. A table without one is fine."""
    path = log_path(LAST_CHECKPOINT)
    version: int | None = None
    try:
        hint = load_json_object(store.read(path, max_bytes=_MAX_HINT_BYTES), source=path)
        version = JsonFields(hint, subject=LAST_CHECKPOINT).integer("version", minimum=0)
        checksum = JsonFields(hint, subject=LAST_CHECKPOINT).optional_string("checksum")
    except ObjectNotFoundError:
        return
    except CorruptTableError as error:
        yield findings.bad_last_checkpoint(path, None, error)
        return
    if checksum is not None and checksum != json_checksum(hint):
        yield findings.bad_last_checkpoint(path, version, "its own checksum is not that of its content")
    elif not any(files.version == version for files in log.listing.checkpoints):
        yield findings.bad_last_checkpoint(path, version, f"it names version {version}, which has no whole checkpoint")


def check_checksum(
    store: ObjectStore, log: LogFiles, version: int, live: LiveFiles, metadata: Metadata | None
) -> Iterator[findings.Finding]:
    """Whether the version checksum, where there is one, fits the state of its version."""
    meta = log.checksums.get(version)
    if meta is None:
        return
    try:
        found = load_json_object(store.read(meta.path, max_bytes=_MAX_CHECKSUM_BYTES), source=meta.path)
    except ObjectNotFoundError:
        return
    except CorruptTableError as error:
        yield findings.checksum_disagrees(meta.path, version, error)
        return
    for name, value in _state_numbers(live).items():
        stated = found.get(name)
        if isinstance(stated, int) and not isinstance(stated, bool) and stated != value:
            yield findings.checksum_disagrees(meta.path, version, f"{name} is {stated}, but it should be {value}")
            return
    stated = found.get("metadata")
    identifier = stated.get("id") if isinstance(stated, dict) else None
    if metadata is not None and isinstance(identifier, str) and identifier != metadata.id:
        yield findings.checksum_disagrees(meta.path, version, "it belongs to a table with another id")


def _state_numbers(live: LiveFiles) -> dict[str, Any]:
    cardinalities = pc.struct_field(live.table().column("deletion_vector"), "cardinality").drop_null()
    return {
        "numFiles": live.num_files,
        "tableSizeBytes": live.size_in_bytes,
        "numMetadata": 1,
        "numProtocol": 1,
        "numDeletedRecordsOpt": sum(cardinalities.to_pylist()),
        "numDeletionVectorsOpt": len(cardinalities),
    }
