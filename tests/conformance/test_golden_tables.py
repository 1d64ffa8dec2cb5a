"""Does every golden table show the rows that several engines agreed on, and is every broken one refused?

One test per table of the manifest, nothing skipped. Rows are compared as a multiset with exact types, at the newest
version and at every older one whose rows are known. A table that must fail has to be refused with one of our own errors, and so may
a table marked optional or as breaking the protocol; the summary counts those apart. The change feed, application
transactions and domains of the same tables are other modules' questions.
"""

from __future__ import annotations

from collections import Counter
from urllib.parse import unquote

import pytest
from tests.support.comparison import difference
from tests.support.group_counts import group_counts
from tests.support.shared_material import golden_tables

import ebbtide
from ebbtide.errors import DeltaError, InternalError
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

# A table given as group counts is one too large to list: billions of rows go through Spark.
LARGE_TABLE_SECONDS = 3600


def _parameters():
    for table in golden_tables():
        is_large = table.expected_kind == "group_counts"
        marks = [pytest.mark.slow, pytest.mark.timeout(LARGE_TABLE_SECONDS)] if is_large else []
        yield pytest.param(table, id=table.name, marks=marks)


@pytest.mark.spark
@pytest.mark.parametrize("table", list(_parameters()))
def test_golden_table_shows_what_the_manifest_says(table, tmp_path, record_golden, request):
    copy = table.copy_to(tmp_path)
    if table.must_fail:
        _check_refused(table, copy, request.getfixturevalue("spark"))
        record_golden("refused as expected")
        return
    try:
        problems = list(_problems(table, copy, request))
    except DeltaError as refusal:
        if not table.may_refuse or isinstance(refusal, InternalError):
            raise
        record_golden("refused (optional)", refusal)
        return
    assert not problems, "\n".join(problems)
    record_golden("passed")


def _check_refused(table, copy, spark):
    """Opening or reading has to raise an error of ours; an `InternalError` is our bug, not a refusal."""
    with pytest.raises(DeltaError) as caught:
        rows = ebbtide.read(spark, str(copy)).toArrow()
        pytest.fail(f"{rows.num_rows} rows were read although {table.must_fail_reason}")
    assert not isinstance(caught.value, InternalError)


def _problems(table, copy, request):
    """Every way in which the table differs from what is expected, one text each."""
    if table.expected_kind == "files":
        yield from _file_problems(table, copy)
        return
    if table.expected_kind == "group_counts":
        yield from _labelled("newest version", _group_counts_difference(copy, table.expected_rows()))
        return
    spark = request.getfixturevalue("spark")
    frame = ebbtide.read(spark, str(copy))
    assert table.expected_kind == "rows", f"this module does not know the expectation {table.expected_kind!r}"
    yield from _labelled("newest version", difference(frame, table.expected_rows()))
    newest = load_snapshot(open_store(str(copy))).version
    for version in table.versions:
        if version == newest:
            continue
        frame = ebbtide.read(spark, str(copy), version=version)
        yield from _labelled(f"version {version}", difference(frame, table.expected_rows(version)))


def _labelled(label, text):
    if text:
        yield f"{label}: {text}"


def _group_counts_difference(copy, expected):
    """For tables too large to list: the last column of the expectation counts the rows of each group."""
    *groups, count = expected.schema.names
    counted = group_counts(copy, groups, copy.parent / "counts.arrow")
    return difference(counted.rename_columns([*groups, count]), expected)


def _file_problems(table, copy):
    """For tables whose data files are not there: the live files, each with the vector that belongs to it."""
    expected = Counter((unquote(file["path"]), file["dv"]) for file in table.expected_files())
    snapshot = load_snapshot(open_store(str(copy)))
    actual = Counter((unquote(file.path), file.dv_id) for file in snapshot.add_files())
    if actual != expected:
        yield f"live files missing: {sorted(expected - actual)}, unexpected: {sorted(actual - expected)}"
