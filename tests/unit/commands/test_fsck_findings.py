"""Is every kind of damage found and named, and does a repair leave a table that can be read?"""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.fsck import damage, fsck, repair
from tests.support.sample_table import people_table
from tests.support.table_builder import TableBuilder

from ebbtide.commands.fsck import file_checks
from ebbtide.commands.fsck.command import FsckCommand
from ebbtide.commands.fsck.request import FsckRequest
from ebbtide.errors import RequestError, TableNotFoundError, UnsupportedFeatureError
from ebbtide.log import load_snapshot, read_commit
from ebbtide.protocol.actions import AddFile, CommitInfo, RemoveFile
from ebbtide.scan.files import resolve_files
from ebbtide.storage import open_store

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})


def rows(first, count, p="a"):
    return [{"id": number, "p": p} for number in range(first, first + count)]


@pytest.fixture
def builder(tmp_path):
    """Two files of four rows; one row of the second is deleted."""
    made = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    made.file(rows(0, 4), name="a.parquet").commit()
    return made.file(rows(4, 4), deleted=[1], name="b.parquet").commit()


@pytest.fixture
def vector_file(builder):
    (path,) = builder.path.glob("deletion_vector_*.bin")
    return path


def live(path):
    """The files that a reader would open, which it checks."""
    snapshot = load_snapshot(open_store(str(path)))
    return {file.add.path: file for file in resolve_files(snapshot, snapshot.files)}


def actions(path, version):
    return read_commit(open_store(str(path)), version)


def restate(builder, **changes):
    """Version after version, the first file with other members in its statistics."""
    stats = json.loads(builder.files[0].add["stats"]) | changes
    return builder.raw({"add": builder.files[0].add | {"stats": json.dumps(stats)}}).commit()


# --- data files -------------------------------------------------------------------------------------------------------


def test_missing_data_file_leaves_the_log_with_its_rows_counted(builder):
    (builder.path / "b.parquet").unlink()
    (found,) = fsck(builder.path).findings
    assert (found.kind, found.path, found.version, found.num_lost_rows) == ("missing-data-file", "b.parquet", 1, 3)
    result = repair(builder.path)
    assert result.version == 2
    assert result.is_healthy
    assert (result.metrics.num_removed_files, result.metrics.num_lost_rows) == (1, 3)
    assert list(live(builder.path)) == ["a.parquet"]


def test_repair_is_a_commit_that_says_what_it_did(builder):
    size = (builder.path / "a.parquet").stat().st_size
    (builder.path / "a.parquet").unlink()
    repair(builder.path)
    info, remove = actions(builder.path, 2)
    assert isinstance(info, CommitInfo)
    assert info.operation == "FSCK"
    assert info.fields["operationParameters"] == {"repaired": '["missing-data-file"]'}
    assert info.operation_metrics == {
        "numRemovedFiles": "1",
        "numRemovedBytes": str(size),
        "numLostRows": "4",
        "numRestatedFiles": "0",
        "numFindings": "1",
    }
    assert isinstance(remove, RemoveFile)
    assert remove.data_change


def test_unknown_number_of_lost_rows_is_not_called_zero(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(rows(0, 4), stats=False, name="a.parquet").commit()
    (builder.path / "a.parquet").unlink()
    assert fsck(builder.path).findings[0].num_lost_rows is None
    assert repair(builder.path).metrics.num_lost_rows == -1
    assert "numLostRows" not in actions(builder.path, 1)[0].operation_metrics


def test_truncated_data_file_leaves_the_log_and_stays_in_storage(builder):
    path = builder.path / "a.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert damage(builder.path) == ["truncated-data-file"]
    repair(builder.path)
    assert path.exists()
    assert list(live(builder.path)) == ["b.parquet"]


@pytest.mark.parametrize("wound", ["footer", "magic", "length", "zeros"])
def test_data_file_with_a_broken_footer_is_found(builder, wound):
    path = builder.path / "a.parquet"
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[-8:-4], "little")
    match wound:
        case "footer":
            data[-8 - length : -8] = b"\xff" * length
        case "magic":
            data[-4:] = b"PARX"
        case "length":
            data[-8:-4] = b"\xff\xff\xff\x7f"
        case "zeros":
            data[:] = bytes(len(data))
    path.write_bytes(data)
    assert damage(builder.path) == ["truncated-data-file"]


