"""The gates: which protocols are read, written, upgraded and refused."""

import json

import pytest

from ebbtide.errors import CorruptTableError, RequestError, UnsupportedFeatureError
from ebbtide.protocol.actions import Metadata, Protocol
from ebbtide.protocol.features import (
    FEATURES,
    check_deletion_vector_compatibility,
    column_mapping_mode,
    deletion_vectors_readable,
    deletion_vectors_writable,
    ensure_readable,
    ensure_writable,
    implied_features,
    is_feature_supported,
    supported_features,
    upgrade_protocol_for,
)

EMPTY_SCHEMA = '{"type":"struct","fields":[]}'


def metadata(configuration=None, *, provider="parquet", schema=EMPTY_SCHEMA):
    return Metadata("id", schema, (), configuration or {}, format_provider=provider)


def named(*features, reader=()):
    """A (3, 7) protocol; reader features are listed on both sides."""
    return Protocol(3, 7, frozenset(reader), frozenset(features) | frozenset(reader))


READABLE = [
    "deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint", "typeWidening", "typeWidening-preview",
    "variantType", "variantType-preview", "variantShredding", "variantShredding-preview", "vacuumProtocolCheck",
]  # fmt: skip
UNREADABLE = [
    "geospatial",
    "catalogManaged",
    "catalogOwned",
    "catalogOwned-preview",
    "adaptiveMetadata-preview",
    "inventedTomorrow",
]
WRITABLE = [
    *READABLE, "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns",
    "inCommitTimestamp", "inCommitTimestamp-preview", "rowTracking", "domainMetadata", "allowColumnDefaults",
    "clustering", "checkpointProtection", "materializePartitionColumns",
]  # fmt: skip
UNWRITABLE = ["collations", "coordinatedCommits-preview", "redirectWriterOnly-preview", "inventedTomorrow"]


@pytest.mark.parametrize("feature", READABLE)
def test_a_table_with_a_readable_feature_is_read(feature):
    ensure_readable(named(reader=[feature]), metadata())


@pytest.mark.parametrize("feature", UNREADABLE)
def test_an_unreadable_feature_is_named_at_the_read_gate(feature):
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        ensure_readable(named(reader=["deletionVectors", feature]), metadata())
    assert caught.value.error_class == "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
    assert "deletionVectors" not in str(caught.value)


@pytest.mark.parametrize("feature", WRITABLE)
def test_a_table_with_a_writable_feature_is_written(feature):
    reader = [feature] if FEATURES[feature].is_reader_feature else []
    ensure_writable(named(feature, reader=reader), metadata())


@pytest.mark.parametrize("feature", UNWRITABLE)
def test_an_unwritable_feature_stops_writers_but_not_readers(feature):
    ensure_readable(named(feature), metadata())
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        ensure_writable(named(feature, "appendOnly"), metadata())
    assert caught.value.error_class == "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"


@pytest.mark.parametrize("version", ["V1", "V2", "V3"])
def test_iceberg_compatibility_stops_writers_only_while_it_is_active(version):
    protocol = named(f"icebergCompat{version}")
    ensure_writable(protocol, metadata())
    ensure_writable(protocol, metadata({f"delta.enableIcebergCompat{version}": "false"}))
    with pytest.raises(UnsupportedFeatureError, match=f"icebergCompat{version}"):
        ensure_writable(protocol, metadata({f"delta.enableIcebergCompat{version}": "TRUE"}))


def test_every_blocking_feature_is_named_with_a_reason():
    with pytest.raises(UnsupportedFeatureError) as caught:
        ensure_writable(named("collations", "newest"), metadata())
    assert "collations (statistics" in str(caught.value)
    assert "newest (unknown)" in str(caught.value)


@pytest.mark.parametrize(
    ("protocol", "gate"),
    [
        (Protocol(4, 7, frozenset(), frozenset()), ensure_readable),
        (Protocol(99, 99), ensure_readable),
        (Protocol(1, 8), ensure_writable),
    ],
)
def test_a_newer_protocol_version_is_refused(protocol, gate):
    with pytest.raises(UnsupportedFeatureError) as caught:
        gate(protocol, metadata())
    assert caught.value.error_class == "DELTA_INVALID_PROTOCOL_VERSION"


