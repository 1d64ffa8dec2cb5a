"""Does `ebbtide check` tell a person and a program the same, without Spark?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.command_line import ebbtide, json_lines
from tests.support.sample_table import people_table
from tests.support.table_builder import TableBuilder


@pytest.fixture
def plain(tmp_path):
    return TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).file([{"id": 1}])


def test_plain_table_shows_what_turning_vectors_on_would_change(plain):
    text = ebbtide("check", plain.commit().path).stdout
    assert "off: the protocol does not know them" in text
    assert "reader 1, writer 2" in text
    assert "reader 3, writer 7; new: deletionVectors" in text
    assert "Delta Lake on Spark" in text


def test_table_with_vectors_shows_the_share_of_deleted_rows(tmp_path):
    text = ebbtide("check", people_table(tmp_path / "people").path).stdout
    assert "2 (33.3 % of all rows), marked in 1 file" in text
    assert "the protocol stays as it is" in text
    assert text.endswith("Nothing to do: DELETE marks rows already.\n")


def test_obstacle_is_named(plain):
    plain.table_property("delta.compatibility.symlinkFormatManifest.enabled", "true").commit()
    assert "symlinkFormatManifest.enabled = true: manifests list whole files" in ebbtide("check", plain.path).stdout


def test_json_holds_the_whole_report(plain):
    (report,) = json_lines(ebbtide("check", plain.commit().path, "--json"))
    assert report["deletionVectors"] == "off"
    assert report["protocolAfter"]["readerFeatures"] == ["deletionVectors"]
    assert report["newFeatures"] == ["deletionVectors"]
    assert {engine["reads"] for engine in report["engines"]} == {"yes", "no", "unknown"}
    assert (report["numRecords"], report["obstacles"]) == (1, [])


def test_missing_table_is_exit_code_1(tmp_path):
    assert ebbtide("check", tmp_path / "nowhere").exit_code == 1
