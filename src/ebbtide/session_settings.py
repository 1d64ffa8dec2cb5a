"""What do the settings of the Spark session ask of a changing command?

They are read once, at a door, into `WriteOptions`; nothing below the doors reads `spark.conf` for a switch of ours.
The names are delta-spark's, so that existing jobs keep their settings. An argument takes precedence over the session.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, NoReturn, TypedDict

from pyspark.sql import SparkSession

from ebbtide.commands.optimize.auto import AutoCompaction
from ebbtide.commands.optimize.request import OptimizeSettings
from ebbtide.commands.requests import Conflicts, VectorMode, WriteOptions
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.delta_spark_settings import PREFIX, find_unfollowed
from ebbtide.errors import RequestError
from ebbtide.log.file_retention import FILE_RETENTION_SETTING
from ebbtide.spark_border import is_case_sensitive, settings_below
from ebbtide.write.table_expressions import ALLOWED_FUNCTIONS_SETTING

__all__ = [
    "AUTO_COMPACT",
    "ALLOWED_FUNCTIONS",
    "CHANGES_OUT_OF_RANGE",
    "COMMIT_ATTEMPTS",
    "CommitOptions",
    "DELETE_WITH_VECTORS",
    "DYNAMIC_OVERWRITE",
    "FILE_RETENTION",
    "OPTIMIZE",
    "RETENTION_CHECK",
    "IGNORE_MISSING_FILES",
    "TABLE_DEFAULTS",
    "MERGE_WITH_VECTORS",
    "PARTITION_OVERWRITE_MODE",
    "RESTORE_DOWNGRADE",
    "SCHEMA_AUTO_MERGE",
    "TXN_APP_ID",
    "TXN_AUTO_RESET",
    "TXN_VERSION",
    "UPDATE_WITH_VECTORS",
    "USER_METADATA",
    "VACUUM_LITE",
    "VACUUM_LOGGING",
    "VECTOR_FILE_SIZE",
    "changes_may_be_out_of_range",
    "checks_retention",
    "enforces_file_retention",
    "ignores_missing_files",
    "merges_schema",
    "logs_vacuum",
    "optimize_settings",
    "overwrites_dynamically",
    "parse_bytes",
    "reset_txn_version",
    "restore_may_downgrade",
    "table_defaults",
    "vacuums_lite",
    "write_options",
]

DELETE_WITH_VECTORS: Final = f"{PREFIX}delete.deletionVectors.persistent"
UPDATE_WITH_VECTORS: Final = f"{PREFIX}update.deletionVectors.persistent"
MERGE_WITH_VECTORS: Final = f"{PREFIX}merge.deletionVectors.persistent"
VECTOR_FILE_SIZE: Final = f"{PREFIX}deletionVectors.packing.targetSize"
TXN_APP_ID: Final = f"{PREFIX}write.txnAppId"
TXN_VERSION: Final = f"{PREFIX}write.txnVersion"
TXN_AUTO_RESET: Final = f"{PREFIX}write.txnVersion.autoReset.enabled"
CHANGES_OUT_OF_RANGE: Final = f"{PREFIX}changeDataFeed.timestampOutOfRange.enabled"
SCHEMA_AUTO_MERGE: Final = f"{PREFIX}schema.autoMerge.enabled"
USER_METADATA: Final = f"{PREFIX}commitInfo.userMetadata"
TABLE_DEFAULTS: Final = f"{PREFIX}properties.defaults."
OPTIMIZE: Final = f"{PREFIX}optimize."
AUTO_COMPACT: Final = f"{PREFIX}autoCompact."
COMMIT_ATTEMPTS: Final = f"{PREFIX}maxCommitAttempts"
DYNAMIC_OVERWRITE: Final = f"{PREFIX}dynamicPartitionOverwrite.enabled"
ALLOWED_FUNCTIONS: Final = ALLOWED_FUNCTIONS_SETTING
RETENTION_CHECK: Final = f"{PREFIX}retentionDurationCheck.enabled"
FILE_RETENTION: Final = FILE_RETENTION_SETTING
VACUUM_LITE: Final = f"{PREFIX}vacuum.lite.enabled"
VACUUM_LOGGING: Final = f"{PREFIX}vacuum.logging.enabled"
RESTORE_DOWNGRADE: Final = f"{PREFIX}restore.protocolDowngradeAllowed"
IGNORE_MISSING_FILES: Final = "spark.sql.files.ignoreMissingFiles"
PARTITION_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"

_VECTOR_MODES: Final[dict[str, VectorMode]] = {"true": "on", "false": "off", "auto": "auto"}
_BYTES = re.compile(r"([0-9]{1,18})\s*(b|[kmgtp]i?b?)?", re.IGNORECASE | re.ASCII)
_UNITS: Final = "bkmgtp"
_MAX_LONG: Final = (1 << 63) - 1
# Offsets into a file of deletion vectors have 32 bits.
_MAX_VECTOR_FILE: Final = (1 << 31) - 1

_LOGGER = logging.getLogger(__name__)
# Settings that this process has already warned about: (session, name).
_warned: set[tuple[int, str]] = set()


class CommitOptions(TypedDict, total=False):
    """Options of every call that changes rows.

    `deletion_vectors`: "on" marks rows where the table allows it, "off" rewrites their files, "auto" marks unless most
    of a file would be gone; None takes the session's setting. `conflicts`: "rebase" follows a concurrent writer,
    "abort" raises as delta-spark does. A command with `txn_app_id` and `txn_version` lands once, however often it is
    sent. `user_metadata` is text that the commit records.
    """

    deletion_vectors: VectorMode | None
    conflicts: Conflicts
    txn_app_id: str | None
    txn_version: int | None
    user_metadata: str | None


def write_options(
    spark: SparkSession,
    *,
    vectors_setting: str = DELETE_WITH_VECTORS,
    deletion_vectors: VectorMode | None = None,
    conflicts: Conflicts = "rebase",
    txn_app_id: str | None = None,
    txn_version: int | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    config: EngineConfig = DEFAULT_CONFIG,
    in_transaction: bool = True,
) -> WriteOptions:
    """The arguments, and the session's settings where an argument is None. RequestError names a setting it cannot use.

    If any part of the application transaction is an argument, none of it is taken from the session; nor is it for a
    command that changes no rows, which is not part of what an application sends (`in_transaction=False`).
    `vectors_setting` names the setting that says whether this command marks rows; each verb has its own.
    """
    settings = settings_below(spark, PREFIX)
    _warn_once(spark, settings)
    if in_transaction and txn_app_id is None and txn_version is None:
        txn_app_id, txn_version = settings.get(TXN_APP_ID), _whole_number(settings, TXN_VERSION, least=0)
    return WriteOptions(
        deletion_vectors=_vector_mode(settings, vectors_setting) if deletion_vectors is None else deletion_vectors,
        conflicts=conflicts,
        txn_app_id=txn_app_id,
        txn_version=txn_version,
        user_metadata=settings.get(USER_METADATA) if user_metadata is None else user_metadata,
        storage_options=storage_options,
        config=_with_allowed_functions(settings, _with_settings(settings, config)),
        is_case_sensitive=is_case_sensitive(spark),
        after_commit=partial(_auto_compaction(settings).after, spark),
    )


@contextmanager
def reset_txn_version(spark: SparkSession, given: Mapping[str, object] | None = None) -> Iterator[None]:
    """Unset the session's application transaction number after a changing command has succeeded.

    Only if the session asks for it, and the transaction was not among the arguments (`given`). Without this, the next
    command would be taken for a repetition of this one, and skipped.
    """
    yield
    is_given = given is not None and (given.get("txn_app_id") is not None or given.get("txn_version") is not None)
    if not is_given and _flag(spark, TXN_AUTO_RESET):
        spark.conf.unset(TXN_VERSION)


def _warn_once(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, sentence in find_unfollowed(settings):
        if (id(spark), name) not in _warned:
            _warned.add((id(spark), name))
            _LOGGER.warning("%s", sentence)


def changes_may_be_out_of_range(spark: SparkSession) -> bool:
    """Whether bounds of a change feed beyond the newest version mean "no changes" instead of an error."""
    return _flag(spark, CHANGES_OUT_OF_RANGE)


def ignores_missing_files(spark: SparkSession) -> bool:
    """Whether RESTORE leaves data files out that are gone, instead of refusing; Spark's own setting for reads."""
    return _flag(spark, IGNORE_MISSING_FILES)


