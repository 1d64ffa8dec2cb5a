"""Does FSCK leave every healthy golden table alone, and find something in each that is damaged?

No Spark. A table whose data files are not shipped is damaged by that; its log must be found sound. Tables that Ebbtide
does not read for a feature of the future are refused with a typed error.
"""

from __future__ import annotations

import pytest
from tests.support.fsck import fsck
from tests.support.shared_material import golden_tables

from ebbtide.errors import TableNotFoundError, UnsupportedFeatureError

TABLES = golden_tables()
# Tables that can be read, and in which something is really wrong.
WORTH_A_FINDING = {
    "bad-dv-cardinality": {"vector-cardinality"},
    "bad-dv-row-out-of-range": {"vector-row-out-of-range"},
    "bad-dv-without-feature": {"vectors-without-feature"},
    "derived-corrupt-last-checkpoint-dv": {"bad-last-checkpoint"},
    "golden-corrupted-last-checkpoint-kernel": {"bad-last-checkpoint"},
    "golden-deltalog-getChanges": {"missing-change-data"},
    # The checksum was written by hand: it counts ten files in a table that has none.
    "kernelrs-crc-full": {"checksum-disagrees"},
    # The checkpoint is of another table: another id, and a column that the commits do not have.
    "kernelrs-parquet_row_group_skipping": {"checkpoint-disagrees"},
    # Commit 7 is gone; only its own version is lost with it.
    "deltars-err-table_b": {"missing-commit"},
    # A minimum that is above its maximum.
    "trino-databricks73-pruning-invalid_log": {"narrow-statistics"},
}
# Nothing is damaged here: these need a feature that Ebbtide does not have, or are no tables.
NOT_DAMAGED = {
    "bad-reader-version-4",
    "bad-unknown-reader-feature",
    "deltars-err-table_d",
    "deltars-err-table_f",
    "deltars-err-table_i",
    "deltars-simple_table_features",
    "golden-no-delta-log-folder",
    "kernelrs-table-with-geo",
    "kernelrs-uc-catalog_managed_0",
}


def kinds(table, directory):
    return {found.kind for found in fsck(table.copy_to(directory)).findings if found.severity != "note"}


def parameters(*, must_fail):
    return [pytest.param(table, id=table.name) for table in TABLES if table.must_fail == must_fail]


@pytest.mark.parametrize("table", parameters(must_fail=False))
def test_healthy_table_has_no_finding(table, tmp_path):
    expected = set(WORTH_A_FINDING.get(table.name, ()))
    if table.expected_kind == "files":
        expected.add("missing-data-file")
    try:
        found = kinds(table, tmp_path)
    except UnsupportedFeatureError:
        if not table.may_refuse:
            raise
        return
    assert found == expected


@pytest.mark.parametrize("table", parameters(must_fail=True))
def test_damaged_table_has_a_finding_and_a_foreign_one_is_refused(table, tmp_path):
    if table.name in NOT_DAMAGED:
        with pytest.raises((TableNotFoundError, UnsupportedFeatureError)):
            kinds(table, tmp_path)
    else:
        assert kinds(table, tmp_path)


def test_every_exception_is_the_name_of_a_golden_table():
    assert {*WORTH_A_FINDING, *NOT_DAMAGED} <= {table.name for table in TABLES}
