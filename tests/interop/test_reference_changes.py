"""Does `read_changes` show what delta-spark shows of tables that delta-spark wrote?

One run of the reference engine (`tests/interop/reference/engine.py`) writes tables with every kind of change, restores among
them, and reads their feeds; ours must be the same, version by version and time by time.
"""

from __future__ import annotations

import pytest
from tests.interop.test_reference_engine import Plan
from tests.support.comparison import assert_same_rows

import ebbtide

pytestmark = [pytest.mark.reference, pytest.mark.spark, pytest.mark.timeout(3600)]

STATEMENTS = (
    "INSERT INTO {t} SELECT id, concat('n', id), id % 3 FROM range(40)",
    "DELETE FROM {t} WHERE id % 5 = 1",
    "DELETE FROM {t} WHERE id IN (2, 3)",
    "UPDATE {t} SET name = upper(name) WHERE id BETWEEN 6 AND 9",
    """MERGE INTO {t} t USING (SELECT id + 30 AS id, 'm' AS name, 1 AS part FROM range(20)) s ON t.id = s.id
    WHEN MATCHED AND s.id < 33 THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name
    WHEN NOT MATCHED THEN INSERT (id, name, part) VALUES (s.id, s.name, s.part)""",
    "RESTORE TABLE {t} TO VERSION AS OF 2",
    "DELETE FROM {t} WHERE part = 2",
    "RESTORE TABLE {t} TO VERSION AS OF 3",
    "OPTIMIZE {t}",
    "INSERT OVERWRITE {t} SELECT 7L, 'last', 0",
)
VECTORS = ("delete", "update", "merge")


@pytest.fixture(scope="module")
def feeds(tmp_path_factory):
    """(table, its feed from version 0 on) by the way it was written."""
    directory = tmp_path_factory.mktemp("changes")
    plan, found = Plan(directory), {}
    for vectors in ("true", "false"):
        for partitioned in ("", "PARTITIONED BY (part)"):
            path = directory / f"t-{vectors}-{len(found)}"
            settings = {f"spark.databricks.delta.{verb}.deletionVectors.persistent": vectors for verb in VECTORS}
            properties = f"'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}'"
            plan.ask(
                sql=f"CREATE TABLE delta.`{path}` (id BIGINT, name STRING, part INT) USING delta {partitioned} "
                f"TBLPROPERTIES ({properties})"
            )
            for statement in STATEMENTS:
                plan.ask(sql=statement.format(t=f"delta.`{path}`"), settings=settings)
            found[vectors, bool(partitioned)] = path, plan.changes(path, 0)
    plan.run()
    failed = [answer for answer in plan.answers if "error" in answer]
    assert not failed, failed[0]
    return {key: (path, plan.table(task)) for key, (path, task) in found.items()}


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_feed_of_a_table_by_the_reference_is_the_reference_s(spark, feeds, vectors, partitioned):
    path, expected = feeds[vectors, partitioned]
    assert expected.num_rows > 100
    assert_same_rows(ebbtide.read_changes(spark, str(path), 0), expected)
