"""What is being written to, and what came of it?"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.log import Snapshot
from ebbtide.protocol.actions import AddCDCFile, AddFile, Protocol
from ebbtide.protocol.features import column_mapping_mode, is_feature_supported
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import StructField, StructType, partition_fields, physical_schema
from ebbtide.storage import ObjectStore

__all__ = ["WriteTarget", "WrittenFiles"]


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """What the writer must know about a table that exists, or that a command is about to create."""

    store: ObjectStore
    schema: StructType
    partition_columns: tuple[str, ...]
    column_mapping_mode: str
    properties: TableProperties
    protocol: Protocol
    # Functions that the table's expressions may call besides the usual ones.
    allowed_functions: frozenset[str] = frozenset()

    @classmethod
    def of(cls, snapshot: Snapshot) -> WriteTarget:
        return cls(
            store=snapshot.store,
            schema=snapshot.schema,
            partition_columns=snapshot.metadata.partition_columns,
            column_mapping_mode=column_mapping_mode(snapshot.protocol, snapshot.metadata),
            properties=snapshot.properties,
            protocol=snapshot.protocol,
            allowed_functions=snapshot.config.allowed_functions,
        )

    @property
    def physical_schema(self) -> StructType:
        """The table's columns as in the files, with field ids: both mapping modes require them."""
        return physical_schema(self.schema, "none" if self.column_mapping_mode == "none" else "id")

    @property
    def partition_fields(self) -> tuple[StructField, ...]:
        """The logical fields of the partition columns, in the order of the directories."""
        return partition_fields(self.schema, self.partition_columns)

    @property
    def physical_partition_names(self) -> tuple[str, ...]:
        """Their names in the log and in directories."""
        names = dict(zip(self.schema.names, self.physical_schema.names, strict=True))
        return tuple(names[field.name] for field in self.partition_fields)

    @property
    def repeats_partition_columns(self) -> bool:
        """Whether data files hold the partition columns too. The log stays the place to read them from."""
        return (
            is_feature_supported(self.protocol, "materializePartitionColumns")
            or self.properties.write_partition_columns_to_parquet is True
            or self.properties.enable_iceberg_compat_v1
            or self.properties.enable_iceberg_compat_v2
            or self.properties.enable_iceberg_compat_v3
        )

    @property
    def has_deletion_vectors(self) -> bool:
        return is_feature_supported(self.protocol, "deletionVectors")


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files that are in storage, durable, and not yet named by any commit."""

    adds: tuple[AddFile, ...]
    change_files: tuple[AddCDCFile, ...]
    num_rows: int
    num_change_rows: int

    @property
    def num_bytes(self) -> int:
        return sum(add.size for add in self.adds)

    @property
    def num_change_bytes(self) -> int:
        return sum(change.size for change in self.change_files)
