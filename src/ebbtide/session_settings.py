"""What do the settings of the Spark session ask of a changing command?

Read once, at a door, into `WriteOptions`; below the doors nobody looks at `spark.conf` for a switch of ours. The names
are delta-spark's, so that existing jobs keep their settings. An argument of the call wins over the session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NoReturn

from pyspark.sql import SparkSession

from ebbtide.commands.requests import Conflicts, VectorMode, WriteOptions
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import RequestError
from ebbtide.write.table_expressions import ALLOWED_FUNCTIONS_SETTING

__all__ = [
    "ALLOWED_FUNCTIONS",
    "CHANGES_OUT_OF_RANGE",
    "DELETE_WITH_VECTORS",
    "TABLE_DEFAULTS",
    "MERGE_WITH_VECTORS",
    "PARTITION_OVERWRITE_MODE",
    "SCHEMA_AUTO_MERGE",
    "TXN_APP_ID",
    "TXN_VERSION",
    "UPDATE_WITH_VECTORS",
    "USER_METADATA",
    "VECTOR_FILE_SIZE",
    "changes_may_be_out_of_range",
    "merges_schema",
    "overwrites_dynamically",
    "parse_bytes",
    "table_defaults",
    "write_options",
]

_PREFIX: Final = "spark.databricks.delta."
DELETE_WITH_VECTORS: Final = f"{_PREFIX}delete.deletionVectors.persistent"
UPDATE_WITH_VECTORS: Final = f"{_PREFIX}update.deletionVectors.persistent"
MERGE_WITH_VECTORS: Final = f"{_PREFIX}merge.deletionVectors.persistent"
VECTOR_FILE_SIZE: Final = f"{_PREFIX}deletionVectors.packing.targetSize"
TXN_APP_ID: Final = f"{_PREFIX}write.txnAppId"
TXN_VERSION: Final = f"{_PREFIX}write.txnVersion"
CHANGES_OUT_OF_RANGE: Final = f"{_PREFIX}changeDataFeed.timestampOutOfRange.enabled"
SCHEMA_AUTO_MERGE: Final = f"{_PREFIX}schema.autoMerge.enabled"
USER_METADATA: Final = f"{_PREFIX}commitInfo.userMetadata"
TABLE_DEFAULTS: Final = f"{_PREFIX}properties.defaults."
ALLOWED_FUNCTIONS: Final = ALLOWED_FUNCTIONS_SETTING
PARTITION_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"

_VECTOR_MODES: Final[dict[str, VectorMode]] = {"true": "on", "false": "off", "auto": "auto"}
_BYTES = re.compile(r"([0-9]{1,18})\s*(b|[kmgtp]i?b?)?", re.IGNORECASE | re.ASCII)
_UNITS: Final = "bkmgtp"
_MAX_LONG: Final = (1 << 63) - 1
# Offsets into a file of deletion vectors have 32 bits.
_MAX_VECTOR_FILE: Final = (1 << 31) - 1


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
) -> WriteOptions:
    """The arguments, and the session's settings where an argument is None. RequestError names a setting it cannot use.

    An application transaction is one thing: given as an argument, nothing of it is taken from the session.
    `vectors_setting` names the setting that says whether this command marks rows; each verb has one of its own.
    """
    if txn_app_id is None and txn_version is None:
        txn_app_id, txn_version = _setting(spark, TXN_APP_ID), _txn_version(spark)
    return WriteOptions(
        deletion_vectors=_vector_mode(spark, vectors_setting) if deletion_vectors is None else deletion_vectors,
        conflicts=conflicts,
        txn_app_id=txn_app_id,
        txn_version=txn_version,
        user_metadata=_setting(spark, USER_METADATA) if user_metadata is None else user_metadata,
        storage_options=storage_options,
        config=_with_allowed_functions(spark, _with_vector_file_size(spark, config)),
    )


def changes_may_be_out_of_range(spark: SparkSession) -> bool:
    """Whether bounds of a change feed beyond the newest version mean "nothing there" instead of a mistake."""
    return _flag(spark, CHANGES_OUT_OF_RANGE)


def merges_schema(spark: SparkSession) -> bool:
    """Whether columns that only the rows to be written have are added to the table."""
    return _flag(spark, SCHEMA_AUTO_MERGE)


def overwrites_dynamically(spark: SparkSession) -> bool:
    """Whether an overwrite is meant to replace only the partitions that its rows fall into."""
    return (_setting(spark, PARTITION_OVERWRITE_MODE) or "static").strip().lower() == "dynamic"


def table_defaults(spark: SparkSession) -> dict[str, str]:
    """The properties that the session wants every new table to have."""
    settings = spark.conf.getAll
    return {
        f"delta.{key[len(TABLE_DEFAULTS) :]}": value
        for key, value in settings.items()
        if key.startswith(TABLE_DEFAULTS)
    }


def parse_bytes(text: str) -> int | None:
    """`2097152`, `2m`, `2 MiB` as a number of bytes; None when it is no such thing."""
    found = _BYTES.fullmatch(text.strip())
    if found is None:
        return None
    unit = (found[2] or "b")[0].lower()
    return int(found[1]) << (10 * _UNITS.index(unit))


def _vector_mode(spark: SparkSession, setting: str) -> VectorMode:
    text = _setting(spark, setting)
    if text is None:
        return "on"
    mode = _VECTOR_MODES.get(text.strip().lower())
    if mode is None:
        _refuse(setting, text, "must be true, false or auto")
    return mode


def _txn_version(spark: SparkSession) -> int | None:
    text = _setting(spark, TXN_VERSION)
    if text is None:
        return None
    if re.fullmatch(r"\s*[0-9]{1,19}\s*", text, re.ASCII) is None or int(text) > _MAX_LONG:
        _refuse(TXN_VERSION, text, "must be an integer of at least 0 that fits 64 bits")
    return int(text)


def _with_vector_file_size(spark: SparkSession, config: EngineConfig) -> EngineConfig:
    text = _setting(spark, VECTOR_FILE_SIZE)
    if text is None:
        return config
    size = parse_bytes(text)
    if size is None or not 1 <= size <= _MAX_VECTOR_FILE:
        _refuse(VECTOR_FILE_SIZE, text, "must be a size from 1 byte to 2 GiB, such as 2097152 or 2m")
    return replace(config, deletion_vector_target_bytes=size)


def _with_allowed_functions(spark: SparkSession, config: EngineConfig) -> EngineConfig:
    names = [name.strip().lower() for name in (_setting(spark, ALLOWED_FUNCTIONS) or "").split(",")]
    allowed = frozenset(name for name in names if name)
    return replace(config, allowed_functions=config.allowed_functions | allowed) if allowed else config


def _flag(spark: SparkSession, key: str) -> bool:
    text = _setting(spark, key) or "false"
    if text.strip().lower() not in {"true", "false"}:
        _refuse(key, text, "must be true or false")
    return text.strip().lower() == "true"


def _setting(spark: SparkSession, key: str) -> str | None:
    return spark.conf.get(key, None)


def _refuse(key: str, value: str, rule: str) -> NoReturn:
    raise RequestError(f"The session setting {key} = '{value[:80]}' {rule}. Correct or unset it.")
