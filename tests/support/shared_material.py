"""Where is the team's test material, and what does it say about each golden table?

The material lies beside the repository, in `../shared` (or where `EBBTIDE_SHARED` points), and is only ever read: a table
is copied before anything opens it. Only tests may use this module; the product knows nothing of the folder.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["GoldenTable", "SharedMaterialMissingError", "golden_tables", "load_cases", "shared_directory"]

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE_ROOT_MARK = b"{{TABLE_ROOT}}"


class SharedMaterialMissingError(Exception):
    """The folder with the golden tables and behaviour cases is not there."""


def shared_directory() -> Path:
    directory = Path(os.environ.get("EBBTIDE_SHARED", REPOSITORY.parent / "shared"))
    if not (directory / "golden" / "manifest.json").is_file():
        raise SharedMaterialMissingError(
            f"The conformance tests need the shared test material, and {directory} does not hold it; "
            "set EBBTIDE_SHARED to the folder that has golden/manifest.json."
        )
    return directory


def load_cases(area: str) -> list[dict[str, Any]]:
    """The behaviour cases of one area: delete, update, merge, metrics, cdf, conflicts or maintenance."""
    return json.loads((shared_directory() / "cases" / f"{area}.json").read_text(encoding="utf-8"))


def golden_tables() -> list[GoldenTable]:
    golden = shared_directory() / "golden"
    manifest = json.loads((golden / "manifest.json").read_text(encoding="utf-8"))
    return [GoldenTable(golden, entry) for entry in manifest["tables"]]


@dataclass(frozen=True)
class GoldenTable:
    """One entry of the manifest; `entry` is the whole of it for what has no property here."""

    golden: Path
    entry: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry["name"])

    @property
    def expected_kind(self) -> str:
        return str(self.entry["expected_kind"])

    @property
    def must_fail(self) -> bool:
        return bool(self.entry["must_fail"])

    @property
    def may_refuse(self) -> bool:
        """Rows are expected, but a typed refusal is right as well: a young feature, or a table that breaks the protocol."""
        return bool(self.entry["optional"]) or self.entry.get("alternative") == "error"

    @property
    def must_fail_reason(self) -> str:
        return str(self.entry.get("must_fail_reason", "no reason given"))

    @property
    def versions(self) -> list[int]:
        """The versions whose rows are known, oldest first."""
        return sorted(int(version) for version in self.entry.get("versions") or {})

    def expected_rows(self, version: int | None = None) -> pa.Table:
        """The expected Parquet of a version, or of the newest one."""
        path = self.entry["expected"] if version is None else self.entry["versions"][str(version)]["path"]
        # One file, read as it is: a directory named like a partition must not add columns.
        return pq.ParquetFile(self.golden / path).read()

    def expected_files(self) -> list[dict[str, Any]]:
        return json.loads((self.golden / self.entry["expected"]).read_text(encoding="utf-8"))

    def copy_to(self, directory: Path) -> Path:
        """Copy the table below `directory`, fill in the copy's own path where the log asks for it, and return the copy."""
        copy = directory / "table"
        shutil.copytree(self.golden / "tables" / self.name, copy)
        if self.entry["template"]:
            for commit in (copy / "_delta_log").glob("*.json"):
                commit.write_bytes(commit.read_bytes().replace(TABLE_ROOT_MARK, os.fsencode(copy)))
        return copy
