"""Does delta-spark end the shared conflict cases as they say, and as Ebbtide does with `conflicts="abort"`?

Each transaction is delta-spark's own, driven from here: it reads, stages the actions of the case, and commits in the
order of the case. `tests/conformance/test_conflict_cases.py` holds Ebbtide to the same cases.
"""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tests.support import conflict_cases as shared
from tests.support.log_reading import log_state, newest_version
from tests.support.shared_material import SharedMaterialMissingError
from tests.support.transactions import make_table

from ebbtide.protocol.actions import SetTransaction, serialize_actions
from ebbtide.storage import open_store

pytestmark = [pytest.mark.reference, pytest.mark.spark]


def cases() -> list[Any]:
    try:
        found = shared.conflict_cases()
    except SharedMaterialMissingError:
        return []
    return [pytest.param(case, id=case["id"]) for case in found if shared.is_of_actions(case)]


class Run:
    """One of the two transactions, begun on the first version."""

    def __init__(self, spark, path, spec, initial, options):
        self.spark, self.spec = spark, spec
        self.delta = spark._jvm.org.apache.spark.sql.delta
        self.transaction = self.delta.DeltaLog.forTable(spark._jsparkSession, str(path)).startTransaction()
        self.actions = shared.actions_of(spec, initial, options)
        if "set_txn" in spec:
            self.actions.insert(0, SetTransaction(spec["set_txn"]["app_id"], spec["set_txn"]["version"]))
        if not spec.get("reads_after_winner"):
            self.read()
        if "app_id_read" in spec:
            self.transaction.txnVersion(spec["app_id_read"])

    def read(self):
        parser = self.spark._jsparkSession.sessionState().sqlParser()
        for read in self.spec["reads"]:
            if read == "whole_table":
                self.transaction.readWholeTable()
            else:
                self.transaction.filterFiles(self._sequence([parser.parseExpression(read)]), False)

    def commit(self):
        if self.spec.get("reads_after_winner"):
            self.read()
        lines = serialize_actions(self.actions).decode().splitlines()
        actions = self._sequence([self.delta.actions.Action.fromJson(line) for line in lines])
        operation = getattr(getattr(self.delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
        self.transaction.commit(actions, operation)

    def _sequence(self, items):
        made = self.spark._jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return self.spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(made)


@pytest.mark.parametrize("variant", sorted(shared.DV_VARIANTS))
@pytest.mark.parametrize("case", cases())
def test_delta_spark_ends_as_the_case_says(case, variant, spark, spark_kind, tmp_path):
    if spark_kind != "reference":
        pytest.skip("asks delta-spark in the same session: --spark=reference")
    if variant not in case["variants"]:
        pytest.skip(f"the case is not about {variant}")
    options, features = shared.table_options(case, variant)
    initial = shared.files_of(case["tables"]["target"]["data_files"])
    path = tmp_path / "t"
    make_table(open_store(str(path)), *initial.values(), features=features, **options)
    runs = {name: Run(spark, path, case[name], initial, options) for name in ("txn_a", "txn_b")}
    winner = runs.pop(case["winner"])
    (loser,) = runs.values()
    winner.commit()
    if case["expect"] == "both":
        loser.commit()
        assert newest_version(path) == 2
    else:
        with pytest.raises((PySparkException, Py4JJavaError), match=case["expect"]):
            loser.commit()
        assert newest_version(path) == 1
    if "expect_live_files" in case:
        assert {add["path"] for add in log_state(path).adds} == set(case["expect_live_files"])