def test_data_file_whose_footer_contradicts_itself_is_not_given_up(builder):
    """A rule of ours is no reason to lose rows that Arrow can read."""
    path = builder.path / "a.parquet"
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # The number of rows of the whole file; that of its row group stays.
    path.write_bytes(data[:footer] + data[footer:].replace(b"\x16\x08", b"\x16\x0a", 1))
    (found,) = fsck(builder.path).findings
    assert (found.kind, found.is_repairable) == ("odd-footer", False)


def test_data_file_with_a_footer_of_absurd_length_is_not_given_up(builder, monkeypatch):
    monkeypatch.setattr(file_checks, "MAX_FOOTER_BYTES", 10)
    assert [(found.kind, found.severity) for found in fsck(builder.path).findings] == [("not-checked", "note")] * 2


def test_data_file_that_was_replaced_by_another_is_not_given_up(builder):
    pq.write_table(pa.table({"id": [1]}), builder.path / "a.parquet")
    (found,) = fsck(builder.path).findings
    assert (found.kind, found.is_repairable) == ("replaced-data-file", False)
    result = fsck(builder.path, repair=True)
    assert result.version is None
    assert not result.is_healthy
    assert load_snapshot(open_store(str(builder.path))).version == 1


def test_empty_data_file_is_truncated(builder):
    (builder.path / "a.parquet").write_bytes(b"")
    assert damage(builder.path) == ["truncated-data-file"]


def test_everything_that_is_wrong_is_one_commit(builder):
    (builder.path / "b.parquet").unlink()
    restate(builder, numRecords=7, maxValues={"id": 1, "p": "a"})
    assert damage(builder.path) == ["missing-data-file", "wrong-num-records", "narrow-statistics"]
    result = repair(builder.path)
    assert result.version == 3
    assert len(result.repaired) == 3


def test_file_that_came_back_before_the_commit_is_kept(builder):
    data = (builder.path / "a.parquet").read_bytes()
    (builder.path / "a.parquet").unlink()
    command = FsckCommand(FsckRequest(open_store(str(builder.path)), repair=True))
    result = command.check()
    assert len(result.findings) == 1
    (builder.path / "a.parquet").write_bytes(data)
    assert command.repair(result).version is None
    assert "a.parquet" in live(builder.path)


def test_file_that_another_writer_removed_meanwhile_is_left_to_it(builder):
    (builder.path / "a.parquet").unlink()
    (builder.path / "b.parquet").unlink()
    command = FsckCommand(FsckRequest(open_store(str(builder.path)), repair=True))
    result = command.check()
    builder.remove(builder.files[0]).commit()
    repaired = command.repair(result)
    assert repaired.version == 3
    assert [found.path for found in repaired.repaired] == ["b.parquet"]
    assert [found.path for found in repaired.unrepaired] == ["a.parquet"]
    assert live(builder.path) == {}


def test_statistics_are_not_written_over_a_vector_that_came_meanwhile(builder):
    restate(builder, numRecords=7)
    command = FsckCommand(FsckRequest(open_store(str(builder.path)), repair=True))
    result = command.check()
    builder.mark(builder.files[0], [3]).commit()
    assert command.repair(result).version is None
    assert len(live(builder.path)["a.parquet"].marks) == 1


def test_append_only_table_keeps_what_it_lost_in_its_log(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).table_property("delta.appendOnly", "true")
    builder.file(rows(0, 1), name="a.parquet").commit()
    (builder.path / "a.parquet").unlink()
    with pytest.raises(RequestError, match="append-only"):
        fsck(builder.path, repair=True)
    assert load_snapshot(open_store(str(builder.path))).version == 0


# --- deletion vectors -------------------------------------------------------------------------------------------------


def assert_vector_is_not_dropped(path, kind):
    (found,) = fsck(path).findings
    assert (found.kind, found.is_repairable) == (kind, False)
    assert "RESTORE" in found.repair
    assert "DELETE" in found.repair
    assert fsck(path, repair=True).version is None
    return found