@pytest.mark.parametrize(
    "protocol",
    [Protocol(0, 0), Protocol(1, 1), Protocol(1, 2), Protocol(2, 6), Protocol(1, 7, None, frozenset()), Protocol(3, 7)],
)
def test_old_protocols_and_missing_feature_lists_pass_both_gates(protocol):
    ensure_writable(protocol, metadata())


def test_a_newer_writer_version_does_not_stop_readers():
    ensure_readable(Protocol(1, 8), metadata())


def test_a_reader_feature_listed_under_an_old_version_is_checked_all_the_same():
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        ensure_readable(Protocol(1, 7, frozenset({"catalogManaged"}), frozenset()), metadata())


def test_a_table_of_another_file_format_is_refused():
    with pytest.raises(UnsupportedFeatureError, match="orc"):
        ensure_readable(Protocol(1, 2), metadata(provider="orc"))
    ensure_readable(Protocol(1, 2), metadata(provider="PARQUET"))


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (Protocol(1, 1), set()),
        (Protocol(1, 2), {"appendOnly", "invariants"}),
        (Protocol(1, 3), {"appendOnly", "invariants", "checkConstraints"}),
        (Protocol(1, 4), {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (Protocol(1, 5), {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (
            Protocol(2, 5),
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"},
        ),
        (
            Protocol(2, 6),
            {
                "appendOnly",
                "invariants",
                "checkConstraints",
                "changeDataFeed",
                "generatedColumns",
                "columnMapping",
                "identityColumns",
            },
        ),
        (Protocol(1, 7, None, frozenset({"appendOnly"})), set()),
        (Protocol(3, 7, frozenset(), frozenset()), set()),
    ],
)
def test_old_versions_imply_the_features_of_their_time(protocol, expected):
    assert implied_features(protocol) == expected


def test_supported_features_are_the_listed_and_the_implied_ones():
    assert supported_features(Protocol(2, 7, None, frozenset({"columnMapping"}))) == {"columnMapping"}
    assert is_feature_supported(Protocol(1, 2), "appendOnly")
    assert not is_feature_supported(Protocol(1, 2), "deletionVectors")
    assert is_feature_supported(named(reader=["deletionVectors"]), "deletionVectors")


@pytest.mark.parametrize(
    ("before", "features", "after"),
    [
        (Protocol(1, 2), {"deletionVectors"}, Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"appendOnly", "invariants", "deletionVectors"}))),
        (Protocol(1, 2), {"rowTracking"}, Protocol(1, 7, None, frozenset({"appendOnly", "invariants", "rowTracking", "domainMetadata"}))),
        (Protocol(1, 2), {"columnMapping"}, Protocol(2, 7, None, frozenset({"appendOnly", "invariants", "columnMapping"}))),
        (Protocol(1, 2), {"appendOnly"}, Protocol(1, 2)),
        (Protocol(1, 2), set(), Protocol(1, 2)),
        (Protocol(1, 1), {"changeDataFeed"}, Protocol(1, 7, None, frozenset({"changeDataFeed"}))),
        (
            Protocol(2, 5),
            {"deletionVectors"},
            Protocol(
                3,
                7,
                frozenset({"deletionVectors", "columnMapping"}),
                frozenset({"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping", "deletionVectors"}),
            ),
        ),
        (
            Protocol(2, 7, None, frozenset({"columnMapping"})),
            {"deletionVectors"},
            Protocol(3, 7, frozenset({"deletionVectors", "columnMapping"}), frozenset({"deletionVectors", "columnMapping"})),
        ),
        (
            Protocol(3, 7, frozenset({"unheardOf"}), frozenset({"unheardOf"})),
            {"v2Checkpoint"},
            Protocol(3, 7, frozenset({"unheardOf", "v2Checkpoint"}), frozenset({"unheardOf", "v2Checkpoint"})),
        ),
        (Protocol(3, 7), {"appendOnly"}, Protocol(3, 7, frozenset(), frozenset({"appendOnly"}))),
    ],
)  # fmt: skip
def test_an_upgrade_keeps_everything_and_moves_the_versions_no_further_than_needed(before, features, after):
    assert upgrade_protocol_for(before, features) == after


