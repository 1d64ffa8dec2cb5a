"""What do the table's properties say?

Each property of `metaData.configuration` that the engine acts on is declared once, as an attribute of
`TableProperties`: name, default, parser and meaning together. Values are parsed on access, so an operation never fails
over a broken property that it does not need. Keys are case-insensitive. A value that does not parse raises
`CorruptTableError`; `TableProperties.check` is for values that a caller is about to set and raises `RequestError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar, overload

from ebbtide.errors import CorruptTableError, RequestError
from ebbtide.protocol.json_fields import INT64_MAX
from ebbtide.protocol.schema import split_column_path

__all__ = ["Property", "TableProperties", "parse_duration_ms"]

T = TypeVar("T")

CONSTRAINT_PREFIX: Final = "delta.constraints."
FEATURE_PREFIX: Final = "delta.feature."

_MILLISECONDS: Final = {
    "week": 7 * 86_400_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1000,
    "millisecond": 1,
}
_DURATION_PART = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?P<whole>[0-9]{1,15})(?P<fraction>\.[0-9]{1,9})?\s*(?P<unit>[a-z]+)", re.ASCII
)
_MAX_PREFIX_LENGTH: Final = 255


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a calendar interval such as `interval 1 week` or `2 days 12 hours`.

    Months and years have no fixed length and are refused, as are negative durations: ValueError.
    """
    rest = text.strip().lower().removeprefix("interval ").strip()
    total_ms = 0.0
    position = 0
    while position < len(rest) or position == 0:
        part = _DURATION_PART.match(rest, position)
        unit = None if part is None else part["unit"].removesuffix("s")
        if part is None or not (unit in _MILLISECONDS or unit == "microsecond"):
            raise ValueError("is not a duration such as 'interval 1 week'; months and years are not accepted")
        if part["fraction"] and unit != "second":
            raise ValueError("may have a fraction only in seconds")
        amount = float(part["whole"] + (part["fraction"] or "")) * (-1 if part["sign"] == "-" else 1)
        total_ms += amount / 1000 if unit == "microsecond" else amount * _MILLISECONDS[unit or ""]
        position = part.end()
    if not 0 <= total_ms <= INT64_MAX:
        raise ValueError("must be a duration of at least zero that fits 64 bits of milliseconds")
    return int(total_ms)


class Property(Generic[T]):
    """One declared property; a descriptor, so that `properties.append_only` has the right static type."""

    def __init__(self, name: str, default: T, parse: Callable[[str], T], doc: str, *, legacy_name: str = "") -> None:
        self.name = f"delta.{name}"
        self.default = default
        self.doc = doc
        self.keys = tuple(f"delta.{key}".lower() for key in (name, legacy_name) if key)
        self._parse = parse

    @overload
    def __get__(self, instance: None, owner: type) -> Property[T]: ...
    @overload
    def __get__(self, instance: TableProperties, owner: type) -> T: ...
    def __get__(self, instance: TableProperties | None, owner: type) -> Property[T] | T:
        if instance is None:
            return self
        for key in self.keys:
            text = instance.raw(key)
            if text is not None:
                try:
                    return self.parse(text)
                except ValueError as error:
                    raise CorruptTableError(f"the table property {self.name} = '{text[:80]}' {error}") from error
        return self.default

    def parse(self, text: str) -> T:
        """The typed value of `text`. The text of the ValueError completes a sentence that names the property."""
        return self._parse(text)


def _boolean(text: str) -> bool:
    folded = text.strip().lower()
    if folded not in {"true", "false"}:
        raise ValueError("must be true or false")
    return folded == "true"


def _integer(minimum: int, maximum: int = INT64_MAX) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", text, re.ASCII) or not minimum <= int(text) <= maximum:
            raise ValueError(f"must be an integer from {minimum} to {maximum}")
        return int(text)

    return parse


def _bytes(text: str) -> int:
    found = re.fullmatch(r"\s*([0-9]{1,18})\s*(b|[kmgtp]i?b?)?\s*", text.lower(), re.ASCII)
    size = 0 if found is None else int(found[1]) << (10 * "bkmgtp".index((found[2] or "b")[0]))
    if not 1 <= size <= INT64_MAX:
        raise ValueError("must be a size of at least one byte, such as 104857600 or 100mb")
    return size


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        for choice in choices:
            if choice.lower() == text.strip().lower():
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}")

    return parse


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _columns(text: str) -> tuple[tuple[str, ...], ...]:
    """Comma-separated column names; commas and dots inside backticks belong to the name."""
    parts = re.findall(r"(?:`(?:[^`]|``)*`|[^`,])+", text)
    if ",".join(parts) != text:
        raise ValueError("must be a comma-separated list of column names")
    return tuple(split_column_path(part.strip()) for part in parts if part.strip())