def test_missing_vector_file_is_not_repaired(builder, vector_file):
    vector_file.unlink()
    found = assert_vector_is_not_dropped(builder.path, "missing-vector-file")
    assert found.path == vector_file.name
    assert "'b.parquet'" in found.meaning


@pytest.mark.parametrize("wound", ["version", "size", "payload", "checksum", "cut", "empty"])
def test_corrupt_vector_file_is_not_repaired(builder, vector_file, wound):
    data = bytearray(vector_file.read_bytes())
    match wound:
        case "version":
            data[0] = 2
        case "size":
            data[4] ^= 1
        case "payload":
            data[12] ^= 1
        case "checksum":
            data[-1] ^= 1
        case "cut":
            del data[-6:]
        case "empty":
            data.clear()
    vector_file.write_bytes(data)
    assert_vector_is_not_dropped(builder.path, "corrupt-vector")


def test_vector_of_another_cardinality_is_found(builder):
    add = builder.files[1].add
    # The same vector with another cardinality is the same file to the log: the newest action counts.
    builder.raw({"add": add | {"deletionVector": add["deletionVector"] | {"cardinality": 2}}}).commit()
    found = assert_vector_is_not_dropped(builder.path, "vector-cardinality")
    assert "marks 1 rows, the log says 2" in found.meaning


def test_vector_that_marks_a_row_beyond_the_file_is_found(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors()
    builder.file(rows(0, 4), deleted=[99], vector="i").commit()
    assert_vector_is_not_dropped(builder.path, "vector-row-out-of-range")


@pytest.mark.parametrize("changes", [{"storageType": "x"}, {"pathOrInlineDv": "~" * 20}, {"pathOrInlineDv": "short"}])
def test_vector_that_nobody_can_follow_is_found(tmp_path, changes):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().file(rows(0, 4), deleted=[1]).file(rows(4, 1))
    add = builder.files[0].add
    builder._staged[0] = {"add": add | {"deletionVector": add["deletionVector"] | changes}}
    builder.commit()
    assert damage(builder.path) in (["corrupt-vector"], ["corrupt-commit"])


def test_one_broken_vector_does_not_blame_the_others_in_its_file(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors(share_a_file=True)
    for name in "abc":
        builder.file(rows(0, 5), deleted=[1, 2], name=name)
    builder.commit()
    (path,) = builder.path.glob("deletion_vector_*.bin")
    data = bytearray(path.read_bytes())
    data[builder.files[1].add["deletionVector"]["offset"] + 12] ^= 1
    path.write_bytes(data)
    (found,) = fsck(builder.path).findings
    assert "'b'" in found.meaning


def test_vectors_without_their_feature_are_found(builder):
    builder._features.clear()
    builder._redefine().commit()
    assert damage(builder.path) == ["vectors-without-feature"]


# --- statistics -------------------------------------------------------------------------------------------------------


def stats_of(path, name):
    snapshot = load_snapshot(open_store(str(path)))
    return next(json.loads(add.stats) for add in snapshot.add_files() if add.path == name)


def test_wrong_number_of_records_is_put_right(builder):
    restate(builder, numRecords=7)
    (found,) = fsck(builder.path).findings
    assert found.kind == "wrong-num-records"
    assert "has 7 rows, but it has 4" in found.meaning
    result = repair(builder.path)
    assert (result.metrics.num_restated_files, result.metrics.num_lost_rows) == (1, 0)
    assert stats_of(builder.path, "a.parquet")["numRecords"] == 4
    (_, add) = actions(builder.path, result.version)
    assert isinstance(add, AddFile)
    assert not add.data_change


def test_wrong_number_of_records_of_a_file_with_a_vector_is_put_right(builder):
    file = builder.files[1]
    stats = json.dumps(json.loads(file.add["stats"]) | {"numRecords": 9})
    builder.raw({"add": file.add | {"stats": stats}}).commit()
    assert damage(builder.path) == ["wrong-num-records"]
    repair(builder.path)
    assert stats_of(builder.path, "b.parquet")["numRecords"] == 4
    assert len(live(builder.path)["b.parquet"].marks) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"minValues": {"id": 1, "p": "a"}},
        {"maxValues": {"id": 2, "p": "a"}},
        {"minValues": {"id": 0, "p": "b"}},
        {"maxValues": {"id": 3, "p": "A"}},
        {"nullCount": {"id": 4, "p": 0}},
    ],
)
def test_statistics_that_are_too_narrow_are_put_right(builder, changes):
    right = stats_of(builder.path, "a.parquet")
    restate(builder, **changes)
    assert damage(builder.path) == ["narrow-statistics"]
    repair(builder.path)
    assert stats_of(builder.path, "a.parquet") == right


