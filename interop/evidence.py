"""Does a table that another engine made have what it was asked to have?

An engine may take a property and do without what it stands for: rows are right all the same, and the page must not
praise it for a feature that is not there. `lacking` looks into the log and says so.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.table_rows import snapshot_of

from ebbtide.protocol.features import is_feature_supported
from interop.features import Feature

__all__ = ["lacking"]


def lacking(feature: Feature, path: Path) -> str:
    """What is missing from the table, in a few words; empty when nothing is."""
    protocol = snapshot_of(path).protocol
    missing = [f"without {name}" for name in feature.protocol if not is_feature_supported(protocol, name)]
    log = path / "_delta_log"
    if "deletionVectors" in feature.protocol and not _names_vectors(log):
        missing.append("rewrites files, marks no rows")
    if "delta.checkpointInterval" in feature.properties and not _checkpoints(log, feature):
        missing.append("writes no such checkpoint")
    return ", ".join(missing)


def _names_vectors(log: Path) -> bool:
    return any('"deletionVector":{' in commit.read_text(encoding="utf-8") for commit in log.glob("*.json"))


def _checkpoints(log: Path, feature: Feature) -> list[Path]:
    # A V2 checkpoint has a unique part between its version and its ending.
    pattern = "*.checkpoint.*.*" if "v2Checkpoint" in feature.protocol else "*.checkpoint.parquet"
    return list(log.glob(pattern))
