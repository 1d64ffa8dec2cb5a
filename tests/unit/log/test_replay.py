"""Which files are live: identity by (path, vector), order, contradictions, spellings of a path."""

import pyarrow as pa
import pytest
from tests.support.log_builder import LogBuilder, add, domain, live_keys, metadata, protocol, remove, txn, vector

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError, UnsupportedFeatureError
from ebbtide.log import load_snapshot
from ebbtide.log.identity import canonical_column
from ebbtide.protocol.paths import canonical_path

HEAD = [protocol(), metadata()]
OLD, NEW = vector(offset=1), vector(offset=50, cardinality=2)
OLD_ID, NEW_ID = "uab^-aqEH.-t@S}K{vb[*k^@1", "uab^-aqEH.-t@S}K{vb[*k^@50"


def snapshot_of(*commits, **options):
    log = LogBuilder()
    for version, actions in enumerate(commits):
        log.commit(version, [*(HEAD if version == 0 else []), *actions])
    return load_snapshot(log.store, **options)


def test_removed_file_is_gone_and_leaves_a_tombstone():
    snapshot = snapshot_of([add("a"), add("b")], [remove("a", at=77)])
    assert live_keys(snapshot) == {("b", None)}
    assert [(row["path"], row["deletion_timestamp"]) for row in snapshot.tombstones().to_pylist()] == [("a", 77)]


def test_file_added_again_is_live_and_has_no_tombstone():
    snapshot = snapshot_of([add("a")], [remove("a")], [add("a", size=7)])
    assert [file.size for file in snapshot.add_files()] == [7]
    assert snapshot.tombstones().num_rows == 0


@pytest.mark.parametrize("order", [1, -1], ids=["add first", "remove first"])
def test_changed_vector_replaces_the_file_in_any_order(order):
    snapshot = snapshot_of([add("a", dv=OLD)], [remove("a", dv=OLD), add("a", dv=NEW)][::order])
    assert live_keys(snapshot) == {("a", NEW_ID)}
    assert snapshot.tombstones().column("deletion_vector").to_pylist()[0]["offset"] == 1


def test_vector_taken_away_leaves_the_plain_file():
    assert live_keys(snapshot_of([add("a", dv=OLD)], [remove("a", dv=OLD), add("a")])) == {("a", None)}


def test_removal_without_the_vector_does_not_remove_the_marked_file():
    snapshot = snapshot_of([add("a", dv=OLD)], [remove("a")])
    assert live_keys(snapshot) == {("a", OLD_ID)}


def test_offset_is_part_of_the_identity_and_absent_is_not_zero():
    zero, absent = vector(offset=0), vector(offset=None)
    assert live_keys(snapshot_of([add("a", dv=zero)], [remove("a", dv=absent)])) == {("a", "uab^-aqEH.-t@S}K{vb[*k^@0")}


def test_cardinality_is_no_part_of_the_identity():
    assert (
        live_keys(snapshot_of([add("a", dv=vector(cardinality=1))], [remove("a", dv=vector(cardinality=9))])) == set()
    )


def test_new_vector_without_removing_the_old_pair_is_corrupt():
    with pytest.raises(CorruptTableError, match="'a' is live more than once"):
        snapshot_of([add("a", dv=OLD)], [add("a", dv=NEW)])


def test_vector_on_a_file_whose_plain_form_was_not_removed_is_corrupt():
    log = LogBuilder()
    log.checkpoint(3, [*HEAD, add("a"), add("b")])
    log.commit(4, [add("a", dv=NEW)])
    with pytest.raises(CorruptTableError, match="'a' is live more than once"):
        load_snapshot(log.store)


def test_path_twice_in_a_checkpoint_is_corrupt():
    log = LogBuilder()
    log.checkpoint(3, [*HEAD, add("a", dv=OLD), add("b"), add("a", dv=NEW)])
    with pytest.raises(CorruptTableError, match="'a' is live more than once"):
        load_snapshot(log.store)