def test_claim_of_no_nulls_is_put_right(tmp_path):
    builder = (
        TableBuilder(tmp_path / "t", SCHEMA).file([{"id": None, "p": "a"}, {"id": 1, "p": "a"}], name="a").commit()
    )
    restate(builder, nullCount={"id": 0, "p": 0})
    assert damage(builder.path) == ["narrow-statistics"]
    repair(builder.path)
    assert stats_of(builder.path, "a")["nullCount"] == {"id": 1, "p": 0}


def test_statistics_follow_physical_names(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).column_mapping("id").file(rows(0, 4), name="a").commit()
    restate(builder, minValues={"col-1": 1, "id": 9})
    (found,) = fsck(builder.path).findings
    assert "'id'" in found.meaning
    repair(builder.path)
    assert stats_of(builder.path, "a")["minValues"]["col-1"] == 0


def test_other_members_of_statistics_survive_a_repair(builder):
    restate(builder, numRecords=7, statsWithCollation={"x": 1.50}, minValues={"id": 0, "p": "a", "gone": 1})
    repair(builder.path)
    after = stats_of(builder.path, "a.parquet")
    assert after["statsWithCollation"] == {"x": 1.5}
    assert after["minValues"] == {"id": 0, "p": "a", "gone": 1}


# --- entries ----------------------------------------------------------------------------------------------------------


def test_file_that_is_live_twice_keeps_its_newest_entry(builder):
    file = builder.files[0]
    vector = builder._vector(frozenset({0}), "i", "")
    builder.raw({"add": file.add | {"deletionVector": vector}}).commit()
    assert damage(builder.path) == ["live-twice"]
    result = repair(builder.path)
    assert result.metrics.num_lost_rows == 0
    assert list(live(builder.path)["a.parquet"].marks) == [0]


def test_file_that_is_live_three_times_keeps_its_newest_entry(builder):
    for row in (1, 2):
        vector = builder._vector(frozenset({row}), "i", "")
        builder.raw({"add": builder.files[0].add | {"deletionVector": vector}}).commit()
    assert damage(builder.path) == ["live-twice", "live-twice"]
    repair(builder.path)
    assert list(live(builder.path)["a.parquet"].marks) == [2]


def test_file_that_is_live_twice_since_a_checkpoint_keeps_the_entry_of_the_commit(builder):
    builder.checkpoint()
    smaller = builder._vector(frozenset(), "i", "") | {"cardinality": 0}
    builder.raw({"add": builder.files[1].add | {"deletionVector": smaller}}).commit()
    assert damage(builder.path) == ["live-twice"]
    repair(builder.path)
    assert live(builder.path)["b.parquet"].marks is None


def test_two_paths_that_are_one_object_through_a_link_are_found(builder):
    (builder.path / "c.parquet").symlink_to("a.parquet")
    builder.raw({"add": builder.files[0].add | {"path": "c.parquet"}}).commit()
    (found,) = fsck(builder.path).findings
    assert (found.kind, found.path, found.num_lost_rows) == ("same-object-twice", "a.parquet", 4)
    repair(builder.path)
    assert sorted(live(builder.path)) == ["b.parquet", "c.parquet"]


