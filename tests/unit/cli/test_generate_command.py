"""Does `ebbtide generate` write manifests, look first when asked, and refuse a table with vectors?"""

from __future__ import annotations

import pyarrow as pa
from tests.support.command_line import ebbtide, json_lines
from tests.support.sample_table import people_table
from tests.support.table_builder import TableBuilder


def test_manifests_are_counted_and_written(tmp_path):
    table = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).file([{"id": 1}]).commit().path
    assert "would write   1 manifest\n" in ebbtide("generate", table, "--dry-run").stdout
    assert not (table / "_symlink_format_manifest").exists()
    [answer] = json_lines(ebbtide("generate", table, "--json"))
    assert answer == {"dryRun": False, "version": 0, "numWrittenManifests": 1, "numDeletedManifests": 0}
    assert (table / "_symlink_format_manifest" / "manifest").exists()


def test_table_with_vectors_is_refused(tmp_path):
    result = ebbtide("generate", people_table(tmp_path / "people").path)
    assert (result.exit_code, "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS" in result.stderr) == (2, True)
