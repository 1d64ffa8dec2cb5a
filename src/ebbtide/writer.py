"""How does Python write a DataFrame to a table?

`ebbtide.write(df, path, mode="append")`: one call for what `df.write.format("delta")` does in delta-spark. Thin on
purpose: the call becomes a request, and `commands.write.command` serves it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame

from ebbtide.arguments import checked, flag, frame, names, optional, table_path, text, text_map, transaction_id
from ebbtide.commands.write.command import WriteCommand
from ebbtide.commands.write.request import WriteMode, WriteRequest, WriteResult
from ebbtide.errors import RequestError
from ebbtide.session_settings import overwrites_dynamically, reset_txn_version, table_defaults, write_options
from ebbtide.spark_border import with_session_storage
from ebbtide.storage import open_store
from ebbtide.temp_views import refresh_changed

__all__ = ["write"]

# Spark's names for what to do with an existing table.
_MODES: Final[Mapping[str, WriteMode]] = {
    "append": "append",
    "overwrite": "overwrite",
    "ignore": "ignore",
    "error": "error",
    "errorifexists": "error",
    "default": "error",
}


@checked(
    df=frame,
    path=table_path,
    mode=text,
    partition_by=names,
    properties=optional(text_map),
    replace_where=optional(text),
    merge_schema=flag,
    overwrite_schema=flag,
    storage_options=optional(text_map),
    user_metadata=optional(text),
    txn=optional(transaction_id),
)
def write(
    df: DataFrame,
    path: str | os.PathLike[str],
    mode: str = "error",
    partition_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    *,
    replace_where: str | None = None,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    storage_options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    txn: tuple[str, int] | None = None,
) -> WriteResult:
    """Write the rows of `df` to the Delta table at `path`, which is created if there is none.

    `mode` says what to do with an existing table: "error", "append", "overwrite" or "ignore", in upper or lower case;
    Spark's "errorifexists" and "default" mean "error". Columns are matched by name, whatever their case, and cast to
    the table's types; a value that does not fit fails the write. Columns that `df` lacks are generated, or get their
    default, or null. `merge_schema` adds columns that the table lacks; `overwrite_schema` replaces the table's columns
    and partitioning by those of this write. `replace_where` (with mode "overwrite") replaces only the rows for which
    the condition is true, and all rows of `df` must satisfy it.

    `partition_by` and `properties` are for a new table. `txn=(application, number)` makes the write land once, however
    often it is sent. On any error the table is unchanged.
    """
    spark = df.sparkSession
    storage_options = with_session_storage(spark, os.fspath(path), storage_options)
    chosen = _write_mode(mode)
    app_id, number = _split_txn(txn)
    options = write_options(
        spark,
        txn_app_id=app_id,
        txn_version=number,
        user_metadata=user_metadata,
        storage_options=storage_options,
    )
    request = WriteRequest(
        store=open_store(os.fspath(path), storage_options),
        frame=df,
        mode=chosen,
        partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
        properties=dict(properties or {}),
        replace_where=replace_where,
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        policy=spark.conf.get("spark.sql.storeAssignmentPolicy") or "ANSI",
        options=options,
        means_partitions=chosen == "overwrite" and overwrites_dynamically(spark),
        default_properties=lambda: table_defaults(spark),
    )
    with reset_txn_version(spark, {"txn_app_id": app_id}):
        written = WriteCommand(spark, request).run()
    refresh_changed(spark, request.store.url)
    return written


def _write_mode(mode: str) -> WriteMode:
    found = _MODES.get(mode.lower())
    if found is None:
        raise RequestError(f"mode={mode!r} is not known; expected one of {', '.join(_MODES)}.")
    return found


def _split_txn(txn: tuple[str, int] | None) -> tuple[str | None, int | None]:
    if txn is None:
        return None, None
    app_id, version = txn
    if version < 0:
        raise RequestError(
            f"txn={txn!r}: the number must be at least 0.", error_class="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"
        )
    return app_id, version