def test_link_out_of_the_table_is_named(builder, tmp_path):
    (builder.path / "a.parquet").rename(tmp_path / "elsewhere.parquet")
    (builder.path / "a.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    (found,) = fsck(builder.path).findings
    assert (found.kind, found.severity, found.path) == ("outside-root", "note", "a.parquet")


def test_vector_outside_of_the_table_is_named(builder, vector_file, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere" / vector_file.name
    vector_file.rename(moved)
    file = builder.files[1]
    vector = file.add["deletionVector"] | {"storageType": "p", "pathOrInlineDv": moved.as_uri()}
    builder.remove(file).raw({"add": file.add | {"deletionVector": vector}}).commit()
    (found,) = fsck(builder.path).findings
    assert (found.kind, found.severity) == ("outside-root", "note")
    assert found.path.endswith("/elsewhere")


def test_partition_values_that_mean_nothing_are_found(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "n": pa.int32()})).partitioned_by("n")
    builder.file([{"id": 1, "n": 1}]).file([{"id": 1, "n": 2}]).commit()
    file = builder.files[0]
    for values in ({"n": "one"}, {"n": "99999999999"}, {}):
        builder.raw({"add": file.add | {"partitionValues": values}}).commit()
        assert damage(builder.path) == ["bad-partition-value"]


# --- the log ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def long_log(tmp_path):
    made = TableBuilder(tmp_path / "t", SCHEMA)
    for number in range(6):
        made.file(rows(number, 1), name=f"{number}.parquet").commit()
        if number == 3:
            made.checkpoint()
    return made


def commit(builder, version):
    return builder.log / f"{version:020d}.json"


def test_missing_commit_that_is_needed_is_an_error(long_log):
    commit(long_log, 4).unlink()
    result = fsck(long_log.path)
    (found,) = result.findings
    assert (found.kind, found.severity, found.version) == ("missing-commit", "error", 4)
    assert result.checked_version is None


def test_missing_commits_of_the_past_are_a_warning(long_log):
    commit(long_log, 1).unlink()
    commit(long_log, 2).unlink()
    (found,) = fsck(long_log.path).findings
    assert (found.kind, found.severity, found.version) == ("missing-commit", "warning", 1)
    assert "versions 1 to 2" in found.meaning


@pytest.mark.parametrize(("version", "severity"), [(1, "warning"), (5, "error")])
@pytest.mark.parametrize("content", [b"", b"{", b'{"add":{"path":5}}\n', b'{"add":{"path":"x","size":-1}}\n'])
def test_corrupt_commit_is_found(long_log, version, severity, content):
    commit(long_log, version).write_bytes(content)
    kinds = {(found.kind, found.severity) for found in fsck(long_log.path).findings}
    # An empty commit says nothing wrong; the table can be read with it.
    expected = "warning" if not content else severity
    assert ("corrupt-commit", expected) in kinds


def checkpoint(builder):
    (path,) = builder.log.glob("*.checkpoint*.parquet")
    return path


def test_corrupt_checkpoint_is_replaced_by_a_newer_one(long_log):
    path = checkpoint(long_log)
    data = path.read_bytes()
    path.write_bytes(data[:100])
    (found,) = fsck(long_log.path).findings
    assert (found.kind, found.severity, found.is_repairable) == ("corrupt-checkpoint", "warning", True)
    result = repair(long_log.path)
    assert result.version == 6
    assert path.read_bytes() == data[:100]
    assert load_snapshot(open_store(str(long_log.path))).segment.checkpoint.version == 6
    (left,) = fsck(long_log.path).findings
    assert (left.kind, left.is_repairable) == ("corrupt-checkpoint", False)