def test_an_unknown_feature_cannot_be_asked_for():
    with pytest.raises(RequestError, match="'nonsense'"):
        upgrade_protocol_for(Protocol(1, 2), {"nonsense"})


def test_requirements_of_every_feature_are_features():
    assert {name for feature in FEATURES.values() for name in feature.requires} <= set(FEATURES)


def test_every_refused_feature_says_why():
    assert [
        name for name, feature in FEATURES.items() if not (feature.readable and feature.writable) and not feature.note
    ] == []


DV = named(reader=["deletionVectors"])
ON = {"delta.enableDeletionVectors": "true"}


@pytest.mark.parametrize(
    ("protocol", "table", "readable", "writable"),
    [
        (DV, metadata(ON), True, True),
        (DV, metadata(), True, False),
        (DV, metadata({"DELTA.ENABLEDELETIONVECTORS": "True"}), True, True),
        (DV, metadata(ON, provider="orc"), False, True),
        (Protocol(1, 2), metadata(ON), False, False),
    ],
)
def test_deletion_vectors_are_readable_when_supported_and_writable_when_switched_on(
    protocol, table, readable, writable
):
    assert deletion_vectors_readable(protocol, table) is readable
    assert deletion_vectors_writable(protocol, table) is writable


@pytest.mark.parametrize(
    ("table", "has_vectors", "error_class"),
    [
        (metadata(ON, provider="orc"), False, "PERSISTENT_DELETION_VECTORS_IN_NON_PARQUET_TABLE"),
        (
            metadata({**ON, "delta.compatibility.symlinkFormatManifest.enabled": "true"}),
            False,
            "PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION",
        ),
        (
            metadata({"delta.compatibility.symlinkFormatManifest.enabled": "true"}),
            True,
            "EXISTING_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION",
        ),
    ],
)
def test_settings_that_exclude_deletion_vectors_are_refused(table, has_vectors, error_class):
    with pytest.raises(RequestError) as caught:
        check_deletion_vector_compatibility(table, DV, has_deletion_vectors=has_vectors)
    assert caught.value.error_class == f"DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED.{error_class}"


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_active_iceberg_compatibility_excludes_deletion_vectors(version):
    protocol = named(f"icebergCompat{version}", reader=["deletionVectors"])
    with pytest.raises(RequestError, match=f"icebergCompat{version}"):
        check_deletion_vector_compatibility(metadata({**ON, f"delta.enableIcebergCompat{version}": "true"}), protocol)


@pytest.mark.parametrize(
    ("table", "has_vectors"),
    [
        (metadata(ON), True),
        (metadata({"delta.compatibility.symlinkFormatManifest.enabled": "true"}), False),
        (metadata(provider="orc"), False),
        (metadata({**ON, "delta.enableIcebergCompatV2": "true"}), False),
    ],
)
def test_settings_that_do_not_contradict_deletion_vectors_pass(table, has_vectors):
    check_deletion_vector_compatibility(table, DV, has_deletion_vectors=has_vectors)


@pytest.mark.parametrize(
    ("protocol", "mode"),
    [
        (Protocol(2, 5), "name"),
        (Protocol(2, 7, None, frozenset()), "name"),
        (named(reader=["columnMapping"]), "id"),
        (Protocol(1, 2), "none"),
    ],
)
def test_the_mapping_mode_counts_where_the_protocol_allows_it(protocol, mode):
    assert column_mapping_mode(protocol, metadata({"delta.columnMapping.mode": mode})) == mode


def test_a_mapping_mode_that_the_protocol_does_not_allow_is_refused():
    with pytest.raises(CorruptTableError) as caught:
        ensure_readable(Protocol(1, 2), metadata({"delta.columnMapping.mode": "name"}))
    assert caught.value.error_class == "DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH"


def test_a_type_change_that_cannot_be_read_is_refused_at_the_gate_only_with_the_feature():
    change = {"delta.typeChanges": [{"fromType": "string", "toType": "integer"}]}
    schema = json.dumps(
        {"type": "struct", "fields": [{"name": "c", "type": "integer", "nullable": True, "metadata": change}]}
    )
    ensure_readable(Protocol(1, 2), metadata(schema=schema))
    with pytest.raises(UnsupportedFeatureError, match="'c' was of type string"):
        ensure_readable(named(reader=["typeWidening"]), metadata(schema=schema))
