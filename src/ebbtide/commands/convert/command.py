"""How does a folder of Parquet files become a Delta table, in place?

    listing -> data files and their partition values -> Spark: one schema for all of them
            -> footers, side by side: row counts and statistics -> one commit, version 0

No data is read, moved or written. Whatever is wrong is found before the commit, so a folder that cannot be converted
stays as it was. Nobody else may write to the folder at that time: a file that comes after the listing is not in the
table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import orjson
from pyspark.sql import SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.convert.files import converted_files
from ebbtide.commands.convert.folder import list_folder
from ebbtide.commands.convert.results import ConvertResult
from ebbtide.commands.convert.schema import folder_schema
from ebbtide.commands.define.definition import TableDefinition, define_table, target_of
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError
from ebbtide.log.listing import list_log
from ebbtide.protocol.actions import Metadata, Protocol
from ebbtide.protocol.features import is_feature_supported
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import StructField
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation, Transaction

__all__ = ["ConvertRequest", "convert_folder"]


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    """Convert the folder at the store's root, which is partitioned by these columns."""

    store: ObjectStore
    partition_fields: tuple[StructField, ...] = ()
    collects_statistics: bool = True
    options: WriteOptions = field(default_factory=WriteOptions)
    # What the session wants new tables to have.
    default_properties: Callable[[], Mapping[str, str]] = dict
    dry_run: bool = False


def _ignore(phase: str) -> None:
    del phase


def convert_folder(
    spark: SparkSession, request: ConvertRequest, *, on_phase: Callable[[str], None] = _ignore
) -> ConvertResult:
    """Make the folder a table, in one commit. A folder that is a Delta table already is left as it is."""
    store = request.store
    if list_log(store).has_log_files:
        return ConvertResult(None, store.url)
    is_exact = border.is_case_sensitive(spark)
    on_phase("Listing the files")
    files = list_folder(store, request.partition_fields, is_exact=is_exact)
    on_phase("Reading the schemas")
    schema = folder_schema(spark, store, request.partition_fields, is_exact=is_exact)
    columns = tuple(item.name for item in request.partition_fields)
    definition = TableDefinition(schema, columns, is_exact=is_exact)
    protocol, metadata = define_table(definition, defaults=request.default_properties())
    _check_defaults(request, protocol, metadata)
    on_phase("Reading the footers")
    target = target_of(store, protocol, metadata, config=request.options.config)
    adds = converted_files(target, files, collects_statistics=request.collects_statistics)
    result = ConvertResult(None, store.url, len(adds), sum(add.size for add in adds), schema, columns)
    if request.dry_run:
        return result
    on_phase("Committing")
    transaction = Transaction.create(store, metadata, protocol, config=request.options.config)
    # The files were there before, so this is no blind append.
    transaction.record_read_whole_table()
    committed = transaction.commit(adds, _operation(request, result))
    return ConvertResult(committed.version, store.url, len(adds), result.size_in_bytes, schema, columns)


def _check_defaults(request: ConvertRequest, protocol: Protocol, metadata: Metadata) -> None:
    """The session's wishes for new tables must fit files that exist already."""
    mode = TableProperties.parse(metadata.configuration).column_mapping_mode
    if mode != "none":
        raise RequestError(
            f"delta.columnMapping.mode cannot be '{mode}' in a converted table: its files know their columns by name. "
            "Unset spark.databricks.delta.properties.defaults.columnMapping.mode, and set the property afterwards.",
            error_class="DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING",
        )
    if is_feature_supported(protocol, "rowTracking") and not request.collects_statistics:
        raise RequestError(
            "Rows cannot be numbered without statistics. Leave NO STATISTICS out, or unset "
            "spark.databricks.delta.properties.defaults.enableRowTracking.",
            error_class="DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS",
        )


def _operation(request: ConvertRequest, result: ConvertResult) -> Operation:
    return Operation(
        "CONVERT",
        {
            "numFiles": result.num_converted_files,
            "partitionedBy": orjson.dumps(list(result.partition_columns)).decode(),
            "collectStats": request.collects_statistics,
            "sourceFormat": "parquet",
        },
        result.operation_metrics,
        user_metadata=request.options.user_metadata,
    )
