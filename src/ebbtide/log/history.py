"""Who did what to the table, and when?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import CorruptTableError, RequestError, TableNotFoundError
from ebbtide.log.commit_times import InCommitTimes, file_times, in_commit_times, read_commit_info
from ebbtide.log.listing import list_log
from ebbtide.log.table_state import read_head
from ebbtide.protocol.actions import Action, CommitInfo, parse_commit
from ebbtide.protocol.log_names import commit_name, log_path
from ebbtide.storage.links import ensure_no_links_outside
from ebbtide.storage.prefetch import choose_read_ahead, prefetch
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["CommitRecord", "read_commit", "read_history"]


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One row of DESCRIBE HISTORY. `commit_info` is None when the commit has none, or an unusable one."""

    version: int
    timestamp_ms: int
    commit_info: CommitInfo | None

    @property
    def user_id(self) -> str | None:
        return self._text("userId")

    @property
    def user_name(self) -> str | None:
        return self._text("userName")

    @property
    def operation(self) -> str | None:
        return self._text("operation")

    @property
    def operation_parameters(self) -> Mapping[str, Any] | None:
        return self._object("operationParameters")

    @property
    def job(self) -> Mapping[str, Any] | None:
        return self._object("job")

    @property
    def notebook(self) -> Mapping[str, Any] | None:
        return self._object("notebook")

    @property
    def cluster_id(self) -> str | None:
        return self._text("clusterId")

    @property
    def read_version(self) -> int | None:
        return None if self.commit_info is None else self.commit_info.read_version

    @property
    def isolation_level(self) -> str | None:
        return self._text("isolationLevel")

    @property
    def is_blind_append(self) -> bool | None:
        return None if self.commit_info is None else self.commit_info.is_blind_append

    @property
    def operation_metrics(self) -> Mapping[str, Any] | None:
        return self._object("operationMetrics")

    @property
    def user_metadata(self) -> str | None:
        return self._text("userMetadata")

    @property
    def engine_info(self) -> str | None:
        return self._text("engineInfo")

    def _text(self, name: str) -> str | None:
        value = None if self.commit_info is None else self.commit_info.fields.get(name)
        return value if isinstance(value, str) else None

    def _object(self, name: str) -> Mapping[str, Any] | None:
        value = None if self.commit_info is None else self.commit_info.fields.get(name)
        return value if isinstance(value, Mapping) else None


def read_history(
    store: ObjectStore, *, limit: int | None = None, config: EngineConfig = DEFAULT_CONFIG
) -> list[CommitRecord]:
    """The commits whose files are still there, newest first, at most `limit` of them."""
    if limit is not None and limit < 0:
        raise RequestError(f"The limit of a history must not be negative, but it is {limit}.")
    if config.inside_root_only:
        ensure_no_links_outside(store)
    listing = list_log(store)
    if not listing.has_log_files:
        raise TableNotFoundError(f"There is no Delta table at {store.url}. Check the path.")
    versions = sorted(listing.commits, reverse=True)[:limit]
    by_file = file_times(listing.commits)
    own_times = _in_commit_times(store, config)
    read = partial(_readable_commit_info, store, config=config)
    infos = prefetch(read, [listing.commits[version] for version in versions], ahead=choose_read_ahead(store))
    return [
        CommitRecord(version, _timestamp(version, info, own_times, by_file[version]), info)
        for version, info in zip(versions, infos, strict=True)
    ]


def read_commit(store: ObjectStore, version: int, *, config: EngineConfig = DEFAULT_CONFIG) -> list[Action]:
    """Every action of one commit. ObjectNotFoundError when there is no such commit."""
    path = log_path(commit_name(version))
    data = store.read(path, max_bytes=config.max_commit_bytes)
    return parse_commit(data, source=path, max_line_bytes=config.max_log_line_bytes)


def _readable_commit_info(store: ObjectStore, meta: ObjectMeta, config: EngineConfig) -> CommitInfo | None:
    """None also when the commit cannot be read: people read history to find out what went wrong."""
    try:
        info = read_commit_info(store, meta, config)
        if info is not None:
            # Raises when its type is wrong.
            _ = info.in_commit_timestamp
        return info
    except CorruptTableError:
        return None


def _in_commit_times(store: ObjectStore, config: EngineConfig) -> InCommitTimes | None:
    try:
        head = read_head(store, version=None, config=config)
        return in_commit_times(head.protocol, head.metadata)
    except CorruptTableError:
        return None


def _timestamp(version: int, info: CommitInfo | None, times: InCommitTimes | None, file_time: int) -> int:
    if times is None or info is None or version < times.first_version:
        return file_time
    own_time = info.in_commit_timestamp
    return file_time if own_time is None else own_time
