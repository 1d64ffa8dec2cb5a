"""What does a commit say about itself?

`Operation` is what a command wants in the history; `commit_info` adds what only the commit knows. The result is always
the first line of the commit, because readers look for in-commit timestamps there. See "Commit Provenance Information"
in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ebbtide.protocol.actions import CommitInfo

__all__ = ["Operation", "commit_info", "engine_info"]


@dataclass(frozen=True, slots=True)
class Operation:
    """`parameters` are ready for JSON (Delta's habit is JSON text inside strings); `metrics` are written as strings."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    tags: Mapping[str, str] | None = None


@cache
def engine_info() -> str:
    try:
        return f"Ebbtide/{version('ebbtide')}"
    except PackageNotFoundError:
        # Run from a source tree that was never installed.
        return "Ebbtide/unknown"


def commit_info(
    operation: Operation,
    *,
    timestamp_ms: int,
    in_commit_timestamp: int | None,
    read_version: int | None,
    isolation_level: str,
    is_blind_append: bool,
    txn_id: str,
) -> CommitInfo:
    """The provenance of one attempt; absent fields are left out when it is written."""
    fields: dict[str, Any] = {
        "inCommitTimestamp": in_commit_timestamp,
        "timestamp": timestamp_ms,
        "operation": operation.name,
        "operationParameters": dict(operation.parameters),
        "readVersion": read_version,
        "isolationLevel": isolation_level,
        "isBlindAppend": is_blind_append,
        "operationMetrics": {name: str(value) for name, value in operation.metrics.items()},
        "userMetadata": operation.user_metadata,
        "tags": None if operation.tags is None else dict(operation.tags),
        "engineInfo": engine_info(),
        "txnId": txn_id,
    }
    return CommitInfo({name: value for name, value in fields.items() if value is not None})
