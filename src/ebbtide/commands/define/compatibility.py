"""What does turning deletion vectors on mean for everyone else who reads the table?

The table's protocol goes up, so an engine without the feature refuses it from then on: that is the price, and this
report names it before it is paid. It reads only the log. `ENGINES` lists what other engines can do and how we know;
what we do not know is called unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import pyarrow.compute as pc

from ebbtide.errors import UnsupportedFeatureError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Protocol
from ebbtide.protocol.features import (
    deletion_vectors_writable,
    ensure_writable,
    is_feature_supported,
    supported_features,
    upgrade_protocol_for,
)

__all__ = ["ENGINES", "CompatibilityReport", "Engine", "Obstacle", "VectorState", "compatibility_report"]

Support = Literal["yes", "no", "unknown"]
# off: the protocol does not know vectors; supported: readers must, but none are written; enabled: DELETE writes them.
VectorState = Literal["off", "supported", "enabled"]


@dataclass(frozen=True, slots=True)
class Engine:
    """Whether an engine reads tables with deletion vectors. `source` says how we know."""

    name: str
    reads: Support
    since: str
    writes: str
    source: str


_OWN_TEST: Final = "tried by Ebbtide's own tests"

ENGINES: Final = (
    Engine("Delta Lake on Spark", "yes", "2.3", "DELETE 2.4, UPDATE 3.0, MERGE 3.1", "Delta Lake documentation"),
    Engine("Databricks Runtime", "yes", "12.2 LTS", "14.3 LTS recommended", "Databricks documentation"),
    Engine("DuckDB (delta extension)", "yes", "tried with 1.5.5", "appends", _OWN_TEST),
    Engine(
        "Polars",
        "yes",
        "tried with 2.1.0; shows deleted rows where a partition value needs escaping (a space, ':', 'é')",
        "through deltalake",
        _OWN_TEST,
    ),
    Engine(
        "deltalake (delta-rs)",
        "yes",
        "tried with 1.6.6, by SQL; to_pyarrow_table refuses",
        "appends, and rewrites files on DELETE; makes no vectors",
        _OWN_TEST,
    ),
    Engine(
        "Trino",
        "yes",
        "a release whose Delta connector lists deletion vectors",
        "see its documentation",
        "Trino project",
    ),
    Engine("BigQuery (BigLake)", "yes", "", "no", "Delta Lake documentation"),
    Engine("Snowflake (Delta-based tables)", "yes", "March 2026", "no", "Snowflake release notes"),
    Engine("Delta Standalone", "no", "", "no", "deprecated, stops below reader version 3"),
    Engine("Readers of symlink manifests", "no", "", "no", "a manifest cannot name single rows (Redshift Spectrum)"),
    Engine("Athena", "unknown", "", "no", ""),
    Engine("Presto", "unknown", "", "unknown", ""),
    Engine("Flink connector", "unknown", "", "unknown", ""),
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A setting of the table that rules deletion vectors out, and what to do about it."""

    setting: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class CompatibilityReport:
    table_url: str
    version: int
    protocol: Protocol
    state: VectorState
    # The protocol after turning vectors on; the same as `protocol` when readers already know them.
    protocol_after: Protocol
    obstacles: tuple[Obstacle, ...]
    num_deletion_vectors: int

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(sorted(supported_features(self.protocol)))

    @property
    def new_features(self) -> tuple[str, ...]:
        """Features that the protocol would name and does not even imply today."""
        return tuple(sorted(supported_features(self.protocol_after) - supported_features(self.protocol)))

    @property
    def locks_out_readers(self) -> bool:
        """Whether readers that can read the table today might not be able to afterwards."""
        return self.protocol_after != self.protocol

    @property
    def recommendation(self) -> str:
        if self.obstacles:
            return f"Leave deletion vectors off, or first: {'; '.join(found.remedy for found in self.obstacles)}."
        if self.state == "enabled":
            return "Nothing to do: DELETE marks rows already."
        if self.state == "supported":
            return (
                "Set delta.enableDeletionVectors = true: every reader has to know deletion vectors as it is, so nobody "
                "is locked out by it."
            )
        return (
            "Set delta.enableDeletionVectors = true if every engine that reads this table is among those below that "
            "can; one that cannot will refuse the table, not read it wrongly."
        )


def compatibility_report(snapshot: Snapshot) -> CompatibilityReport:
    """What the log says about deletion vectors in this table, now and after turning them on."""
    vectors = pc.sum(pc.is_valid(snapshot.files.column("deletion_vector"))).as_py()
    return CompatibilityReport(
        table_url=snapshot.store.url,
        version=snapshot.version,
        protocol=snapshot.protocol,
        state=_state(snapshot),
        protocol_after=upgrade_protocol_for(snapshot.protocol, ["deletionVectors"]),
        obstacles=tuple(_obstacles(snapshot)),
        num_deletion_vectors=int(vectors or 0),
    )


def _state(snapshot: Snapshot) -> VectorState:
    if deletion_vectors_writable(snapshot.protocol, snapshot.metadata):
        return "enabled"
    return "supported" if is_feature_supported(snapshot.protocol, "deletionVectors") else "off"


def _obstacles(snapshot: Snapshot) -> list[Obstacle]:
    properties = snapshot.properties
    found = []
    if properties.symlink_format_manifest:
        name = "delta.compatibility.symlinkFormatManifest.enabled"
        reason = "manifests list whole files, so their readers would see deleted rows"
        found.append(Obstacle(f"{name} = true", reason, f"set {name} = false and move its readers to the log"))
    iceberg = {
        "delta.enableIcebergCompatV1": properties.enable_iceberg_compat_v1,
        "delta.enableIcebergCompatV2": properties.enable_iceberg_compat_v2,
        "delta.enableIcebergCompatV3": properties.enable_iceberg_compat_v3,
    }
    for name, is_on in iceberg.items():
        if is_on:
            reason = "its files must stay readable as an Iceberg table, and Ebbtide does not keep the Iceberg side"
            found.append(Obstacle(f"{name} = true", reason, f"set {name} = false and give up the Iceberg readers"))
    if properties.universal_formats:
        name, formats = "delta.universalFormat.enabledFormats", ",".join(properties.universal_formats)
        reason = "UniForm publishes the files to readers of another format, which would see deleted rows"
        found.append(Obstacle(f"{name} = {formats}", reason, f"unset {name}"))
    if not found:
        found += _gate(snapshot)
    return found


def _gate(snapshot: Snapshot) -> list[Obstacle]:
    """What stops Ebbtide from writing the table at all."""
    try:
        ensure_writable(snapshot.protocol, snapshot.metadata)
    except UnsupportedFeatureError as error:
        return [Obstacle("protocol", str(error), "use an engine that can write the table")]
    return []
