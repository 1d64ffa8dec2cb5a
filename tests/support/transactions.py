"""How does a test make a table, stage hand-made actions and commit them, without data, JVM or waiting?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.log_builder import LogBuilder, metadata, protocol

from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.actions import Action, AddFile, RemoveFile, parse_action
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Clock, Committed, Operation, Transaction

__all__ = [
    "DV_TABLE",
    "FakeTime",
    "add_file",
    "append",
    "as_action",
    "begin",
    "commit",
    "live_paths",
    "make_table",
    "mark_actions",
    "operation",
    "remove_of",
    "vector_of",
]

START_MS = 1_800_000_000_000
# Options of `make_table` for a table that may have deletion vectors.
DV_TABLE: dict[str, Any] = {
    "features": ["deletionVectors"],
    "configuration": {"delta.enableDeletionVectors": "true"},
}


@dataclass
class FakeTime:
    """A clock that moves only when asked, and remembers the waits instead of waiting."""

    now: int = START_MS
    waits: list[float] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return Clock(now_ms=lambda: self.now, sleep=self.waits.append, random=lambda: 1.0)


def make_table(
    store: ObjectStore | None = None,
    *files: AddFile,
    features: Sequence[str] | None = None,
    writer_features: Sequence[str] = (),
    **metadata_options: Any,
) -> Any:
    """A store with version 0 of a table that holds the files."""
    log = LogBuilder(store)
    extra = {}
    if writer_features:
        readers = list(features or ())
        extra = {"readerFeatures": readers, "writerFeatures": [*readers, *writer_features]}
        features = readers
    first = [protocol(features=features, **extra), metadata(**metadata_options)]
    log.commit(0, [*first, *({"add": file.to_json()} for file in files)])
    return log.store


def as_action(obj: dict[str, Any]) -> Any:
    return parse_action(obj)


def vector_of(*rows: int) -> DeletionVectorDescriptor:
    """A descriptor whose identity is the set of rows. Nobody in the transaction room reads the vector itself."""
    return DeletionVectorDescriptor.inline_in_log(bytes(rows).ljust(max(4, len(rows)), b"\xff"), len(rows))


def add_file(
    path: str,
    *,
    rows: int = 10,
    partition: dict[str, str | None] | None = None,
    vector: DeletionVectorDescriptor | None = None,
    data_change: bool = True,
    **extra: Any,
) -> AddFile:
    stats = f'{{"numRecords":{rows},"tightBounds":{"false" if vector else "true"}}}'
    return AddFile(path, partition or {}, 100, 1, data_change, **{"stats": stats, "deletion_vector": vector, **extra})


def remove_of(file: AddFile, *, data_change: bool = True) -> RemoveFile:
    return file.remove(START_MS, data_change=data_change)


def mark_actions(file: AddFile, *rows: int) -> list[Action]:
    """The two actions that give a file the vector of these rows."""
    new = add_file(file.path, partition=dict(file.partition_values), vector=vector_of(*rows))
    return [new, remove_of(file)]


def operation(name: str = "WRITE", **extra: Any) -> Operation:
    return Operation(name, **extra)


def begin(
    store: ObjectStore, *, time: FakeTime | None = None, hint: Snapshot | None = None, **options: Any
) -> Transaction:
    return Transaction.begin(store, hint=hint, clock=(time or FakeTime()).clock, **options)


def commit(store: ObjectStore, *actions: Action, name: str = "WRITE") -> Committed:
    """One commit by somebody who reads nothing."""
    return begin(store).commit(actions, operation(name))


def append(store: ObjectStore, *paths: str) -> Committed:
    return commit(store, *(add_file(path) for path in paths))


def live_paths(store: ObjectStore) -> set[str]:
    return {file.path for file in load_snapshot(store).add_files()}
