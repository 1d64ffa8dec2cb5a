"""Table properties: defaults, parsing, case, and broken values that only hurt who asks for them."""

import pytest

from ebbtide.errors import CorruptTableError, RequestError
from ebbtide.protocol.properties import Property, TableProperties, parse_duration_ms

DAY = 86_400_000

DEFAULTS = {
    "append_only": False,
    "enable_deletion_vectors": False,
    "enable_change_data_feed": False,
    "isolation_level": "Serializable",
    "randomize_file_prefixes": False,
    "random_prefix_length": 2,
    "write_partition_columns_to_parquet": None,
    "symlink_format_manifest": False,
    "universal_formats": (),
    "target_file_size": None,
    "auto_compact": None,
    "auto_optimize": False,
    "checkpoint_interval": 10,
    "checkpoint_policy": "classic",
    "checkpoint_write_stats_as_json": True,
    "checkpoint_write_stats_as_struct": True,
    "deleted_file_retention_ms": 7 * DAY,
    "log_retention_ms": 30 * DAY,
    "drop_feature_retention_ms": DAY,
    "enable_expired_log_cleanup": True,
    "set_transaction_retention_ms": None,
    "require_checkpoint_protection_before_version": 0,
    "data_skipping_num_indexed_cols": 32,
    "data_skipping_stats_columns": None,
    "data_skipping_string_prefix_length": None,
    "enable_row_tracking": False,
    "row_tracking_suspended": False,
    "materialized_row_id_column": None,
    "materialized_row_commit_version_column": None,
    "enable_in_commit_timestamps": False,
    "in_commit_timestamp_enablement_version": None,
    "in_commit_timestamp_enablement_timestamp": None,
    "column_mapping_mode": "none",
    "column_mapping_max_column_id": 0,
    "enable_type_widening": False,
    "enable_variant_shredding": False,
    "min_reader_version": None,
    "min_writer_version": None,
    "enable_iceberg_compat_v1": False,
    "enable_iceberg_compat_v2": False,
    "enable_iceberg_compat_v3": False,
}

