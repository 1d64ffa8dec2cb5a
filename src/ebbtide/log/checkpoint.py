"""What does a checkpoint say?

A checkpoint is the state of one version: classic (one Parquet file), multi-part (several), or V2 (one JSON or Parquet
file that may name sidecar files holding the file actions). `open_checkpoint` reads the small part first, so that the
feature gate can refuse the table before its files are looked at; `live_files` and `tombstones` read the rest on demand.
Everything unreadable is CorruptTableError or ObjectNotFoundError: the caller may then try another checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError
from ebbtide.log.commit_scan import CommitScan
from ebbtide.log.foreign_columns import ADD_CHILDREN, REMOVE_CHILDREN, live_file_batch, tombstone_batch
from ebbtide.log.listing import CheckpointFiles
from ebbtide.log.malformed_actions import MalformedFileActions
from ebbtide.log.memory_budget import MemoryBudget
from ebbtide.log.parquet_source import ParquetSource, translate_errors
from ebbtide.log.small_actions import SmallActions
from ebbtide.protocol.actions import Sidecar
from ebbtide.protocol.paths import resolve_sidecar_path
from ebbtide.storage.prefetch import prefetch
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["Checkpoint", "open_checkpoint"]

# The child that is never null in a present action; some writers store absent actions as structs of nulls.
_IDENTIFYING_CHILD = {
    "protocol": "minReaderVersion",
    "metaData": "id",
    "txn": "appId",
    "domainMetadata": "domain",
    "checkpointMetadata": "version",
    "sidecar": "path",
}
# Python objects are many times larger than columns, so they are made a few at a time.
_ROWS_AT_A_TIME = 4096


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The small actions of a checkpoint, and access to its file actions."""

    version: int
    _scan: CommitScan
    _sources: tuple[ParquetSource, ...]
    _sidecars: tuple[ObjectMeta, ...]
    _is_json: bool
    _store: ObjectStore
    _budget: MemoryBudget

    @property
    def small(self) -> SmallActions:
        """Everything but file actions."""
        return self._scan.small

    @property
    def sidecar_paths(self) -> tuple[str, ...]:
        """The sidecar files that this checkpoint names, as paths below the table root."""
        return tuple(sidecar.path for sidecar in self._sidecars)

    def live_files(self, malformed: MalformedFileActions | None = None) -> list[pa.RecordBatch]:
        """Rows of `LIVE_FILES_SCHEMA`.

        Malformed actions are set aside in `malformed`: later commits may replace them. Without it, the first is raised.
        """
        found = MalformedFileActions()
        batches: list[pa.RecordBatch] = []
        if self._is_json:
            adds, bad_adds = self._scan.well_formed_adds()
            batches += adds.batches
            found.extend(bad_adds)
        for source in self._file_sources():
            batches += _live_files(source, self.version, found)
            if found.is_full:
                break
        if malformed is None or found.is_full:
            # Nothing comes later, so this raises the first.
            found.ensure_replaced(())
        else:
            malformed.extend(found)
        return batches

    def tombstones(self) -> list[pa.RecordBatch]:
        """Rows of `TOMBSTONES_SCHEMA`."""
        batches: list[pa.RecordBatch] = []
        if self._is_json:
            removes, bad_removes = self._scan.well_formed_removes()
            bad_removes.ensure_replaced(())
            batches += removes.batches
        for source in self._file_sources():
            with translate_errors(source.name):
                for rows in source.rows("remove", REMOVE_CHILDREN):
                    batches.append(tombstone_batch(_drop_absent(rows, "path", source.name), source=source.name))
        return batches

    def _file_sources(self) -> Iterator[ParquetSource]:
        yield from self._sources
        yield from prefetch(partial(ParquetSource, self._store, budget=self._budget), self._sidecars)