def test_two_vectors_that_a_later_commit_sorts_out_are_fine():
    assert live_keys(snapshot_of([add("a", dv=OLD)], [add("a", dv=NEW)], [remove("a", dv=OLD)])) == {("a", NEW_ID)}


def test_same_file_added_and_removed_in_one_commit_is_refused():
    with pytest.raises(CorruptTableError, match="version 1 both adds and removes") as caught:
        snapshot_of([], [add("a"), remove("a")])
    assert caught.value.error_class == "DELTA_DUPLICATE_ACTIONS_FOUND"


def test_contradiction_that_a_later_commit_settles_is_fine():
    assert live_keys(snapshot_of([add("b")], [add("a"), remove("a")], [remove("a")])) == {("b", None)}
    assert live_keys(snapshot_of([add("b")], [add("a"), remove("a")], [add("a")])) == {("a", None), ("b", None)}


def test_same_add_twice_in_one_commit_counts_once():
    assert snapshot_of([add("a"), add("a")]).num_files == 1


def test_two_different_adds_of_one_file_in_one_commit_are_refused():
    with pytest.raises(CorruptTableError, match="adds the file 'a' twice"):
        snapshot_of([add("a", partition={"p": "1"}), add("a", partition={"p": "2"})])


def test_removal_of_an_unknown_vector_file_is_a_plain_tombstone():
    snapshot = snapshot_of([add("a")], [remove("deletion_vector_x.bin")])
    assert live_keys(snapshot) == {("a", None)}
    assert snapshot.tombstones().column("path").to_pylist() == ["deletion_vector_x.bin"]


@pytest.mark.parametrize(
    ("added", "removed"),
    [("a%20b", "a%20b"), ("a%2Db", "a-b"), ("a-b", "memory://tests/table/a-b"), ("p=1/./a", "p=1/a"), ("%C3%A9", "é")],
)
def test_two_spellings_of_one_path_are_one_file(added, removed):
    assert snapshot_of([add(added), add("other")], [remove(removed)]).num_files == 1


def test_encoded_percent_is_not_decoded_twice():
    assert snapshot_of([add("a%2520b"), add("a%20b")], [remove("a%20b")]).num_files == 1


def test_spelling_of_the_log_is_kept():
    assert live_keys(snapshot_of([add("a%20b")])) == {("a%20b", None)}


@pytest.mark.parametrize("path", ["../up", "%2e%2e/up", "a%zz", "a#b", "a%00b"])
def test_path_that_means_no_file_of_the_table_is_refused(path):
    with pytest.raises(CorruptTableError):
        snapshot_of([add(path)])


def test_all_fields_of_an_add_survive():
    full = add(
        "a",
        dv=OLD,
        size=3,
        partition={"p": "x", "q": None},
        stats='{"numRecords":3}',
        tags={"k": "v"},
        baseRowId=5,
        defaultRowCommitVersion=1,
        clusteringProvider="liquid",
    )
    (file,) = snapshot_of([full]).add_files()
    assert file.to_json() == {**full["add"], "dataChange": False}


