"""What do DESCRIBE HISTORY and DESCRIBE DETAIL say?"""

import json

import pytest
from tests.support.log_builder import FIRST_TIME_MS, LogBuilder, add, commit_info, domain, metadata, protocol, remove

from ebbtide.errors import CorruptTableError, ObjectNotFoundError, RequestError, TableNotFoundError
from ebbtide.log import load_snapshot, read_commit, read_history, table_detail
from ebbtide.protocol.actions import AddFile, CommitInfo, RemoveFile

HEAD = [protocol(), metadata()]


def make_log():
    log = LogBuilder()
    log.commit(0, [commit_info(operation="CREATE TABLE", userName="ada"), *HEAD])
    log.commit(1, [add("a")])
    log.commit(
        2,
        [
            remove("a"),
            commit_info(
                operation="DELETE",
                operationParameters={"predicate": "[]"},
                operationMetrics={"numDeletedRows": "3"},
                readVersion=1,
                isolationLevel="Serializable",
                isBlindAppend=False,
                engineInfo="x",
                userMetadata="note",
                clusterId="c",
                userId="7",
                job={"jobId": "1"},
                notebook={"notebookId": "2"},
            ),
        ],
    )
    return log


class TestHistory:
    def test_newest_commit_comes_first_with_all_its_fields(self):
        record = read_history(make_log().store)[0]
        assert (record.version, record.operation, record.read_version) == (2, "DELETE", 1)
        assert record.operation_parameters == {"predicate": "[]"}
        assert record.operation_metrics == {"numDeletedRows": "3"}
        assert (record.isolation_level, record.is_blind_append) == ("Serializable", False)
        assert (record.engine_info, record.user_metadata) == ("x", "note")
        assert (record.cluster_id, record.user_id, record.user_name) == ("c", "7", None)
        assert (record.job, record.notebook) == ({"jobId": "1"}, {"notebookId": "2"})

    def test_commit_without_provenance_is_listed_without_it(self):
        record = read_history(make_log().store)[1]
        assert (record.version, record.operation, record.commit_info) == (1, None, None)
        assert record.timestamp_ms == FIRST_TIME_MS + 1000

    def test_limit_cuts_old_commits_off_and_does_not_read_them(self):
        log = make_log()
        log.checkpoint(2, HEAD)
        assert [record.version for record in read_history(log.store, limit=1)] == [2]
        assert f"_delta_log/{0:020d}.json" not in log.store.reads

    def test_limit_of_zero_is_an_empty_history(self):
        assert read_history(make_log().store, limit=0) == []

    def test_negative_limit_is_refused(self):
        with pytest.raises(RequestError):
            read_history(make_log().store, limit=-1)

    def test_cleaned_up_log_has_the_history_that_is_left(self):
        log = make_log()
        log.checkpoint(1, [*HEAD, add("a")])
        log.delete(f"{0:020d}.json")
        assert [record.version for record in read_history(log.store)] == [2, 1]

    def test_history_of_a_table_that_cannot_be_read_is_still_there(self):
        log = make_log()
        log.commit(3, [commit_info(operation="UPGRADE PROTOCOL"), protocol(features=["fromTheFuture"])])
        log.commit(4, [commit_info(operation="WRITE"), {"add": {"path": 5}}])
        assert [record.operation for record in read_history(log.store, limit=2)] == ["WRITE", "UPGRADE PROTOCOL"]

    def test_gap_in_the_log_does_not_hide_history(self):
        log = make_log()
        log.delete(f"{1:020d}.json")
        assert [record.version for record in read_history(log.store)] == [2, 0]

    def test_fields_of_a_strange_type_read_as_none(self):
        log = LogBuilder()
        log.commit(0, [commit_info(operation=5, operationParameters="x", readVersion="y", isBlindAppend=1), *HEAD])
        (record,) = read_history(log.store)
        assert (record.operation, record.operation_parameters, record.read_version) == (None, None, None)
        assert record.is_blind_append is None

    def test_no_table_has_no_history(self):
        with pytest.raises(TableNotFoundError):
            read_history(LogBuilder().store)


class TestReadCommit:
    def test_actions_come_in_file_order(self):
        actions = read_commit(make_log().store, 2)
        assert [type(action) for action in actions] == [RemoveFile, CommitInfo]
        assert isinstance(read_commit(make_log().store, 1)[0], AddFile)

    def test_commit_that_does_not_exist_is_not_found(self):
        with pytest.raises(ObjectNotFoundError):
            read_commit(make_log().store, 3)


class TestDetail:
    def test_every_column_is_filled(self):
        log = LogBuilder()
        log.commit(
            0,
            [
                protocol(),
                metadata(
                    {"id": "long", "p": "string"},
                    partitions=["p"],
                    configuration={"delta.appendOnly": "true"},
                    name="n",
                    description="d",
                ),
                add("a", size=3, partition={"p": "1"}),
                add("b", size=4, partition={"p": "2"}),
            ],
        )
        detail = table_detail(load_snapshot(log.store))
        assert (detail.format, detail.name, detail.description) == ("delta", "n", "d")
        assert detail.id == "5b3ba9a6-7d0f-4d6e-9f38-000000000001"
        assert detail.location == log.store.url
        assert (detail.created_at_ms, detail.last_modified_ms) == (FIRST_TIME_MS, FIRST_TIME_MS)
        assert (detail.partition_columns, detail.clustering_columns) == (("p",), ())
        assert (detail.num_files, detail.size_in_bytes) == (2, 7)
        assert detail.properties == {"delta.appendOnly": "true"}
        assert (detail.min_reader_version, detail.min_writer_version) == (1, 2)
        assert detail.table_features == ("appendOnly", "invariants")

    def clustered(self, configuration):
        log = LogBuilder()
        fields = [
            {"name": "id", "type": "long", "nullable": True, "metadata": {"delta.columnMapping.physicalName": "col-1"}},
            {
                "name": "s",
                "type": {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]},
                "nullable": True,
                "metadata": {},
            },
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        log.commit(0, [protocol(), metadata(schemaString=schema), domain("delta.clustering", configuration)])
        return table_detail(load_snapshot(log.store)).clustering_columns

    def test_clustering_columns_have_logical_names(self):
        columns = {"clusteringColumns": [["col-1"], ["s", "x"], ["gone"]]}
        assert self.clustered(json.dumps(columns)) == ("id", "s.x", "gone")

    @pytest.mark.parametrize("configuration", ["", "{", "[]", "{}", '{"clusteringColumns":[1]}'])
    def test_broken_clustering_domain_is_corrupt(self, configuration):
        with pytest.raises(CorruptTableError):
            self.clustered(configuration)
