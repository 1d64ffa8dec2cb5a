"""What can the log say about files?

Data files that come and go, files of change data, and the sidecars of a checkpoint. The other actions, and the
conversion from bytes to actions and back, are in `protocol.actions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.errors import CorruptDeletionVectorError
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.json_fields import JsonFields, as_dict, without_none

__all__ = ["AddCDCFile", "AddFile", "RemoveFile", "Sidecar"]


@dataclass(frozen=True, slots=True)
class AddFile:
    """A data file, seen through an optional deletion vector, is part of the table."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: Mapping[str, str] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    @property
    def dv_id(self) -> str | None:
        return None if self.deletion_vector is None else self.deletion_vector.unique_id

    @property
    def key(self) -> tuple[str, str | None]:
        """Identity of the logical file as written; replay canonicalises the path first (`log.identity`)."""
        return (self.path, self.dv_id)

    @property
    def num_marked_rows(self) -> int:
        """Rows that the deletion vector marks; 0 without one."""
        return 0 if self.deletion_vector is None else self.deletion_vector.cardinality

    def remove(self, deletion_timestamp: int, *, data_change: bool = True) -> RemoveFile:
        """The tombstone of exactly this logical file: it names the deletion vector that is attached now."""
        return RemoveFile(
            path=self.path,
            deletion_timestamp=deletion_timestamp,
            data_change=data_change,
            extended_file_metadata=True,
            partition_values=self.partition_values,
            size=self.size,
            stats=self.stats,
            tags=self.tags,
            deletion_vector=self.deletion_vector,
            base_row_id=self.base_row_id,
            default_row_commit_version=self.default_row_commit_version,
        )

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> AddFile:
        fields = JsonFields(obj, subject="add", source=source)
        return cls(
            path=_path(fields),
            partition_values=fields.nullable_string_map("partitionValues"),
            size=fields.integer("size", minimum=0),
            modification_time=fields.optional_integer("modificationTime") or 0,
            # A file without the field may hold new rows: conflict checks must not overlook it.
            data_change=fields.boolean("dataChange", default=True),
            stats=fields.optional_string("stats"),
            tags=fields.optional_string_map("tags"),
            deletion_vector=_deletion_vector(fields),
            base_row_id=fields.optional_integer("baseRowId"),
            default_row_commit_version=fields.optional_integer("defaultRowCommitVersion"),
            clustering_provider=fields.optional_string("clusteringProvider"),
        )

    def to_json(self) -> dict[str, Any]:
        return without_none(
            path=self.path,
            partitionValues=dict(self.partition_values),
            size=self.size,
            modificationTime=self.modification_time,
            dataChange=self.data_change,
            stats=self.stats,
            tags=as_dict(self.tags),
            deletionVector=_vector_json(self.deletion_vector),
            baseRowId=self.base_row_id,
            defaultRowCommitVersion=self.default_row_commit_version,
            clusteringProvider=self.clustering_provider,
        )


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """A logical file, (path, deletion vector), left the table; kept as a tombstone until it expires."""

    path: str
    deletion_timestamp: int | None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: Mapping[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: Mapping[str, str] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    @property
    def dv_id(self) -> str | None:
        return None if self.deletion_vector is None else self.deletion_vector.unique_id

    @property
    def num_marked_rows(self) -> int:
        """Rows that the deletion vector marked; 0 without one."""
        return 0 if self.deletion_vector is None else self.deletion_vector.cardinality

    @property
    def key(self) -> tuple[str, str | None]:
        return (self.path, self.dv_id)

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> RemoveFile:
        fields = JsonFields(obj, subject="remove", source=source)
        return cls(
            path=_path(fields),
            deletion_timestamp=fields.optional_integer("deletionTimestamp"),
            data_change=fields.boolean("dataChange", default=True),
            extended_file_metadata=fields.optional_boolean("extendedFileMetadata"),
            partition_values=fields.optional_nullable_string_map("partitionValues"),
            size=fields.optional_integer("size", minimum=0),
            stats=fields.optional_string("stats"),
            tags=fields.optional_string_map("tags"),
            deletion_vector=_deletion_vector(fields),
            base_row_id=fields.optional_integer("baseRowId"),
            default_row_commit_version=fields.optional_integer("defaultRowCommitVersion"),
        )

    def to_json(self) -> dict[str, Any]:
        return without_none(
            path=self.path,
            deletionTimestamp=self.deletion_timestamp,
            dataChange=self.data_change,
            extendedFileMetadata=self.extended_file_metadata,
            partitionValues=as_dict(self.partition_values),
            size=self.size,
            tags=as_dict(self.tags),
            deletionVector=_vector_json(self.deletion_vector),
            baseRowId=self.base_row_id,
            defaultRowCommitVersion=self.default_row_commit_version,
            stats=self.stats,
        )


@dataclass(frozen=True, slots=True)
class AddCDCFile:
    """A change-data file of this commit. It never belongs to the table's state, so `dataChange` is always false."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    tags: Mapping[str, str] | None = None

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> AddCDCFile:
        fields = JsonFields(obj, subject="cdc", source=source)
        return cls(
            path=_path(fields),
            partition_values=fields.nullable_string_map("partitionValues"),
            size=fields.integer("size", minimum=0),
            tags=fields.optional_string_map("tags"),
        )

    def to_json(self) -> dict[str, Any]:
        return without_none(
            path=self.path,
            partitionValues=dict(self.partition_values),
            size=self.size,
            dataChange=False,
            tags=as_dict(self.tags),
        )


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A file of a V2 checkpoint that holds its add and remove actions."""

    path: str
    size_in_bytes: int
    modification_time: int
    tags: Mapping[str, str] | None = None

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> Sidecar:
        fields = JsonFields(obj, subject="sidecar", source=source)
        return cls(
            path=_path(fields),
            size_in_bytes=fields.integer("sizeInBytes", minimum=0),
            modification_time=fields.optional_integer("modificationTime") or 0,
            tags=fields.optional_string_map("tags"),
        )

    def to_json(self) -> dict[str, Any]:
        return without_none(
            path=self.path,
            sizeInBytes=self.size_in_bytes,
            modificationTime=self.modification_time,
            tags=as_dict(self.tags),
        )


def _path(fields: JsonFields) -> str:
    path = fields.string("path")
    if not path:
        raise fields.error("path", "is empty")
    return path


def _deletion_vector(fields: JsonFields) -> DeletionVectorDescriptor | None:
    obj = fields.optional_object("deletionVector")
    if obj is None:
        return None
    try:
        return DeletionVectorDescriptor.from_json(obj)
    except CorruptDeletionVectorError as error:
        problem = str(error).removeprefix(f"[{error.error_class}] ")
        message = f"{fields.describe('deletionVector')} is not usable: {problem}"
        raise CorruptDeletionVectorError(message, error_class=error.error_class) from error


def _vector_json(descriptor: DeletionVectorDescriptor | None) -> dict[str, Any] | None:
    return None if descriptor is None else descriptor.to_json()
