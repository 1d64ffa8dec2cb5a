"""What do the JSON files of a log say, read in order?

`CommitScan` takes the bytes of commits, compacted log files or JSON checkpoints, oldest first, and keeps what replay
needs: the `SmallActions`, and the file actions as Arrow batches. Which files are live is decided by `replay`.

The error of a malformed file action is kept for `file_actions`, which raises it unless a later action is about the same
file. Callers pass the feature gate first, because a table that this engine cannot read may hold actions that look
different. Broken JSON is refused at once: nobody can tell what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError
from ebbtide.log.action_columns import add_batch, remove_batch
from ebbtide.log.malformed_actions import MalformedFileActions
from ebbtide.log.small_actions import SMALL_ACTIONS, SmallActions
from ebbtide.protocol.actions import AddFile, RemoveFile, parse_action
from ebbtide.protocol.json_fields import load_json_object

__all__ = ["CommitScan", "FileActions"]

# Parsed JSON is large; it is converted to Arrow once this many actions have accumulated.
_ACTIONS_PER_BATCH = 16384
_KNOWN_ACTIONS = SMALL_ACTIONS | {"add", "remove", "cdc"}


@dataclass(frozen=True, slots=True)
class FileActions:
    """The `add` or `remove` actions of consecutive log files, in log order.

    `versions[i]` is the version of the log file that row i came from; a compacted file counts as its last version.
    """

    batches: tuple[pa.RecordBatch, ...] = ()
    versions: tuple[int, ...] = ()

    @property
    def num_rows(self) -> int:
        return len(self.versions)


@dataclass(slots=True)
class _Pending:
    """File actions of one kind: the Python objects, and the batches already converted to Arrow."""

    to_batch: Callable[..., pa.RecordBatch]
    parse: Callable[..., AddFile | RemoveFile]
    objects: list[Any] = field(default_factory=list)
    # How many of the objects came from which log file, and its version.
    origins: list[tuple[int, int, str]] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    malformed: MalformedFileActions = field(default_factory=MalformedFileActions)

    def extend(self, objects: list[Any], version: int, source: str) -> None:
        if objects:
            self.objects += objects
            self.origins.append((len(objects), version, source))
            if len(self.objects) >= _ACTIONS_PER_BATCH:
                self.flush()

    def flush(self) -> None:
        if self.objects:
            try:
                batch = self.to_batch(self.objects, source="the log")
                versions = [version for count, version, _ in self.origins for _ in range(count)]
            except CorruptTableError:
                objects, versions = self._well_formed()
                batch = self.to_batch(objects, source="the log")
            self.batches.append(batch)
            self.versions += versions
            self.objects = []
            self.origins = []

    def _well_formed(self) -> tuple[list[Any], list[int]]:
        """The pending objects that follow the protocol, and their versions; the others are set aside."""
        objects: list[Any] = []
        versions: list[int] = []
        start = 0
        for count, version, source in self.origins:
            for body in self.objects[start : start + count]:
                try:
                    self.parse(body, source=source)
                except CorruptTableError as error:
                    self.malformed.add(body, version, error)
                else:
                    objects.append(body)
                    versions.append(version)
            start += count
        return objects, versions

    def actions(self) -> FileActions:
        return FileActions(tuple(self.batches), tuple(self.versions))


class CommitScan:
    def __init__(self, config: EngineConfig) -> None:
        self._max_line_bytes = config.max_log_line_bytes
        self._adds = _Pending(add_batch, AddFile.from_json)
        self._removes = _Pending(remove_batch, RemoveFile.from_json)
        self.small = SmallActions()

    def read(self, data: bytes, *, version: int, source: str) -> None:
        """Take in one log file. `source` names it in errors."""
        adds: list[Any] = []
        removes: list[Any] = []
        others: list[tuple[str, Any]] = []
        for key, value in self._entries(data, source):
            if key == "add":
                adds.append(value)
            elif key == "remove":
                removes.append(value)
            elif key in SMALL_ACTIONS:
                others.append((key, value))
            if len(adds) >= _ACTIONS_PER_BATCH:
                self._adds.extend(adds, version, source)
                adds = []
            if len(removes) >= _ACTIONS_PER_BATCH:
                self._removes.extend(removes, version, source)
                removes = []
        self._adds.extend(adds, version, source)
        self._removes.extend(removes, version, source)
        self.small.take(others, source)

    def file_actions(self) -> tuple[FileActions, FileActions]:
        """The adds and the removes so far. CorruptTableError when one is malformed and no later one replaces it."""
        (adds, bad_adds), (removes, bad_removes) = self.well_formed_adds(), self.well_formed_removes()
        for malformed in (bad_adds, bad_removes):
            malformed.ensure_replaced([(adds.batches, adds.versions), (removes.batches, removes.versions)])
        return adds, removes

    def well_formed_adds(self) -> tuple[FileActions, MalformedFileActions]:
        """The adds that follow the protocol, and the others."""
        self._adds.flush()
        return self._adds.actions(), self._adds.malformed

    def well_formed_removes(self) -> tuple[FileActions, MalformedFileActions]:
        """The removes that follow the protocol, and the others."""
        self._removes.flush()
        return self._removes.actions(), self._removes.malformed

    def _entries(self, data: bytes, source: str) -> Iterator[tuple[str, Any]]:
        if len(data) > self._max_line_bytes:
            self._check_line_lengths(data, source)
        loads = orjson.loads
        for number, line in enumerate(data.split(b"\n"), start=1):
            if not line:
                continue
            try:
                entry = loads(line)
            except orjson.JSONDecodeError:
                if line.isspace():
                    continue
                entry = load_json_object(line, source=f"line {number} of {source}")
            if type(entry) is not dict:
                entry = load_json_object(line, source=f"line {number} of {source}")
            if len(entry) == 1:
                ((key, value),) = entry.items()
                if value is not None:
                    yield key, value
            else:
                yield from _only_action(entry, number, source)

    def _check_line_lengths(self, data: bytes, source: str) -> None:
        start = 0
        while start <= len(data):
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            if end - start > self._max_line_bytes:
                raise CorruptTableError(
                    f"{source} holds a line of {end - start} bytes; the limit for one action is "
                    f"{self._max_line_bytes} bytes (EngineConfig.max_log_line_bytes)"
                )
            start = end + 1


def _only_action(entry: dict[str, Any], number: int, source: str) -> list[tuple[str, Any]]:
    known = [(key, value) for key, value in entry.items() if value is not None and key in _KNOWN_ACTIONS]
    if len(known) > 1:
        # parse_action raises the error.
        parse_action(entry, source=f"line {number} of {source}")
    return known
