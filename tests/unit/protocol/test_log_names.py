"""Names of log files: what is part of the log, what is ignored, and how names sort."""

from uuid import UUID

import pytest

from ebbtide.protocol.log_names import (
    CheckpointName,
    ChecksumName,
    CommitName,
    CompactedName,
    V2CheckpointName,
    checkpoint_name,
    checksum_name,
    commit_name,
    listing_start,
    log_path,
    parse_log_name,
    sidecar_path,
    v2_checkpoint_name,
)

UUID_TEXT = "80a083e8-7026-4e79-81be-64bd76c43a11"
ID = UUID(UUID_TEXT)

KNOWN = [
    (commit_name(0), "00000000000000000000.json", CommitName(0)),
    (commit_name(2**63 - 1), "09223372036854775807.json", CommitName(2**63 - 1)),
    (checksum_name(10), "00000000000000000010.crc", ChecksumName(10)),
    (checkpoint_name(10), "00000000000000000010.checkpoint.parquet", CheckpointName(10)),
    (
        v2_checkpoint_name(10, ID),
        f"00000000000000000010.checkpoint.{UUID_TEXT}.parquet",
        V2CheckpointName(10, UUID_TEXT, "parquet"),
    ),
    (
        v2_checkpoint_name(10, ID, "json"),
        f"00000000000000000010.checkpoint.{UUID_TEXT}.json",
        V2CheckpointName(10, UUID_TEXT, "json"),
    ),
]


@pytest.mark.parametrize(("built", "text", "parsed"), KNOWN)
def test_every_kind_of_log_file_is_built_and_recognised(built, text, parsed):
    assert built == text
    assert parse_log_name(text) == parsed


def test_log_files_that_others_write_are_recognised():
    compacted = "00000000000000000001.00000000000000000004.compacted.json"
    assert parse_log_name(compacted) == CompactedName(1, 4)
    part = "00000000000000000010.checkpoint.0000000002.0000000003.parquet"
    assert parse_log_name(part) == CheckpointName(10, 2, 3, is_multipart=True)


def test_a_one_part_multipart_checkpoint_is_not_a_classic_one():
    name = "00000000000000000005.checkpoint.0000000001.0000000001.parquet"
    assert parse_log_name(name) == CheckpointName(5, 1, 1, is_multipart=True)
    assert parse_log_name(name) != CheckpointName(5)


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "_staged_commits",
        "",
        "0.json",
        "00000000000000000010.json.tmp",
        ".00000000000000000010.json.crc",
        "_commit_00000000000000000010.json",
        f"00000000000000000010.{UUID_TEXT}.json",
        f"00000000000000000010.checkpoint.{UUID_TEXT}.json.tmp",
        "00000000000000000010.checkpoint.not-a-uuid.parquet",
        "00000000000000000010.checkpoint.json",
        "00000000000000000010.checkpoint.0000000000.0000000003.parquet",
        "00000000000000000010.checkpoint.0000000004.0000000003.parquet",
        "00000000000000000010.checkpoint.1.3.parquet",
        "00000000000000000004.00000000000000000004.compacted.json",
        "00000000000000000004.00000000000000000001.compacted.json",
        "00000000000000000001.99999999999999999999.compacted.json",
        "99999999999999999999.json",
        "0000000000000000001\u0661.json",
        "00000000000000000010.json\n",
        "000000000000000000010.json",
        "00000000000000000010.JSON",
    ],
)
def test_everything_else_is_ignored(name):
    assert parse_log_name(name) is None


def test_a_listing_from_a_version_starts_before_all_of_its_files_and_after_older_ones():
    start = listing_start(10)
    names = [
        commit_name(10),
        checksum_name(10),
        checkpoint_name(10),
        "00000000000000000010.00000000000000000020.compacted.json",
        "00000000000000000010.checkpoint.0000000001.0000000002.parquet",
    ]
    assert all(start < log_path(name) for name in names)
    assert log_path(commit_name(9)) < start
    assert log_path("00000000000000000009.00000000000000000012.compacted.json") < start


def test_paths_below_the_table_root():
    assert log_path(commit_name(1)) == "_delta_log/00000000000000000001.json"
    assert sidecar_path(ID) == f"_delta_log/_sidecars/{UUID_TEXT}.parquet"
