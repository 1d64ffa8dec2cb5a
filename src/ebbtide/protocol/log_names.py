"""Which file is which in `_delta_log`, and how is each named?

`parse_log_name` turns a bare file name into a typed value, or None for anything that does not belong to the log
(temporary files, staged commits, other engines' extras): those are ignored, never an error. The builders give the one
spelling that all engines agree on. Numbers are 20 digits (parts: 10), so names sort by version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from uuid import UUID

from ebbtide.protocol.json_fields import INT64_MAX

__all__ = [
    "CHANGE_DATA_DIRECTORY",
    "DROP_NOTE",
    "LAST_CHECKPOINT",
    "LAST_VACUUM_INFO",
    "LOG_DIRECTORY",
    "SIDECAR_DIRECTORY",
    "CheckpointName",
    "ChecksumName",
    "CommitName",
    "CompactedName",
    "LogName",
    "V2CheckpointName",
    "checkpoint_name",
    "checksum_name",
    "commit_name",
    "compacted_name",
    "listing_start",
    "log_path",
    "parse_log_name",
    "sidecar_path",
    "v2_checkpoint_name",
]

LOG_DIRECTORY: Final = "_delta_log"
SIDECAR_DIRECTORY: Final = "_delta_log/_sidecars"
CHANGE_DATA_DIRECTORY: Final = "_change_data"
LAST_CHECKPOINT: Final = "_last_checkpoint"
LAST_VACUUM_INFO: Final = "_last_vacuum_info"
# There while a DROP TABLE of Ebbtide is at work, or after one that did not finish.
DROP_NOTE: Final = "_ebbtide_drop"

_NAME = re.compile(
    r"(?P<version>[0-9]{20})\."
    r"(?:(?P<commit>json)"
    r"|(?P<checksum>crc)"
    r"|(?P<end>[0-9]{20})\.compacted\.json"
    r"|checkpoint\.(?:(?P<part>[0-9]{10})\.(?P<parts>[0-9]{10})\.)?(?P<classic>parquet)"
    r"|checkpoint\.(?P<uuid>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\.(?P<format>json|parquet))",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class CommitName:
    version: int


@dataclass(frozen=True, slots=True)
class ChecksumName:
    version: int


@dataclass(frozen=True, slots=True)
class CompactedName:
    """The reconciled actions of the commits `version` to `end_version`, both included."""

    version: int
    end_version: int


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """A classic checkpoint (`part` 1 of `parts` 1) or one part of a multi-part checkpoint."""

    version: int
    part: int = 1
    parts: int = 1
    is_multipart: bool = False


@dataclass(frozen=True, slots=True)
class V2CheckpointName:
    version: int
    uuid: str
    format: Literal["json", "parquet"]


LogName: TypeAlias = CommitName | ChecksumName | CompactedName | CheckpointName | V2CheckpointName


def parse_log_name(name: str) -> LogName | None:
    """The kind and version of the file `name`, directly in `_delta_log`; None when we do not read it."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version = int(match["version"])
    if version > INT64_MAX:
        return None
    if match["commit"]:
        return CommitName(version)
    if match["checksum"]:
        return ChecksumName(version)
    if match["end"]:
        end = int(match["end"])
        return CompactedName(version, end) if version < end <= INT64_MAX else None
    if match["uuid"]:
        return V2CheckpointName(version, match["uuid"], "json" if match["format"] == "json" else "parquet")
    if match["part"] is None:
        return CheckpointName(version)
    part, parts = int(match["part"]), int(match["parts"])
    return CheckpointName(version, part, parts, is_multipart=True) if 1 <= part <= parts else None


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def checksum_name(version: int) -> str:
    return f"{version:020d}.crc"


def checkpoint_name(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def v2_checkpoint_name(version: int, uuid: UUID, format: Literal["json", "parquet"] = "parquet") -> str:
    return f"{version:020d}.checkpoint.{uuid}.{format}"


def compacted_name(version: int, end_version: int) -> str:
    return f"{version:020d}.{end_version:020d}.compacted.json"


def log_path(name: str) -> str:
    """Path below the table root of a file in the log directory."""
    return f"{LOG_DIRECTORY}/{name}"


def sidecar_path(uuid: UUID) -> str:
    return f"{SIDECAR_DIRECTORY}/{uuid}.parquet"


def listing_start(version: int) -> str:
    """A path that sorts before every log file of `version` and after all of the versions below it."""
    # "." sorts before every digit and letter, so the bare number with its dot is the smallest name of the version.
    return f"{LOG_DIRECTORY}/{version:020d}."