class TestOtherState:
    def test_newest_transaction_of_each_application_counts(self):
        snapshot = snapshot_of([txn("a", 1), txn("b", 7)], [txn("a", 3)])
        assert {app: action.version for app, action in snapshot.transactions.items()} == {"a": 3, "b": 7}

    def test_removed_domain_is_hidden_even_from_a_checkpoint(self):
        log = LogBuilder()
        log.checkpoint(1, [*HEAD, domain("kept"), domain("gone")])
        log.commit(2, [domain("gone", removed=True), domain("new", "x")])
        assert sorted(load_snapshot(log.store).domain_metadata) == ["kept", "new"]

    def test_newest_metadata_and_protocol_count(self):
        snapshot = snapshot_of([], [metadata({"id": "long", "x": "string"})], [protocol(1, 4)])
        assert [field.name for field in snapshot.schema.fields] == ["id", "x"]
        assert snapshot.protocol.min_writer_version == 4

    @pytest.mark.parametrize("pair", [[protocol(1, 2), protocol(1, 3)], [metadata(), metadata({"y": "long"})]])
    def test_two_different_heads_in_one_commit_are_refused(self, pair):
        with pytest.raises(CorruptTableError, match="two different"):
            snapshot_of([], pair)

    @pytest.mark.parametrize(("missing", "present"), [("protocol", metadata()), ("metaData", protocol())])
    def test_log_without_protocol_or_metadata_is_corrupt(self, missing, present):
        log = LogBuilder()
        log.commit(0, [present, add("a")])
        with pytest.raises(CorruptTableError, match=missing):
            load_snapshot(log.store)

    def test_unknown_actions_and_fields_are_ignored(self):
        snapshot = snapshot_of([add("a", futureField=[1]), {"futureAction": {"x": 1}}, {}])
        assert snapshot.num_files == 1

    def test_sizes_are_added_up(self):
        assert snapshot_of([add("a", size=3), add("b", size=4)]).size_in_bytes == 7

    def test_empty_table_has_no_files(self):
        snapshot = snapshot_of([])
        assert (snapshot.num_files, snapshot.size_in_bytes, snapshot.files.num_rows) == (0, 0, 0)
        assert snapshot.tombstones().num_rows == 0


class TestGate:
    def test_unknown_feature_is_refused_before_strange_file_actions_are_looked_at(self):
        log = LogBuilder()
        log.commit(0, [protocol(features=["fromTheFuture"]), metadata(), {"add": {"path": {"not": "text"}}}])
        with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
            load_snapshot(log.store)

    def test_unknown_feature_is_refused_before_the_files_of_a_checkpoint_are_read(self):
        log = LogBuilder()
        log.v2_checkpoint(1, [protocol(features=["fromTheFuture"]), metadata(), add("a")], sidecars=1)
        with pytest.raises(UnsupportedFeatureError):
            load_snapshot(log.store)
        assert not [path for path in log.store.reads if "_sidecars" in path]

    def test_older_version_before_the_feature_came_is_readable(self):
        log = LogBuilder()
        log.commit(0, [*HEAD, add("a")])
        log.commit(1, [protocol(features=["fromTheFuture"])])
        assert load_snapshot(log.store, version=0).num_files == 1

    def test_vector_without_the_feature_is_kept(self):
        assert live_keys(snapshot_of([add("a", dv=OLD)])) == {("a", OLD_ID)}

    def test_unknown_column_type_is_refused(self):
        with pytest.raises(CorruptTableError, match="nosuchtype"):
            snapshot_of([], [metadata({"x": "nosuchtype"})])