def test_checkpoint_without_one_of_its_parts_is_incomplete(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(rows(0, 1)).commit().checkpoint("multipart", hint=False)
    min(builder.log.glob("*.checkpoint*.parquet")).unlink()
    (found,) = fsck(builder.path).findings
    assert found.kind == "incomplete-checkpoint"
    assert "it lacks part 1 of 2" in found.meaning
    repair(builder.path)


def test_checkpoint_without_one_of_its_sidecars_is_incomplete(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).feature("v2Checkpoint").file(rows(0, 1)).file(rows(1, 1)).commit()
    builder.checkpoint("v2-json", sidecars=2)
    next((builder.log / "_sidecars").iterdir()).unlink()
    assert damage(builder.path) == ["incomplete-checkpoint"]
    repair(builder.path)


@pytest.mark.parametrize("change", ["lost", "extra", "schema", "size"])
def test_checkpoint_that_disagrees_with_its_commits_stops_every_repair(long_log, change):
    checkpoint(long_log).unlink()
    (long_log.log / "_last_checkpoint").unlink()
    files = dict(long_log._live)
    if change == "lost":
        del long_log._live["0.parquet"]
    elif change == "extra":
        long_log._live["9.parquet"] = type(long_log.files[0])(
            long_log.files[0].add | {"path": "9.parquet"}, [], frozenset()
        )
    elif change == "size":
        long_log.files[0].add["size"] += 1
    else:
        long_log._schema = pa.schema({"id": pa.int64()})
    long_log.checkpoint()
    long_log._live = files
    assert "checkpoint-disagrees" in damage(long_log.path)
    (long_log.path / "5.parquet").unlink()
    with pytest.raises(RequestError, match="disagree"):
        fsck(long_log.path, repair=True)


@pytest.mark.parametrize("content", ["", "{", '{"version":2}', '{"version":99}', '{"version":3,"checksum":"0"}', "[]"])
def test_hint_that_leads_nowhere_is_put_right(long_log, content):
    hint = long_log.log / "_last_checkpoint"
    hint.write_text(content)
    assert damage(long_log.path) == ["bad-last-checkpoint"]
    repair(long_log.path)
    assert json.loads(hint.read_text())["version"] == 6
    assert damage(long_log.path) == []


@pytest.mark.parametrize(
    "content", ["{", '{"numFiles":5}', '{"tableSizeBytes":1}', '{"numDeletionVectorsOpt":1}', '{"metadata":{"id":"x"}}']
)
def test_checksum_that_does_not_fit_is_found(long_log, content):
    (long_log.log / f"{5:020d}.crc").write_text(content)
    assert damage(long_log.path) == ["checksum-disagrees"]


def test_checksum_of_a_version_with_a_checkpoint_is_compared(long_log):
    (long_log.log / f"{3:020d}.crc").write_text('{"numFiles":5}')
    assert damage(long_log.path) == ["checksum-disagrees"]
    (long_log.log / f"{3:020d}.crc").write_text('{"numFiles":4}')
    assert damage(long_log.path) == []


def test_corrupt_compacted_log_is_found(long_log):
    long_log.compact(4, 5)
    next(long_log.log.glob("*.compacted.json")).write_text("{")
    assert damage(long_log.path) == ["corrupt-compacted-log"]


def test_missing_change_data_of_a_young_commit_is_a_warning(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).change_data_feed().file(rows(0, 1))
    builder.change_file([{"id": 0, "p": "a", "_change_type": "insert"}]).commit(timestamp_ms=int(time.time() * 1000))
    (path,) = (builder.path / "_change_data").iterdir()
    path.unlink()
    (found,) = fsck(builder.path).findings
    assert (found.kind, found.severity, found.version) == ("missing-change-data", "warning", 0)
    assert found.path == f"_change_data/{path.name}"


def test_log_that_cannot_be_understood_is_one_finding(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).file(rows(0, 1)).commit()
    add = builder.files[0].add
    builder.raw({"add": add}).raw({"remove": {"path": add["path"], "dataChange": True}}).commit()
    assert damage(builder.path) == ["unreadable-table"]
    assert fsck(builder.path, repair=True).version is None


def test_no_table_is_an_error_and_so_is_one_of_the_future(tmp_path):
    with pytest.raises(TableNotFoundError):
        fsck(tmp_path)
    builder = TableBuilder(tmp_path / "t", SCHEMA).feature("fromTheFuture", reader=True).commit()
    with pytest.raises(UnsupportedFeatureError):
        fsck(builder.path)


def test_result_tells_people_what_was_found(builder):
    (builder.path / "a.parquet").unlink()
    result = repair(builder.path)
    assert (
        repr(result)
        == "<FsckResult of version 1, now version 2: 2 files checked; 1 missing-data-file; 1 finding repaired>"
    )
    assert "numRemovedFiles" in result._repr_html_()


def test_progress_is_told(tmp_path):
    told = []
    people = people_table(tmp_path / "people")
    FsckCommand(FsckRequest(open_store(str(people.path))), on_phase=told.append).run()
    assert told[0] == "Reading the log"
    assert "Checking the commits: 3 of 3" in told
    assert told[-1] == "Checking the files"
