"""May we read this table, may we write it, and what must its protocol say when we add a feature?

`FEATURES` is the one list of the protocol's features and of what Ebbtide does about them; the gates and the coverage
page of the documentation come from it. `ensure_readable` and `ensure_writable` are the gates: they raise
`UnsupportedFeatureError`, naming every unsupported feature, before any work is done. See "Table Features" in
PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ebbtide.errors import CorruptTableError, RequestError, UnsupportedFeatureError
from ebbtide.protocol.actions import Metadata, Protocol
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import parse_schema
from ebbtide.protocol.type_changes import ensure_type_changes_readable

__all__ = [
    "FEATURES",
    "MAX_READER_VERSION",
    "MAX_WRITER_VERSION",
    "Feature",
    "check_deletion_vector_compatibility",
    "column_mapping_mode",
    "deletion_vectors_readable",
    "deletion_vectors_writable",
    "ensure_readable",
    "ensure_writable",
    "implied_features",
    "is_feature_supported",
    "supported_features",
    "upgrade_protocol_for",
    "weakest_protocol",
]

MAX_READER_VERSION: Final = 3
MAX_WRITER_VERSION: Final = 7
# Versions without feature lists, weakest first.
_OLD_VERSIONS: Final = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6))
_INVALID_VERSION: Final = "DELTA_INVALID_PROTOCOL_VERSION"
_UNSUPPORTED_READ: Final = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
_UNSUPPORTED_WRITE: Final = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
_VIOLATION: Final = "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED"


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature name. `note` says why we refuse it, or what its support rests on.

    `legacy_versions` is the lowest (reader, writer) pair that implies it; `None` for features that only exist by name.
    `refused_while` names the property that turns the feature on: without it the feature requires nothing of a writer,
    so the table may be written.
    """

    name: str
    kind: Literal["reader-writer", "writer"]
    readable: bool
    writable: bool
    note: str = ""
    legacy_versions: tuple[int, int] | None = None
    requires: tuple[str, ...] = ()
    refused_while: str = ""

    @property
    def is_reader_feature(self) -> bool:
        return self.kind == "reader-writer"


def _both(name: str, *, note: str = "", requires: tuple[str, ...] = ()) -> Feature:
    return Feature(name, "reader-writer", readable=True, writable=True, note=note, requires=requires)


def _unreadable(name: str, note: str) -> Feature:
    return Feature(name, "reader-writer", readable=False, writable=False, note=note)


def _writer(name: str, *, note: str = "", requires: tuple[str, ...] = (), legacy: int | None = None) -> Feature:
    versions = None if legacy is None else (1, legacy)
    return Feature(name, "writer", readable=True, writable=True, note=note, requires=requires, legacy_versions=versions)


def _unwritable(name: str, note: str, *, refused_while: str = "") -> Feature:
    return Feature(name, "writer", readable=True, writable=False, note=note, refused_while=refused_while)


_ICEBERG: Final = "its files must stay convertible to Iceberg, which rules deletion vectors out"
_CATALOG: Final = "commits go through a catalog, so the log in storage is not the whole truth"

FEATURES: Final[Mapping[str, Feature]] = {
    feature.name: feature
    for feature in (
        # What old protocol versions imply.
        _writer("appendOnly", legacy=2),
        _writer("invariants", legacy=2),
        _writer("checkConstraints", legacy=3),
        _writer("changeDataFeed", legacy=4),
        _writer("generatedColumns", legacy=4),
        Feature("columnMapping", "reader-writer", readable=True, writable=True, legacy_versions=(2, 5)),
        _writer("identityColumns", legacy=6),
        # Known by name only.
        _both("deletionVectors"),
        _both("timestampNtz"),
        _both("v2Checkpoint"),
        _both("vacuumProtocolCheck"),
        _both("typeWidening"),
        _both("typeWidening-preview"),
        _both("variantType"),
        _both("variantType-preview"),
        _both("variantShredding", note="variants are written unshredded", requires=("variantType",)),
        _both("variantShredding-preview", note="variants are written unshredded", requires=("variantType",)),
        _writer("domainMetadata"),
        _writer("rowTracking", requires=("domainMetadata",)),
        _writer("clustering", requires=("domainMetadata",), note="files are not re-clustered on write"),
        _writer("inCommitTimestamp"),
        _writer("inCommitTimestamp-preview"),
        _writer("allowColumnDefaults"),
        _writer("checkpointProtection", note="log cleanup must stop at requireCheckpointProtectionBeforeVersion"),
        _writer("materializePartitionColumns", note="new data files repeat the partition columns"),
        # Refused.
        _unreadable("geospatial", "geometry and geography columns are not served"),
        _unreadable("geospatial-dev", "geometry and geography columns are not served"),
        _unreadable("catalogManaged", _CATALOG),
        _unreadable("catalogOwned", _CATALOG),
        _unreadable("catalogOwned-preview", _CATALOG),
        _unreadable("redirectReaderWriter-preview", "the table has moved to another place"),
        _unreadable("adaptiveMetadata-preview", "the table's state is not kept in the Delta log"),
        _unwritable("redirectWriterOnly-preview", "the table has moved to another place"),
        _unwritable("coordinatedCommits-preview", _CATALOG),
        _unwritable("collations", "statistics and comparisons would have to follow the collation"),
        _unwritable("collations-preview", "statistics and comparisons would have to follow the collation"),
        _unwritable("icebergCompatV1", _ICEBERG, refused_while="delta.enableIcebergCompatV1"),
        _unwritable("icebergCompatV2", _ICEBERG, refused_while="delta.enableIcebergCompatV2"),
        _unwritable("icebergCompatV3", _ICEBERG, refused_while="delta.enableIcebergCompatV3"),
        _unwritable("icebergWriterCompatV1", _ICEBERG, refused_while="delta.enableIcebergWriterCompatV1"),
        _unwritable("icebergWriterCompatV3", _ICEBERG, refused_while="delta.enableIcebergWriterCompatV3"),
    )
}


