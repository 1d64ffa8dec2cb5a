"""What is a commit about to do to which table?

A `Proposal` puts the staged actions next to the state they would change, with every lookup done once, so that a check
is a few lines about one rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from ebbtide.errors import InternalError
from ebbtide.log import Snapshot
from ebbtide.log.identity import canonical_column, path_of_key
from ebbtide.protocol.actions import Action, AddFile, Metadata, Protocol, RemoveFile
from ebbtide.protocol.schema import StructType, parse_schema
from ebbtide.transaction.file_changes import live_files_at
from ebbtide.transaction.operation import Operation

__all__ = ["LiveFile", "Proposal"]

_T = TypeVar("_T", Protocol, Metadata)


@dataclass(frozen=True, slots=True)
class LiveFile:
    """What a check needs to know of a file that is live before the commit."""

    dv_id: str | None
    base_row_id: int | None
    default_row_commit_version: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    actions: tuple[Action, ...]
    operation: Operation
    # None when the commit creates the table.
    base: Snapshot | None
    # As they will be after the commit.
    protocol: Protocol
    metadata: Metadata
    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]
    changes_protocol: bool
    changes_metadata: bool
    # Spelling in the log to canonical form, for every path of `adds` and `removes`.
    canonical: Mapping[str, str]
    # Live files at those paths, by canonical path.
    live: Mapping[str, LiveFile]
    # The same as (canonical path, vector id): a table under repair may have a path that is live twice.
    live_pairs: frozenset[tuple[str, str | None]]

    @classmethod
    def of(cls, actions: Sequence[Action], operation: Operation, base: Snapshot | None, table_url: str) -> Proposal:
        adds = tuple(action for action in actions if isinstance(action, AddFile))
        removes = tuple(action for action in actions if isinstance(action, RemoveFile))
        canonical = _canonical([*(add.path for add in adds), *(remove.path for remove in removes)], table_url)
        new_protocol, new_metadata = _single(Protocol, actions), _single(Metadata, actions)
        protocol = new_protocol or (base.protocol if base else None)
        metadata = new_metadata or (base.metadata if base else None)
        if protocol is None or metadata is None:
            raise InternalError("the first commit of a table must hold its protocol and its metadata")
        found = [] if base is None else _live(base, set(canonical.values()))
        return cls(
            actions=tuple(actions),
            operation=operation,
            base=base,
            protocol=protocol,
            metadata=metadata,
            adds=adds,
            removes=removes,
            changes_protocol=new_protocol is not None,
            changes_metadata=new_metadata is not None,
            canonical=canonical,
            live=dict(found),
            live_pairs=frozenset((path, file.dv_id) for path, file in found),
        )

    @property
    def schema(self) -> StructType:
        if self.base is not None and not self.changes_metadata:
            return self.base.schema
        return parse_schema(self.metadata.schema_string)

    def live_at(self, file: AddFile | RemoveFile) -> LiveFile | None:
        """The file that is live at the same path before the commit, whatever its deletion vector."""
        return self.live.get(self.canonical[file.path])


def _single(kind: type[_T], actions: Sequence[Action]) -> _T | None:
    found = [action for action in actions if isinstance(action, kind)]
    if len(found) > 1:
        raise InternalError(f"a commit may change the {kind.__name__.lower()} only once, but {len(found)} are staged")
    return found[0] if found else None


def _canonical(paths: list[str], table_url: str) -> dict[str, str]:
    if not paths:
        return {}
    return dict(zip(paths, canonical_column(pa.array(paths, pa.string()), table_url).to_pylist(), strict=True))


def _live(base: Snapshot, canonical: set[str]) -> list[tuple[str, LiveFile]]:
    found = live_files_at(base, canonical)
    base_row_ids = found.files.column("base_row_id").to_pylist()
    commit_versions = found.files.column("default_row_commit_version").to_pylist()
    return [
        (path_of_key(key), LiveFile(key.partition("\x00")[2] or None, base_row_id, commit_version))
        for key, base_row_id, commit_version in zip(found.keys, base_row_ids, commit_versions, strict=True)
    ]
