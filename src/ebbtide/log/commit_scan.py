"""What do the JSON files of a log say, read in order?

`CommitScan` takes the bytes of commits, compacted log files or JSON checkpoints, oldest first, and keeps what replay
needs: the newest protocol and metadata, transaction identifiers and domains, and the file actions as Arrow batches. It
decides nothing about which files are live (`replay` does).

A table that this engine cannot read may hold actions that do not look like ours, so a strange file action is only
remembered; `file_actions` raises it, and callers pass the feature gate first. Broken JSON is refused at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
import pyarrow as pa

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError
from ebbtide.log.action_columns import add_batch, remove_batch
from ebbtide.protocol.actions import (
    Action,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
    Sidecar,
    parse_action,
)
from ebbtide.protocol.json_fields import load_json_object

__all__ = ["CommitScan", "FileActions"]

# Parsed JSON is large; it becomes Arrow whenever this many actions have gathered.
_ACTIONS_PER_BATCH = 16384
_OTHER_ACTIONS = frozenset(
    {"protocol", "metaData", "txn", "domainMetadata", "commitInfo", "checkpointMetadata", "sidecar"}
)
_STATELESS_ACTIONS = frozenset({"cdc"})
_KNOWN_ACTIONS = _OTHER_ACTIONS | _STATELESS_ACTIONS | {"add", "remove"}
_T = TypeVar("_T", Protocol, Metadata, DomainMetadata)


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
    """File actions of one kind that are still Python objects, and those that are Arrow already."""

    to_batch: Callable[..., pa.RecordBatch]
    objects: list[Any] = field(default_factory=list)
    # How many of the objects came from which log file, for error messages.
    origins: list[tuple[int, str]] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    failure: CorruptTableError | None = None

    def extend(self, objects: list[Any], version: int, source: str) -> None:
        if objects and self.failure is None:
            self.objects += objects
            self.origins.append((len(objects), source))
            self.versions += [version] * len(objects)
            if len(self.objects) >= _ACTIONS_PER_BATCH:
                self.flush()

    def flush(self) -> None:
        if self.objects:
            try:
                self.batches.append(self.to_batch(self.objects, source="the log"))
            except CorruptTableError as error:
                self.failure = self._located() or error
            self.objects = []
            self.origins = []

    def _located(self) -> CorruptTableError | None:
        """The failure again, from the first log file that has it alone, so that the message names that file."""
        start = 0
        for count, source in self.origins:
            try:
                self.to_batch(self.objects[start : start + count], source=source)
            except CorruptTableError as error:
                return error
            start += count
        return None


class CommitScan:
    def __init__(self, config: EngineConfig) -> None:
        self._max_line_bytes = config.max_log_line_bytes
        self._adds = _Pending(add_batch)
        self._removes = _Pending(remove_batch)
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.transactions: dict[str, SetTransaction] = {}
        # Removed domains stay in, so that they hide what an older checkpoint says.
        self.domain_metadata: dict[str, DomainMetadata] = {}
        self.sidecars: list[Sidecar] = []
        self.checkpoint_metadata: CheckpointMetadata | None = None
        # Of the log file read last.
        self.commit_info: CommitInfo | None = None

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
            elif key in _OTHER_ACTIONS:
                others.append((key, value))
        self._adds.extend(adds, version, source)
        self._removes.extend(removes, version, source)
        self.commit_info = None
        self.take([parse_action({key: value}, source=source) for key, value in others], source)

    def take(self, actions: Iterable[Action | None], source: str) -> None:
        """Take in the small actions of one log file or checkpoint: everything but file actions."""
        protocol: Protocol | None = None
        metadata: Metadata | None = None
        transactions: dict[str, SetTransaction] = {}
        domains: dict[str, DomainMetadata] = {}
        for action in actions:
            if isinstance(action, Protocol):
                protocol = _agreed(protocol, action, "protocol", source)
            elif isinstance(action, Metadata):
                metadata = _agreed(metadata, action, "metaData", source)
            elif isinstance(action, SetTransaction):
                known = transactions.get(action.app_id)
                if known is None or action.version > known.version:
                    transactions[action.app_id] = action
            elif isinstance(action, DomainMetadata):
                domains[action.domain] = _agreed(domains.get(action.domain), action, "domainMetadata", source)
            elif isinstance(action, CommitInfo):
                self.commit_info = action
            elif isinstance(action, Sidecar):
                self.sidecars.append(action)
            elif isinstance(action, CheckpointMetadata):
                self.checkpoint_metadata = action
        self.protocol = protocol or self.protocol
        self.metadata = metadata or self.metadata
        self.transactions.update(transactions)
        self.domain_metadata.update(domains)

    def file_actions(self) -> tuple[FileActions, FileActions]:
        """The adds and the removes so far. CorruptTableError when one of them is malformed."""
        for pending in (self._adds, self._removes):
            pending.flush()
            if pending.failure is not None:
                raise pending.failure
        return (
            FileActions(tuple(self._adds.batches), tuple(self._adds.versions)),
            FileActions(tuple(self._removes.batches), tuple(self._removes.versions)),
        )

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
        # parse_action owns the refusal and its words.
        parse_action(entry, source=f"line {number} of {source}")
    return known


def _agreed(known: _T | None, action: _T, name: str, source: str) -> _T:
    # The order inside one commit means nothing, so two different answers are no answer.
    if known is not None and known != action:
        raise CorruptTableError(
            f"{source} holds two different '{name}' actions; a commit may state each only once",
            error_class="DELTA_DUPLICATE_ACTIONS_FOUND",
        )
    return action
