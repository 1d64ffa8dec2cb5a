"""Are the numbers of a version checksum right, and is there no file when one of them is not certain?"""

from __future__ import annotations

import json

import pytest
from tests.support.log_builder import LogBuilder, add, commit_info, domain, metadata, protocol, remove, txn, vector

from ebbtide.config import DEFAULT_CONFIG
from ebbtide.log import load_snapshot
from ebbtide.log.checksum import write_checksum

CRC = "_delta_log/00000000000000000001.crc"
DV = protocol(features=["deletionVectors"])
MIB = 1024 * 1024


def log_of(*actions, head=None, configuration=None):
    log = LogBuilder()
    log.commit(0, [head or protocol(), metadata(configuration=configuration)])
    log.commit(1, list(actions))
    return log


def written(log, *, is_written=True):
    assert write_checksum(load_snapshot(log.store), config=DEFAULT_CONFIG) is is_written
    return json.loads(log.store.objects[CRC]) if is_written else None


def test_checksum_counts_files_and_bytes():
    crc = written(log_of(add("a", size=5), add("b", size=7), remove("c")))
    assert (crc["numFiles"], crc["tableSizeBytes"], crc["numMetadata"], crc["numProtocol"]) == (2, 12, 1, 1)


def test_checksum_of_an_empty_table_counts_nothing():
    crc = written(log_of(txn("a", 1)))
    assert (crc["numFiles"], crc["tableSizeBytes"]) == (0, 0)
    assert sum(crc["fileSizeHistogram"]["fileCounts"]) == 0


def test_checksum_carries_protocol_metadata_and_the_transaction_that_made_it():
    log = log_of(commit_info(txnId="t-1", operation="WRITE"), add("a"))
    crc = written(log)
    assert crc["txnId"] == "t-1"
    assert crc["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert crc["metadata"] == metadata()["metaData"]


def test_commit_without_a_transaction_id_gives_a_checksum_without_one():
    assert "txnId" not in written(log_of(add("a")))


def test_table_that_cannot_have_vectors_says_nothing_of_them():
    crc = written(log_of(add("a")))
    assert not {"numDeletedRecordsOpt", "numDeletionVectorsOpt", "deletedRecordCountsHistogramOpt"} & crc.keys()


def test_deleted_rows_are_summed_and_binned():
    cardinalities = [1, 9, 10, 999, 1000, 2**31 - 2, 2**31 - 1]
    adds = [add(f"f{count}", dv=vector(offset=number, cardinality=count)) for number, count in enumerate(cardinalities)]
    crc = written(log_of(*adds, add("plain"), head=DV))
    assert crc["numDeletionVectorsOpt"] == 7
    assert crc["numDeletedRecordsOpt"] == sum(cardinalities)
    assert crc["deletedRecordCountsHistogramOpt"] == {"deletedRecordCounts": [1, 2, 1, 1, 1, 0, 0, 0, 1, 1]}


def test_vectors_that_may_no_longer_be_made_are_still_counted():
    log = log_of(add("a", dv=vector(cardinality=3)), head=DV, configuration={"delta.enableDeletionVectors": "false"})
    assert written(log)["numDeletedRecordsOpt"] == 3


def test_file_sizes_are_binned_by_inclusive_lower_bounds():
    sizes = [0, 8191, 8192, 4 * MIB - 1, 4 * MIB, 128 * MIB, 300 * 1024 * MIB]
    histogram = written(log_of(*(add(f"f{size}", size=size) for size in sizes)))["fileSizeHistogram"]
    bins = histogram["sortedBinBoundaries"]
    assert (len(bins), bins[:3], bins[-1]) == (95, [0, 8192, 16384], 256 * 1024 * MIB)
    assert bins == sorted(set(bins))
    inside = [
        [size for size in sizes if low <= size < high] for low, high in zip(bins, [*bins[1:], 2**63], strict=True)
    ]
    assert histogram["fileCounts"] == [len(found) for found in inside]
    assert histogram["totalBytes"] == [sum(found) for found in inside]


@pytest.mark.parametrize(("count", "is_listed"), [(100, True), (101, False)])
def test_many_transactions_are_left_out(count, is_listed):
    crc = written(log_of(*(txn(f"app{number}", number) for number in range(count))))
    assert ("setTransactions" in crc) is is_listed
    if is_listed:
        assert {"appId": "app7", "version": 7} in crc["setTransactions"]


def test_transactions_with_a_retention_are_left_out():
    log = log_of(txn("app", 1), configuration={"delta.setTransactionRetentionDuration": "interval 1 day"})
    assert "setTransactions" not in written(log)


@pytest.mark.parametrize(("count", "is_listed"), [(10, True), (11, False)])
def test_many_domains_are_left_out(count, is_listed):
    crc = written(log_of(*(domain(f"d{number}") for number in range(count))))
    assert ("domainMetadata" in crc) is is_listed


def test_removed_domain_is_not_listed():
    log = log_of(domain("kept"), domain("gone"))
    log.commit(2, [domain("gone", removed=True)])
    write_checksum(load_snapshot(log.store), config=DEFAULT_CONFIG)
    crc = json.loads(log.store.objects["_delta_log/00000000000000000002.crc"])
    assert [entry["domain"] for entry in crc["domainMetadata"]] == ["kept"]


ICT = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}}
ICT_ON = {"delta.enableInCommitTimestamps": "true"}


def test_in_commit_timestamp_is_recorded():
    log = log_of(commit_info(inCommitTimestamp=1234), add("a"), head=ICT, configuration=ICT_ON)
    assert written(log)["inCommitTimestampOpt"] == 1234


def test_timestamp_of_a_table_without_the_feature_is_not_recorded():
    assert "inCommitTimestampOpt" not in written(log_of(commit_info(inCommitTimestamp=1234), add("a")))


def test_missing_in_commit_timestamp_means_no_checksum():
    log = log_of(commit_info(operation="WRITE"), add("a"), head=ICT, configuration=ICT_ON)
    written(log, is_written=False)
    assert CRC not in log.store.objects


def test_sum_beyond_64_bits_means_no_checksum():
    log = log_of(add("a", size=2**63 - 1), add("b", size=1))
    written(log, is_written=False)
    assert CRC not in log.store.objects


def test_large_sum_that_fits_is_exact():
    assert written(log_of(add("a", size=2**63 - 3), add("b", size=1), add("c", size=1)))["tableSizeBytes"] == 2**63 - 1


def test_existing_checksum_is_never_overwritten():
    log = log_of(add("a"))
    log.raw("00000000000000000001.crc", b"theirs")
    written(log, is_written=False)
    assert log.store.objects[CRC] == b"theirs"


def test_file_is_one_json_object_on_one_line():
    log = log_of(add("a"))
    written(log)
    assert log.store.objects[CRC].count(b"\n") == 1
    assert log.store.objects[CRC].endswith(b"}\n")
