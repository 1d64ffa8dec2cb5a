"""Which malformed file actions still matter?

An `add` whose fields break the protocol is no reason to refuse a table when a later commit removed that file, or added
it again: it is no longer part of the table. `MalformedFileActions` sets such actions aside, of commits and of
checkpoints, until the later commits are known. One that does not say which file it means is never replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.errors import CorruptTableError, DeltaError
from ebbtide.log.file_tables import deletion_vector_ids
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor

__all__ = ["MalformedFileActions"]

# A log with more of them is broken as a whole, and errors are larger than actions.
_MAX_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class _Malformed:
    version: int
    # (path, vector id) as the log spells them; None when the action does not say which file it means.
    key: tuple[str, str | None] | None
    error: CorruptTableError


@dataclass(slots=True)
class MalformedFileActions:
    _kept: list[_Malformed] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self._kept) >= _MAX_KEPT

    def add(self, body: Any, version: int, error: CorruptTableError) -> None:
        if not self.is_full:
            self._kept.append(_Malformed(version, _key(body), error))
        else:
            # Without a key nothing replaces it, so the first error is raised in the end.
            self._kept[-1] = _Malformed(version, None, self._kept[0].error)

    def extend(self, others: MalformedFileActions) -> None:
        self._kept += others._kept

    def ensure_replaced(self, later: Iterable[tuple[Sequence[pa.RecordBatch], Sequence[int]]]) -> None:
        """Raise the error of the first action that no well-formed action of a later version replaces."""
        if not self._kept:
            return
        paths = pa.array(sorted({action.key[0] for action in self._kept if action.key is not None}), pa.string())
        newest = _newest_versions(later, paths)
        for action in self._kept:
            if action.key is None or newest.get(action.key, -1) <= action.version:
                raise action.error


def _newest_versions(
    actions: Iterable[tuple[Sequence[pa.RecordBatch], Sequence[int]]], paths: pa.StringArray
) -> dict[tuple[str, str | None], int]:
    newest: dict[tuple[str, str | None], int] = {}
    for batches, versions in actions:
        start = 0
        for batch in batches:
            rows = pc.indices_nonzero(pc.is_in(batch.column("path"), value_set=paths))
            found = batch.take(rows)
            ids = deletion_vector_ids(found.column("deletion_vector")).to_pylist()
            for row, path, vector_id in zip(rows.to_pylist(), found.column("path").to_pylist(), ids, strict=True):
                key = (path, vector_id)
                newest[key] = max(newest.get(key, -1), versions[start + row])
            start += batch.num_rows
    return newest


def _key(body: Any) -> tuple[str, str | None] | None:
    path = body.get("path") if isinstance(body, Mapping) else None
    if not isinstance(path, str) or not path:
        return None
    vector = body.get("deletionVector")
    if vector is None:
        return path, None
    try:
        return path, DeletionVectorDescriptor.from_json(vector).unique_id
    except DeltaError:
        return None