def implied_features(protocol: Protocol) -> frozenset[str]:
    """Features implied by a protocol without feature lists: (1, 2) means appendOnly and invariants."""
    return frozenset(
        feature.name
        for feature in FEATURES.values()
        if feature.legacy_versions is not None
        and feature.legacy_versions[0] <= protocol.min_reader_version < MAX_READER_VERSION
        and feature.legacy_versions[1] <= protocol.min_writer_version < MAX_WRITER_VERSION
    )


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Every feature the protocol names or implies."""
    listed = (protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())
    return listed | implied_features(protocol)


def is_feature_supported(protocol: Protocol, name: str) -> bool:
    return name in supported_features(protocol)


def ensure_readable(protocol: Protocol, metadata: Metadata) -> None:
    """The gate before a scan: versions, reader features, file format, column mapping and type changes."""
    if protocol.min_reader_version > MAX_READER_VERSION:
        raise UnsupportedFeatureError(
            f"the table asks for reader version {protocol.min_reader_version}; Ebbtide knows versions up to "
            f"{MAX_READER_VERSION}",
            error_class=_INVALID_VERSION,
        )
    blocked = [name for name in sorted(protocol.reader_features or ()) if not _is_readable(name)]
    if blocked:
        raise UnsupportedFeatureError(_refusal("read", blocked), error_class=_UNSUPPORTED_READ)
    if metadata.format_provider.lower() != "parquet":
        raise UnsupportedFeatureError(
            f"the table's data files are '{metadata.format_provider[:80]}'; Ebbtide reads parquet", error_class=""
        )
    column_mapping_mode(protocol, metadata)
    if not supported_features(protocol).isdisjoint({"typeWidening", "typeWidening-preview"}):
        ensure_type_changes_readable(parse_schema(metadata.schema_string))


def ensure_writable(protocol: Protocol, metadata: Metadata) -> None:
    """The gate before a change: everything `ensure_readable` asks, the writer version and every feature."""
    ensure_readable(protocol, metadata)
    if protocol.min_writer_version > MAX_WRITER_VERSION:
        raise UnsupportedFeatureError(
            f"the table asks for writer version {protocol.min_writer_version}; Ebbtide knows versions up to "
            f"{MAX_WRITER_VERSION}",
            error_class=_INVALID_VERSION,
        )
    properties = TableProperties.parse(metadata.configuration)
    blocked = [name for name in sorted(supported_features(protocol)) if not _is_writable(name, properties)]
    if blocked:
        raise UnsupportedFeatureError(_refusal("written", blocked), error_class=_UNSUPPORTED_WRITE)


def column_mapping_mode(protocol: Protocol, metadata: Metadata) -> str:
    """`none`, `name` or `id`. A mode that the protocol does not allow is refused: readers would disagree."""
    mode = TableProperties.parse(metadata.configuration).column_mapping_mode
    if mode == "none" or protocol.min_reader_version == 2 or is_feature_supported(protocol, "columnMapping"):
        return mode
    raise CorruptTableError(
        f"delta.columnMapping.mode is '{mode}', but the protocol {protocol.min_reader_version},"
        f"{protocol.min_writer_version} does not list the feature columnMapping",
        error_class="DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH",
    )


def deletion_vectors_readable(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether files of this table may carry deletion vectors."""
    return is_feature_supported(protocol, "deletionVectors") and metadata.format_provider.lower() == "parquet"