def restore_may_downgrade(spark: SparkSession) -> bool:
    """Whether RESTORE and CLONE may take features from a table's protocol."""
    return _flag(spark, RESTORE_DOWNGRADE)


def merges_schema(spark: SparkSession) -> bool:
    """Whether columns that only the new rows have are added to the table."""
    return _flag(spark, SCHEMA_AUTO_MERGE)


def checks_retention(spark: SparkSession) -> bool:
    """Whether a VACUUM may not retain files for less time than the table says."""
    return _flag(spark, RETENTION_CHECK, unset=True)


def enforces_file_retention(spark: SparkSession) -> bool:
    """Whether versions older than the table's retention of removed files are refused."""
    return _flag(spark, FILE_RETENTION)


def vacuums_lite(spark: SparkSession) -> bool:
    """Whether a VACUUM that does not say LITE or FULL finds its files in the log alone."""
    return _flag(spark, VACUUM_LITE)


def logs_vacuum(spark: SparkSession) -> bool | None:
    """Whether the history records a VACUUM; None: where its storage is one on which the reference does."""
    return None if _setting(spark, VACUUM_LOGGING) is None else _flag(spark, VACUUM_LOGGING)


def overwrites_dynamically(spark: SparkSession) -> bool:
    """Whether an overwrite is meant to replace only the partitions that its rows fall into."""
    is_dynamic = (_setting(spark, PARTITION_OVERWRITE_MODE) or "static").strip().lower() == "dynamic"
    return is_dynamic and _flag(spark, DYNAMIC_OVERWRITE, unset=True)


