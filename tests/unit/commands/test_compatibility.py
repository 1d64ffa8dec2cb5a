"""Does the report say who can read the table afterwards, and is what it says of the installed engines true?"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.sample_table import people_table
from tests.support.table_builder import TableBuilder

from ebbtide.commands.define.compatibility import ENGINES, compatibility_report
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

SCHEMA = pa.schema({"id": pa.int64()})


def report_of(builder):
    return compatibility_report(load_snapshot(open_store(str(builder.path))))


@pytest.fixture
def plain(tmp_path):
    return TableBuilder(tmp_path / "t", SCHEMA).file([{"id": 1}, {"id": 2}])


def test_plain_table_would_get_a_protocol_that_old_readers_refuse(plain):
    report = report_of(plain.commit())
    assert report.state == "off"
    assert report.features == ("appendOnly", "invariants")
    assert report.new_features == ("deletionVectors",)
    assert (report.protocol_after.min_reader_version, report.protocol_after.min_writer_version) == (3, 7)
    assert report.protocol_after.reader_features == {"deletionVectors"}
    assert report.locks_out_readers
    assert "refuse the table" in report.recommendation


def test_table_whose_readers_know_vectors_locks_nobody_out(plain):
    report = report_of(plain.feature("deletionVectors").commit())
    assert (report.state, report.locks_out_readers, report.new_features) == ("supported", False, ())
    assert "nobody is locked out" in report.recommendation


def test_table_that_marks_rows_already_needs_nothing(tmp_path):
    report = report_of(people_table(tmp_path / "people"))
    assert (report.state, report.num_deletion_vectors, report.obstacles) == ("enabled", 1, ())
    assert report.recommendation.startswith("Nothing to do")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("delta.compatibility.symlinkFormatManifest.enabled", "true", "manifests list whole files"),
        ("delta.enableIcebergCompatV1", "true", "Iceberg"),
        ("delta.enableIcebergCompatV2", "true", "Iceberg"),
        ("delta.universalFormat.enabledFormats", "iceberg", "UniForm"),
    ],
)
def test_setting_that_rules_vectors_out_is_named_with_a_remedy(plain, name, value, said):
    report = report_of(plain.table_property(name, value).commit())
    (obstacle,) = report.obstacles
    assert obstacle.setting == f"{name} = {value}"
    assert said in obstacle.reason
    assert name in report.recommendation
    assert report.recommendation.startswith("Leave deletion vectors off")


def test_table_that_ebbtide_cannot_write_says_which_feature_is_in_the_way(plain):
    (obstacle,) = report_of(plain.feature("collations", reader=False).commit()).obstacles
    assert "collations" in obstacle.reason


def test_every_engine_that_is_not_unknown_says_where_that_is_known_from():
    assert [engine.name for engine in ENGINES if engine.reads != "unknown" and not engine.source] == []
    assert len({engine.name for engine in ENGINES}) == len(ENGINES)


def test_installed_polars_reads_marked_rows_as_the_report_says(tmp_path):
    import polars as pl

    assert sorted(pl.read_delta(str(people_table(tmp_path / "p").path))["id"]) == [3, 4, 5, 6]


def test_installed_deltalake_reads_by_sql_and_refuses_by_arrow_as_the_report_says(tmp_path):
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import DeltaProtocolError

    table = DeltaTable(str(people_table(tmp_path / "p").path))
    found = QueryBuilder().register("t", table).execute("SELECT id FROM t ORDER BY id").read_all()
    assert pa.table(found).column("id").to_pylist() == [3, 4, 5, 6]
    with pytest.raises(DeltaProtocolError, match="deletionVectors"):
        table.to_pyarrow_table()


def test_installed_deltalake_appends_and_rewrites_on_delete_as_the_report_says(tmp_path):
    from deltalake import DeltaTable, write_deltalake

    builder = people_table(tmp_path / "p")
    more = pa.table({"id": pa.array([7], pa.int64()), "name": ["Alan"], "city": ["Bletchley"]})
    write_deltalake(str(builder.path), more, mode="append")
    done = DeltaTable(str(builder.path)).delete("id = 5")
    assert (done["num_deleted_rows"], done["num_added_files"]) == (1, 1)
    assert report_of(builder).num_deletion_vectors == 1


def test_installed_duckdb_reads_marked_rows_as_the_report_says(tmp_path):
    import duckdb
    import duckdb_extension_delta

    (extension,) = Path(duckdb_extension_delta.__path__[0]).rglob("delta.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    found = connection.execute(f"SELECT id FROM delta_scan('{people_table(tmp_path / 'p').path}') ORDER BY id")
    assert [row[0] for row in found.fetchall()] == [3, 4, 5, 6]