def deletion_vectors_writable(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether new deletion vectors may be made: supported and switched on."""
    enabled = TableProperties.parse(metadata.configuration).enable_deletion_vectors
    return is_feature_supported(protocol, "deletionVectors") and enabled


def check_deletion_vector_compatibility(
    metadata: Metadata, protocol: Protocol, *, has_deletion_vectors: bool = False
) -> None:
    """Raise RequestError when the properties contradict deletion vectors.

    `has_deletion_vectors` says whether live files have any; manifests cannot be turned on while they do.
    """
    properties = TableProperties.parse(metadata.configuration)
    manifests = properties.symlink_format_manifest
    if manifests and has_deletion_vectors:
        raise _violation(
            "EXISTING_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION",
            "symlink manifests cannot be kept while files carry deletion vectors; run REORG ... APPLY (PURGE) first",
        )
    if not properties.enable_deletion_vectors:
        return
    if metadata.format_provider.lower() != "parquet":
        raise _violation(
            "PERSISTENT_DELETION_VECTORS_IN_NON_PARQUET_TABLE",
            f"delta.enableDeletionVectors needs parquet files, not '{metadata.format_provider[:80]}'",
        )
    if manifests:
        raise _violation(
            "PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION",
            "delta.enableDeletionVectors and delta.compatibility.symlinkFormatManifest.enabled exclude each other",
        )
    compatible = {
        "icebergCompatV1": properties.enable_iceberg_compat_v1,
        "icebergCompatV2": properties.enable_iceberg_compat_v2,
    }
    for feature, active in compatible.items():
        if active and is_feature_supported(protocol, feature):
            raise RequestError(
                f"delta.enableDeletionVectors cannot be set while {feature} is active",
                error_class="DELTA_ICEBERG_COMPAT_VIOLATION.DELETION_VECTORS_SHOULD_BE_DISABLED",
            )


def upgrade_protocol_for(protocol: Protocol, features: Iterable[str]) -> Protocol:
    """The smallest protocol with feature lists that supports everything `protocol` does, and `features` too.

    What the old versions implied becomes explicit. The reader version moves only when a reader feature is new:
    (1, 2) plus rowTracking is (1, 7), plus deletionVectors is (3, 7). Unchanged when nothing is missing.
    """
    needed = _with_requirements(features)
    if needed <= supported_features(protocol):
        return protocol
    everything = supported_features(protocol) | needed
    reader_version = max(protocol.min_reader_version, *(_reader_version(name) for name in needed))
    reader_features = None
    if reader_version == MAX_READER_VERSION:
        known = {name for name in everything if name in FEATURES and FEATURES[name].is_reader_feature}
        reader_features = frozenset(known | (protocol.reader_features or frozenset()))
    return Protocol(reader_version, MAX_WRITER_VERSION, reader_features, everything)


def weakest_protocol(features: Collection[str]) -> Protocol:
    """The protocol that supports exactly these features: old versions without lists where some stand for just them."""
    wanted = frozenset(features)
    for versions in _OLD_VERSIONS:
        if implied_features(Protocol(*versions)) == wanted:
            return Protocol(*versions)
    return upgrade_protocol_for(Protocol(1, 1), wanted)


def _with_requirements(features: Iterable[str]) -> frozenset[str]:
    pending, needed = list(features), set[str]()
    while pending:
        name = pending.pop()
        feature = FEATURES.get(name)
        if feature is None:
            raise RequestError(f"'{name}' is not a table feature", error_class="DELTA_UNSUPPORTED_FEATURES_IN_CONFIG")
        if name not in needed:
            needed.add(name)
            pending.extend(feature.requires)
    return frozenset(needed)


def _reader_version(name: str) -> int:
    feature = FEATURES[name]
    if not feature.is_reader_feature:
        return 1
    return MAX_READER_VERSION if feature.legacy_versions is None else feature.legacy_versions[0]


def _is_readable(name: str) -> bool:
    feature = FEATURES.get(name)
    return feature is not None and feature.readable


def _is_writable(name: str, properties: TableProperties) -> bool:
    feature = FEATURES.get(name)
    if feature is None:
        return False
    if feature.refused_while:
        # As in the protocol, only the exact word turns it on; anything else leaves it off.
        return (properties.raw(feature.refused_while) or "").strip().lower() != "true"
    return feature.writable


def _refusal(verb: str, names: list[str]) -> str:
    shown = [f"{name[:80]} ({FEATURES[name].note if name in FEATURES else 'unknown'})" for name in names[:20]]
    return f"the table cannot be {verb}, because Ebbtide does not support its features: {', '.join(shown)}"


def _violation(name: str, message: str) -> RequestError:
    return RequestError(message, error_class=f"{_VIOLATION}.{name}")