def _auto_compaction(settings: Mapping[str, str]) -> AutoCompaction:
    defaults = AutoCompaction()
    wanted = settings.get(f"{AUTO_COMPACT}enabled")
    files = _whole_number(settings, f"{AUTO_COMPACT}minNumFiles", least=2)
    return AutoCompaction(
        is_wanted=None if wanted is None else _is_on(settings, f"{AUTO_COMPACT}enabled", unset=False),
        min_num_files=defaults.min_num_files if files is None else files,
        target_bytes=_size(settings, f"{AUTO_COMPACT}maxFileSize") or defaults.target_bytes,
        min_bytes=_size(settings, f"{AUTO_COMPACT}minFileSize"),
        modified_only=_is_on(settings, f"{AUTO_COMPACT}modifiedPartitionsOnly.enabled", unset=True),
    )


def optimize_settings(
    spark: SparkSession,
    *,
    target_bytes: int | None = None,
    min_bytes: int | None = None,
    max_deleted_share: float | None = None,
    threads: int | None = None,
    min_group_files: int = 2,
) -> OptimizeSettings:
    """How files are put together: the arguments, and the session's settings where an argument is None."""
    settings = settings_below(spark, OPTIMIZE)
    threads = threads if threads is not None else _whole_number(settings, f"{OPTIMIZE}maxThreads", least=1)
    if max_deleted_share is None:
        max_deleted_share = _share(settings, f"{OPTIMIZE}maxDeletedRowsRatio")
    defaults = OptimizeSettings()
    return OptimizeSettings(
        target_bytes=_size(settings, f"{OPTIMIZE}maxFileSize") if target_bytes is None else target_bytes,
        min_bytes=_size(settings, f"{OPTIMIZE}minFileSize") if min_bytes is None else min_bytes,
        max_deleted_share=defaults.max_deleted_share if max_deleted_share is None else max_deleted_share,
        threads=defaults.threads if threads is None else threads,
        checks_statistics=_is_on(settings, f"{OPTIMIZE}zorder.checkStatsCollection.enabled", unset=True),
        min_group_files=min_group_files,
    )