class TableProperties:
    """The configuration of one table version, typed. Attributes parse on access; see the module text."""

    __slots__ = ("_values",)

    # --- what DML asks ------------------------------------------------------------------------------------------------
    append_only = Property("appendOnly", False, _boolean, "refuse every removal of rows")
    enable_deletion_vectors = Property("enableDeletionVectors", False, _boolean, "new deletion vectors may be written")
    enable_change_data_feed = Property(
        "enableChangeDataFeed", False, _boolean, "record row changes", legacy_name="enableChangeDataCapture"
    )
    isolation_level = Property(
        "isolationLevel",
        "Serializable",
        _one_of("Serializable", "WriteSerializable", "SnapshotIsolation"),
        "how far concurrent writers are kept apart",
    )
    # --- where files go -----------------------------------------------------------------------------------------------
    randomize_file_prefixes = Property("randomizeFilePrefixes", False, _boolean, "random directories, not partitions")
    random_prefix_length = Property("randomPrefixLength", 2, _integer(1, _MAX_PREFIX_LENGTH), "characters of a prefix")
    write_partition_columns_to_parquet: Property[bool | None] = Property(
        "writePartitionColumnsToParquet", None, _boolean, "repeat partition columns inside data files"
    )
    symlink_format_manifest = Property(
        "compatibility.symlinkFormatManifest.enabled", False, _boolean, "keep manifests for readers without a log"
    )
    universal_formats: Property[tuple[str, ...]] = Property(
        "universalFormat.enabledFormats", (), _names, "formats whose metadata other engines generate"
    )
    target_file_size: Property[int | None] = Property(
        "targetFileSize", None, _bytes, "how large files shall be when they are put together"
    )
    auto_compact: Property[str | None] = Property(
        "autoOptimize.autoCompact",
        None,
        _one_of("true", "false", "auto", "legacy"),
        "put small files together after commands that leave many",
    )
    auto_optimize = Property("autoOptimize", False, _boolean, "the old name of the same")
    # --- checkpoints and retention ------------------------------------------------------------------------------------
    checkpoint_interval = Property("checkpointInterval", 10, _integer(1), "commits between two checkpoints")
    checkpoint_policy = Property("checkpointPolicy", "classic", _one_of("classic", "v2"), "form of new checkpoints")
    checkpoint_write_stats_as_json = Property(
        "checkpoint.writeStatsAsJson", True, _boolean, "statistics as JSON text in checkpoints"
    )
    checkpoint_write_stats_as_struct = Property(
        "checkpoint.writeStatsAsStruct", True, _boolean, "statistics as typed columns in checkpoints"
    )
    deleted_file_retention_ms = Property(
        "deletedFileRetentionDuration", 7 * 86_400_000, parse_duration_ms, "how long removed files stay for readers"
    )
    log_retention_ms = Property(
        "logRetentionDuration", 30 * 86_400_000, parse_duration_ms, "how long history below a checkpoint is kept"
    )
    drop_feature_retention_ms = Property(
        "dropFeatureTruncateHistory.retentionDuration",
        86_400_000,
        parse_duration_ms,
        "how long history is kept by DROP FEATURE ... TRUNCATE HISTORY",
    )
    enable_expired_log_cleanup = Property("enableExpiredLogCleanup", True, _boolean, "old log files may be deleted")
    set_transaction_retention_ms: Property[int | None] = Property(
        "setTransactionRetentionDuration", None, parse_duration_ms, "how long idempotent writers are remembered"
    )
    require_checkpoint_protection_before_version = Property(
        "requireCheckpointProtectionBeforeVersion", 0, _integer(0), "checkpoints below it must not be cleaned up alone"
    )
    # --- statistics ---------------------------------------------------------------------------------------------------
    data_skipping_num_indexed_cols = Property(
        "dataSkippingNumIndexedCols", 32, _integer(-1), "leaf columns with statistics; -1 means all"
    )
    data_skipping_stats_columns: Property[tuple[tuple[str, ...], ...] | None] = Property(
        "dataSkippingStatsColumns", None, _columns, "exactly these columns get statistics"
    )
    data_skipping_string_prefix_length: Property[int | None] = Property(
        "dataSkippingStringPrefixLength", None, _integer(0), "characters kept of a string bound"
    )
    # --- row tracking, timestamps, column mapping ---------------------------------------------------------------------
    enable_row_tracking = Property("enableRowTracking", False, _boolean, "rows keep their ids when rewritten")
    row_tracking_suspended = Property("rowTrackingSuspended", False, _boolean, "new files get no row ids")
    materialized_row_id_column: Property[str | None] = Property(
        "rowTracking.materializedRowIdColumnName", None, str, "hidden column that carries row ids"
    )
    materialized_row_commit_version_column: Property[str | None] = Property(
        "rowTracking.materializedRowCommitVersionColumnName", None, str, "hidden column that carries commit versions"
    )
    enable_in_commit_timestamps = Property(
        "enableInCommitTimestamps",
        False,
        _boolean,
        "a commit's time stands in the commit, not in storage",
        legacy_name="enableInCommitTimestamps-preview",
    )
    in_commit_timestamp_enablement_version: Property[int | None] = Property(
        "inCommitTimestampEnablementVersion",
        None,
        _integer(0),
        "first version with such a timestamp",
        legacy_name="inCommitTimestampEnablementVersion-preview",
    )
    in_commit_timestamp_enablement_timestamp: Property[int | None] = Property(
        "inCommitTimestampEnablementTimestamp",
        None,
        _integer(0),
        "the timestamp of that version",
        legacy_name="inCommitTimestampEnablementTimestamp-preview",
    )
    column_mapping_mode = Property(
        "columnMapping.mode", "none", _one_of("none", "name", "id"), "how columns are found in data files"
    )
    column_mapping_max_column_id = Property("columnMapping.maxColumnId", 0, _integer(0), "highest id ever assigned")
    enable_type_widening = Property("enableTypeWidening", False, _boolean, "column types may be widened")
    enable_variant_shredding = Property("enableVariantShredding", False, _boolean, "variants may be written shredded")
    # --- protocol and other formats -----------------------------------------------------------------------------------
    min_reader_version: Property[int | None] = Property("minReaderVersion", None, _integer(1, 3), "asked at creation")
    min_writer_version: Property[int | None] = Property("minWriterVersion", None, _integer(1, 7), "asked at creation")
    enable_iceberg_compat_v1 = Property("enableIcebergCompatV1", False, _boolean, "files must suit Iceberg")
    enable_iceberg_compat_v2 = Property("enableIcebergCompatV2", False, _boolean, "files must suit Iceberg")
    enable_iceberg_compat_v3 = Property("enableIcebergCompatV3", False, _boolean, "files must suit Iceberg")

    def __init__(self, configuration: Mapping[str, str]) -> None:
        # If a key occurs in two spellings, the one that Delta itself writes comes last and wins.
        ordered = sorted(configuration.items(), key=lambda item: item[0] in _CANONICAL_NAMES)
        self._values = {key.lower(): (key, value) for key, value in ordered}

    @classmethod
    def parse(cls, configuration: Mapping[str, str]) -> TableProperties:
        return cls(configuration)

    @classmethod
    def declarations(cls) -> Iterator[Property[Any]]:
        """Every property of this class, in the order of declaration: the source of the documentation page."""
        return (value for value in vars(cls).values() if isinstance(value, Property))

    @classmethod
    def check(cls, configuration: Mapping[str, str]) -> None:
        """Raise RequestError for the first declared property in `configuration` whose value does not parse."""
        values = {key.lower(): value for key, value in configuration.items()}
        for declared in cls.declarations():
            for key in declared.keys:
                try:
                    if key in values:
                        declared.parse(values[key])
                except ValueError as error:
                    message = f"the table property {declared.name} = '{values[key][:80]}' {error}"
                    raise RequestError(message) from error

    def raw(self, key: str) -> str | None:
        """The text of a property, declared or not; the key's case does not matter."""
        entry = self._values.get(key.lower())
        return None if entry is None else entry[1]

    @property
    def constraints(self) -> dict[str, str]:
        """CHECK constraints: name to SQL expression."""
        return self._with_prefix(CONSTRAINT_PREFIX)

    def _with_prefix(self, prefix: str) -> dict[str, str]:
        matching = (entry for folded, entry in self._values.items() if folded.startswith(prefix))
        return {key[len(prefix) :]: value for key, value in matching}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableProperties) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.values()))

    def __repr__(self) -> str:
        return f"TableProperties({dict(self._values.values())!r})"


_CANONICAL_NAMES: Final = frozenset(declared.name for declared in TableProperties.declarations())