def open_checkpoint(store: ObjectStore, files: CheckpointFiles, config: EngineConfig) -> Checkpoint:
    """Read everything but the file actions."""
    scan = CommitScan(config)
    budget = MemoryBudget(config)
    sources: tuple[ParquetSource, ...] = ()
    if files.is_json:
        name = files.files[0].path
        scan.read(store.read(name, max_bytes=config.max_commit_bytes), version=files.version, source=name)
    else:
        sources = tuple(prefetch(partial(ParquetSource, store, budget=budget), files.files))
        scan.small.take(chain.from_iterable(map(_small_actions, sources)), files.files[0].path)
    header = scan.small.checkpoint_metadata
    if header is not None and header.version != files.version:
        raise CorruptTableError(
            f"{files.files[0].path} says that it is the checkpoint of version {header.version}, not {files.version}"
        )
    return Checkpoint(
        version=files.version,
        _scan=scan,
        _sources=sources,
        _sidecars=tuple(_sidecar_meta(store, sidecar) for sidecar in scan.small.sidecars.values()),
        _is_json=files.is_json,
        _store=store,
        _budget=budget,
    )


def _sidecar_meta(store: ObjectStore, sidecar: Sidecar) -> ObjectMeta:
    # The size only decides how the file is fetched; a wrong one surfaces when the file is parsed.
    path = resolve_sidecar_path(sidecar.path, store.url)
    return ObjectMeta(path, sidecar.size_in_bytes, sidecar.modification_time)


def _small_actions(source: ParquetSource) -> Iterator[tuple[str, Any]]:
    for action, child in _IDENTIFYING_CHILD.items():
        for rows in source.rows(action):
            with translate_errors(source.name):
                found = _drop_absent(rows, child, source.name)
            for start in range(0, len(found), _ROWS_AT_A_TIME):
                with translate_errors(source.name):
                    values = found.slice(start, _ROWS_AT_A_TIME).to_pylist()
                yield from ((action, value) for value in values)


def _drop_absent(rows: pa.StructArray, child: str, source: str) -> pa.StructArray:
    index = rows.type.get_field_index(child)
    if index < 0:
        raise CorruptTableError(f"{source} has a column of actions without their field '{child}'")
    identity = rows.flatten()[index]
    return rows.filter(identity.is_valid()) if identity.null_count else rows


def _live_files(source: ParquetSource, version: int, malformed: MalformedFileActions) -> list[pa.RecordBatch]:
    struct = source.children("add")
    if struct is None:
        return []
    present = {field.name for field in struct}
    children = list(ADD_CHILDREN)
    # The typed twins of these columns are large and only read where the plain ones are missing.
    children += [f"{name}_parsed" for name in ("partitionValues", "stats") if name not in present]
    found = MalformedFileActions()
    batches = _add_batches(source, children, version, found)
    if {"stats", "stats_parsed"} <= present and any(batch.column("stats").null_count for batch in batches):
        found = MalformedFileActions()
        batches = _add_batches(source, [*children, "stats_parsed"], version, found)
    malformed.extend(found)
    return batches


def _add_batches(
    source: ParquetSource, children: list[str], version: int, malformed: MalformedFileActions
) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = []
    for rows in source.rows("add", children):
        with translate_errors(source.name):
            files = _drop_absent(rows, "path", source.name)
            size = rows.type.get_field_index("size")
            # An empty struct is an absent action, but a file with a size and no path would be lost.
            if len(files) < len(rows) and len(rows) - rows.flatten()[size].null_count > len(files):
                raise CorruptTableError(f"field 'add.path' is missing in rows of {source.name}")
        batches += _well_formed(files, source.name, version, malformed)
    return batches


def _well_formed(
    files: pa.StructArray, source: str, version: int, malformed: MalformedFileActions
) -> list[pa.RecordBatch]:
    """The rows without the malformed ones, which are set aside. Nearly always there are none."""
    try:
        with translate_errors(source):
            return [live_file_batch(files, source=source)]
    except CorruptTableError as error:
        if malformed.is_full or not len(files):
            raise
        if len(files) == 1:
            malformed.add(_identity(files, source), version, error)
            return []
    half = len(files) // 2
    return [batch for part in (files[:half], files[half:]) for batch in _well_formed(part, source, version, malformed)]


def _identity(files: pa.StructArray, source: str) -> dict[str, Any] | None:
    """What says which file a single row means; None where even that cannot be read."""
    names = [field.name for field in files.type if field.name in {"path", "deletionVector"}]
    try:
        with translate_errors(source):
            return {name: files.field(name).to_pylist()[0] for name in names}
    except CorruptTableError:
        return None