def table_defaults(spark: SparkSession) -> dict[str, str]:
    """The properties that the session wants every new table to have."""
    settings = settings_below(spark, TABLE_DEFAULTS)
    return {f"delta.{key[len(TABLE_DEFAULTS) :]}": value for key, value in settings.items()}


def parse_bytes(text: str) -> int | None:
    """`2097152`, `2m`, `2 MiB` as a number of bytes; None when it is not a size."""
    found = _BYTES.fullmatch(text.strip())
    if found is None:
        return None
    unit = (found[2] or "b")[0].lower()
    return int(found[1]) << (10 * _UNITS.index(unit))


def _vector_mode(settings: Mapping[str, str], name: str) -> VectorMode:
    text = settings.get(name)
    if text is None:
        return "on"
    mode = _VECTOR_MODES.get(text.strip().lower())
    if mode is None:
        _refuse(name, text, "must be true, false or auto")
    return mode


def _whole_number(settings: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = settings.get(name)
    if text is None:
        return None
    is_number = re.fullmatch(r"\s*[0-9]{1,19}\s*", text, re.ASCII) is not None
    if not is_number or not least <= int(text) <= _MAX_LONG:
        _refuse(name, text, f"must be an integer of at least {least} that fits 64 bits")
    return int(text)


def _size(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name)
    size = None if text is None else parse_bytes(text)
    if text is not None and (size is None or not 0 < size <= _MAX_LONG):
        _refuse(name, text, "must be a size of at least one byte, such as 134217728 or 128m")
    return size


def _share(settings: Mapping[str, str], name: str) -> float | None:
    text = settings.get(name)
    if text is None:
        return None
    if re.fullmatch(r"\s*(0|1|0?\.[0-9]+|[01]\.0*|0\.[0-9]+)\s*", text, re.ASCII) is None:
        _refuse(name, text, "must be a number from 0 to 1")
    return float(text)


def _is_on(settings: Mapping[str, str], name: str, *, unset: bool) -> bool:
    text = settings.get(name)
    if text is None:
        return unset
    if text.strip().lower() not in {"true", "false"}:
        _refuse(name, text, "must be true or false")
    return text.strip().lower() == "true"


def _with_settings(settings: Mapping[str, str], config: EngineConfig) -> EngineConfig:
    attempts = _whole_number(settings, COMMIT_ATTEMPTS, least=1)
    if attempts is not None:
        config = replace(config, max_commit_attempts=attempts)
    text = settings.get(VECTOR_FILE_SIZE)
    if text is None:
        return config
    size = parse_bytes(text)
    if size is None or not 1 <= size <= _MAX_VECTOR_FILE:
        _refuse(VECTOR_FILE_SIZE, text, "must be a size from 1 byte to 2 GiB, such as 2097152 or 2m")
    return replace(config, deletion_vector_target_bytes=size)


def _with_allowed_functions(settings: Mapping[str, str], config: EngineConfig) -> EngineConfig:
    names = [name.strip().lower() for name in settings.get(ALLOWED_FUNCTIONS, "").split(",")]
    allowed = frozenset(name for name in names if name)
    return replace(config, allowed_functions=config.allowed_functions | allowed) if allowed else config


def _flag(spark: SparkSession, key: str, *, unset: bool = False) -> bool:
    text = _setting(spark, key)
    return _is_on({} if text is None else {key: text}, key, unset=unset)


def _setting(spark: SparkSession, key: str) -> str | None:
    return spark.conf.get(key, None)


def _refuse(key: str, value: str, rule: str) -> NoReturn:
    raise RequestError(f"The session setting {key} = '{value[:80]}' {rule}. Correct or unset it.")