PARSED = [
    ("delta.appendOnly", "true", "append_only", True),
    ("delta.appendOnly", " TRUE ", "append_only", True),
    ("delta.appendonly", "False", "append_only", False),
    ("delta.enableChangeDataCapture", "true", "enable_change_data_feed", True),
    ("delta.isolationLevel", "writeserializable", "isolation_level", "WriteSerializable"),
    ("delta.targetFileSize", "100 MB", "target_file_size", 100 << 20),
    ("delta.targetFileSize", "123", "target_file_size", 123),
    ("delta.autoOptimize.autoCompact", "TRUE", "auto_compact", "true"),
    ("delta.autoOptimize", "true", "auto_optimize", True),
    ("delta.checkpointInterval", "7", "checkpoint_interval", 7),
    ("delta.checkpointPolicy", "V2", "checkpoint_policy", "v2"),
    ("delta.checkpoint.writeStatsAsJson", "false", "checkpoint_write_stats_as_json", False),
    ("delta.deletedFileRetentionDuration", "interval 2 days", "deleted_file_retention_ms", 2 * DAY),
    ("delta.logRetentionDuration", "interval 3 hours", "log_retention_ms", DAY // 8),
    ("delta.setTransactionRetentionDuration", "1 week", "set_transaction_retention_ms", 7 * DAY),
    ("delta.dataSkippingNumIndexedCols", "-1", "data_skipping_num_indexed_cols", -1),
    (
        "delta.dataSkippingStatsColumns",
        "a, b.c,`d,e`.f",
        "data_skipping_stats_columns",
        (("a",), ("b", "c"), ("d,e", "f")),
    ),
    ("delta.dataSkippingStatsColumns", "", "data_skipping_stats_columns", ()),
    ("delta.universalFormat.enabledFormats", "iceberg, hudi", "universal_formats", ("iceberg", "hudi")),
    ("delta.rowTracking.materializedRowIdColumnName", "_row-id-x", "materialized_row_id_column", "_row-id-x"),
    ("delta.inCommitTimestampEnablementVersion", "3", "in_commit_timestamp_enablement_version", 3),
    ("delta.enableInCommitTimestamps-preview", "true", "enable_in_commit_timestamps", True),
    ("delta.columnMapping.mode", "NAME", "column_mapping_mode", "name"),
    ("delta.columnMapping.maxColumnId", "12", "column_mapping_max_column_id", 12),
    ("delta.writePartitionColumnsToParquet", "false", "write_partition_columns_to_parquet", False),
]

BROKEN = [
    ("delta.appendOnly", "yes", "append_only"),
    ("delta.appendOnly", "", "append_only"),
    ("delta.targetFileSize", "0", "target_file_size"),
    ("delta.targetFileSize", "large", "target_file_size"),
    ("delta.autoOptimize.autoCompact", "perhaps", "auto_compact"),
    ("delta.checkpointInterval", "0", "checkpoint_interval"),
    ("delta.checkpointInterval", "ten", "checkpoint_interval"),
    ("delta.checkpointInterval", "9" * 30, "checkpoint_interval"),
    ("delta.randomPrefixLength", "1000000000", "random_prefix_length"),
    ("delta.checkpointPolicy", "v3", "checkpoint_policy"),
    ("delta.isolationLevel", "none", "isolation_level"),
    ("delta.columnMapping.mode", "position", "column_mapping_mode"),
    ("delta.logRetentionDuration", "1 month", "log_retention_ms"),
    ("delta.dataSkippingNumIndexedCols", "-2", "data_skipping_num_indexed_cols"),
    ("delta.dataSkippingStatsColumns", "a..b", "data_skipping_stats_columns"),
    ("delta.dataSkippingStatsColumns", "`a", "data_skipping_stats_columns"),
]


def test_every_declared_property_has_its_default():
    empty = TableProperties.parse({})
    declared = {
        name: getattr(empty, name) for name, value in vars(TableProperties).items() if isinstance(value, Property)
    }
    assert declared == DEFAULTS


@pytest.mark.parametrize(("key", "text", "attribute", "value"), PARSED)
def test_a_property_is_parsed_to_its_type_whatever_the_case_of_its_key(key, text, attribute, value):
    assert getattr(TableProperties.parse({key: text}), attribute) == value
    assert getattr(TableProperties.parse({key.upper(): text}), attribute) == value
    TableProperties.check({key: text})


@pytest.mark.parametrize(("key", "text", "attribute"), BROKEN)
def test_a_broken_value_raises_only_when_it_is_asked_for(key, text, attribute):
    properties = TableProperties.parse({key: text, "delta.enableRowTracking": "true"})
    assert properties.enable_row_tracking is True
    with pytest.raises(CorruptTableError, match=key):
        getattr(properties, attribute)


@pytest.mark.parametrize(("key", "text", "attribute"), BROKEN)
def test_a_caller_cannot_set_a_broken_value(key, text, attribute):
    with pytest.raises(RequestError, match=key):
        TableProperties.check({key.upper(): text})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 1 week", 7 * DAY),
        ("INTERVAL 30 DAYS", 30 * DAY),
        ("7 days", 7 * DAY),
        ("1 week 2 days 3 hours", 9 * DAY + DAY // 8),
        ("interval 0 hours", 0),
        ("90 minutes", 5_400_000),
        ("1.5 seconds", 1500),
        ("1500 milliseconds", 1500),
        ("1500 microseconds", 1),
        ("2 days -1 hours", 2 * DAY - 3_600_000),
        ("  1 day  ", DAY),
        ("1day", DAY),
    ],
)
def test_durations_become_milliseconds(text, milliseconds):
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "interval",
        "week",
        "1",
        "1 month",
        "2 years",
        "-1 days",
        "1 fortnight",
        "1.5 days",
        "1 week and a bit",
        "9" * 40 + " days",
        "999999999999999 weeks",
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError):
        parse_duration_ms(text)


def test_unknown_properties_are_kept_as_written():
    properties = TableProperties.parse({"delta.appendOnly": "true", "Custom.Key": "x", "delta.constraints.c1": "a > 0"})
    assert properties.raw("custom.key") == "x"
    assert properties.raw("missing") is None


def test_constraints_are_found_by_prefix():
    properties = TableProperties.parse(
        {"delta.constraints.Positive": "a > 0", "delta.feature.rowTracking": "supported"}
    )
    assert properties.constraints == {"Positive": "a > 0"}


@pytest.mark.parametrize("order", [1, -1])
def test_the_canonical_spelling_wins_over_others(order):
    entries = [("delta.appendOnly", "true"), ("delta.APPENDONLY", "false")][::order]
    assert TableProperties.parse(dict(entries)).append_only is True


def test_properties_are_values():
    one, two = TableProperties.parse({"a": "1"}), TableProperties.parse({"a": "1"})
    assert one == two
    assert hash(one) == hash(two)
    assert one != TableProperties.parse({"a": "2"})
    assert repr(one) == "TableProperties({'a': '1'})"


def test_every_property_explains_itself():
    assert [declared.name for declared in TableProperties.declarations() if not declared.doc] == []
    assert all(declared.name.startswith("delta.") for declared in TableProperties.declarations())