class TestMalformedCommits:
    @pytest.mark.parametrize(
        "action",
        [
            {"add": {}},
            {"add": []},
            {"add": "text"},
            {"add": {"path": "", "partitionValues": {}, "size": 1}},
            {"add": {"path": 5, "partitionValues": {}, "size": 1}},
            {"add": {"path": "a", "size": 1}},
            {"add": {"path": "a", "partitionValues": {}}},
            {"add": {"path": "a", "partitionValues": {}, "size": -1}},
            {"add": {"path": "a", "partitionValues": {}, "size": 1.5}},
            {"add": {"path": "a", "partitionValues": {}, "size": True}},
            {"add": {"path": "a", "partitionValues": {}, "size": 2**63}},
            {"add": {"path": "a", "partitionValues": {"p": 1.5}, "size": 1}},
            {"add": {"path": "a", "partitionValues": ["p"], "size": 1}},
            {"add": {"path": "a", "partitionValues": {}, "size": 1, "stats": {"numRecords": 1}}},
            {"add": {"path": "a", "partitionValues": {}, "size": 1, "deletionVector": {}}},
            {"add": {"path": "a", "partitionValues": {}, "size": 1, "deletionVector": {**OLD, "cardinality": -1}}},
            {"add": {"path": "a", "partitionValues": {}, "size": 1, "deletionVector": {**OLD, "offset": 2**31}}},
            {"add": {"path": "a", "partitionValues": {}, "size": 1, "deletionVector": {**OLD, "storageType": None}}},
            {"remove": {"deletionTimestamp": 1}},
            {"remove": {"path": "a", "deletionTimestamp": "yesterday"}},
            {"protocol": {"minReaderVersion": "x"}},
            {"metaData": {"id": "x"}},
            {"txn": {"appId": "a"}},
            {"add": {"path": "a"}, "remove": {"path": "b"}},
        ],
        ids=str,
    )
    def test_action_of_the_wrong_shape_is_corrupt(self, action):
        with pytest.raises(CorruptTableError):
            snapshot_of([add("fine")], [add("also fine"), action])

    def test_field_and_file_are_named(self):
        with pytest.raises(CorruptTableError, match=r"field 'size' of 'add' in _delta_log/00000000000000000001\.json"):
            snapshot_of([add("b")], [add("c"), {"add": {"path": "a", "partitionValues": {}}}], [add("d")])

    @pytest.mark.parametrize(
        "content", [b'{"add":{"path"', b"[]", b"5", b'"add"', b"{}}", b'{"add":{"path":"\xff"}}', b"[" * 5000, b"\x00"]
    )
    def test_broken_json_is_corrupt(self, content):
        log = LogBuilder().table()
        log.raw(f"{1:020d}.json", content)
        with pytest.raises(CorruptTableError, match="line 1 of"):
            load_snapshot(log.store)

    def test_integers_written_as_text_or_whole_floats_are_read(self):
        (file,) = snapshot_of(
            [{"add": {"path": "a", "partitionValues": {"p": 7}, "size": "12", "modificationTime": 3.0}}]
        ).add_files()
        assert (file.size, file.modification_time, file.partition_values) == (12, 3, {"p": "7"})

    def test_blank_lines_and_carriage_returns_are_fine(self):
        log = LogBuilder().table()
        log.raw(f"{1:020d}.json", b'\r\n\n  \n{"add":{"path":"a","partitionValues":{},"size":1}}\r\n')
        assert load_snapshot(log.store).num_files == 1

    def test_line_beyond_the_limit_is_refused_before_it_is_parsed(self):
        log = LogBuilder().table()
        log.commit(1, [add("a" * 2000)])
        with pytest.raises(CorruptTableError, match="max_log_line_bytes"):
            load_snapshot(log.store, config=EngineConfig(max_log_line_bytes=1000))

    def test_many_short_lines_may_exceed_the_limit_of_one(self):
        log = LogBuilder().table()
        log.commit(1, [add(f"{number}") for number in range(100)])
        assert load_snapshot(log.store, config=EngineConfig(max_log_line_bytes=1000)).num_files == 100

    def test_commit_beyond_the_limit_is_refused(self):
        log = LogBuilder().table()
        log.commit(1, [add(f"{number}") for number in range(100)])
        with pytest.raises(CorruptTableError):
            load_snapshot(log.store, config=EngineConfig(max_commit_bytes=5000))


PLACES = [
    "p=1/",
    "p=a%20b/",
    "p=a%2520b/",
    "s3://elsewhere/",
    "memory://tests/table/",
    "memory://tests/table/p=1/",
    "/abs/",
    "é/",
    "x:y/z/",
]
NAMES = ["part-0.parquet", "a b", "a%20b", "a=b+c,d@e", "..", "%2e", "a:b", "é", ".hidden", "_x"]


def test_column_of_paths_is_canonical_like_each_path_alone():
    url = "memory://tests/table"
    for paths in ([place + name for place in PLACES for name in NAMES], [place + NAMES[0] for place in PLACES]):
        good = [path for path in paths if _canonical_or_none(path, url) is not None]
        assert canonical_column(pa.array(good), url).to_pylist() == [canonical_path(path, url) for path in good]


def _canonical_or_none(path, url):
    try:
        return canonical_path(path, url)
    except CorruptTableError:
        return None
