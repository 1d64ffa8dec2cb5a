"""Does ALTER TABLE change a table as delta-spark does, and refuse what it refuses?

Both engines make the same table and run the same statements, each on its own. After each statement, the history entry,
the schema, the properties and the features of the two tables must be equal, or both must have refused it with the same
error class.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

import ebbtide
from ebbtide.log import load_snapshot, read_commit
from ebbtide.protocol.features import supported_features
from ebbtide.storage import open_store

pytestmark = [pytest.mark.reference, pytest.mark.spark]

MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
NESTED = "s STRUCT<a: INT, b: INT>, arr ARRAY<STRUCT<x: INT, y: INT>>, m MAP<STRING, STRUCT<p: INT, q: INT>>"
PARTS = "s STRUCT<a: INT, b: INT>, arr ARRAY<STRUCT<x: INT, y: INT>>, m MAP<STRING, STRUCT<p: INT, q: INT>>"
# How long DROP FEATURE ... TRUNCATE HISTORY waits, and an hour more.
RETENTION_SECONDS = 25 * 3600
PHYSICAL_NAME = re.compile(r"col-[0-9a-f-]{36}")
CLASS = re.compile(r"\[([A-Z0-9_]+)")
# Where the reference answers with an error of Spark's, or no class at all, ours says which rule it is.
OWN_CLASS = {
    "_LEGACY_ERROR_TEMP_2330": "DELTA_ALTER_TABLE_CHANGE_COL_NOT_SUPPORTED",
    "NOT_SUPPORTED_CHANGE_COLUMN": "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
    "COLUMN_ALREADY_EXISTS": "FIELD_ALREADY_EXISTS",
    "_LEGACY_ERROR_TEMP_0034": "PARSE_SYNTAX_ERROR",
    "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA": "UNRESOLVED_COLUMN",
}


@dataclass(frozen=True)
class Scenario:
    definition: str
    statements: tuple[str, ...]


SCENARIOS = {
    "constraints": Scenario(
        "(id INT, v STRING, d INT) USING delta",
        (
            "INSERT INTO {t} VALUES (1, 'a', 1), (-1, 'b', NULL), (-2, 'c', 2)",
            "ALTER TABLE {t} ADD CONSTRAINT c1 CHECK (id > 0)",
            "ALTER TABLE {t} ADD CONSTRAINT c2 CHECK (d > 0)",
            "ALTER TABLE {t} ADD CONSTRAINT c3 CHECK (nope > 0)",
            "ALTER TABLE {t} ADD CONSTRAINT c3 CHECK (id + 1)",
            "ALTER TABLE {t} ADD CONSTRAINT Short CHECK (length(v) <= 5 /* why */ AND   id<100)",
            "ALTER TABLE {t} ADD CONSTRAINT sHORT CHECK (id < 200)",
            "ALTER TABLE {t} ADD CONSTRAINT `we ird.n` CHECK (id IN (1, -1, -2))",
            "ALTER TABLE {t} ADD CONSTRAINT c8 CHECK id < 100",
            "ALTER TABLE {t} DROP CONSTRAINT nope",
            "ALTER TABLE {t} DROP CONSTRAINT IF EXISTS nope",
            "ALTER TABLE {t} DROP CONSTRAINT SHORT",
            "ALTER TABLE {t} DROP CONSTRAINT `we ird.n`",
        ),
    ),
    "added columns": Scenario(
        f"(id INT, {NESTED}) USING delta",
        (
            "ALTER TABLE {t} ADD COLUMN x INT COMMENT 'hi'",
            "ALTER TABLE {t} ADD COLUMNS (y STRING FIRST, z STRUCT<p: INT> AFTER id)",
            "ALTER TABLE {t} ADD COLUMNS (q INT NOT NULL)",
            "ALTER TABLE {t} ADD COLUMN s.c STRING AFTER a",
            "ALTER TABLE {t} ADD COLUMN s.d DECIMAL(5, 2) FIRST",
            "ALTER TABLE {t} ADD COLUMN arr.element.b INT",
            "ALTER TABLE {t} ADD COLUMN m.value.b ARRAY<INT> FIRST",
            "ALTER TABLE {t} ADD COLUMN X INT",
            "ALTER TABLE {t} ADD COLUMNS (h INT, H INT)",
            "ALTER TABLE {t} ADD COLUMN nope.b INT",
            "ALTER TABLE {t} ADD COLUMN id.b INT",
            "ALTER TABLE {t} ADD COLUMN arr.b INT",
            "ALTER TABLE {t} ADD COLUMN k VARCHAR(5)",
            "ALTER TABLE {t} ADD COLUMN `a b` INT",
            "ALTER TABLE {t} ADD COLUMN ts TIMESTAMP_NTZ",
            "ALTER TABLE {t} ADD COLUMN dd INT DEFAULT 3",
            "ALTER TABLE {t} ADD COLUMN gg INT GENERATED ALWAYS AS (id)",
        ),
    ),
    "added columns with mapping": Scenario(
        f"(id INT, {NESTED}) USING delta {MAPPED}",
        (
            "ALTER TABLE {t} ADD COLUMN arr.element.b INT",
            "ALTER TABLE {t} ADD COLUMN m.value.b STRUCT<u: INT> FIRST",
            "ALTER TABLE {t} ADD COLUMN `a b` INT",
        ),
    ),
    "renamed and dropped columns": Scenario(
        f"(id INT, {NESTED}, c INT, g INT GENERATED ALWAYS AS (c + 1), part INT) USING delta PARTITIONED BY (part) {MAPPED}",
        (
            "ALTER TABLE {t} ADD CONSTRAINT sa CHECK (s.a > 0)",
            "ALTER TABLE {t} RENAME COLUMN id TO Id2",
            "ALTER TABLE {t} RENAME COLUMN c TO c2",
            "ALTER TABLE {t} RENAME COLUMN s.a TO a2",
            "ALTER TABLE {t} RENAME COLUMN s.b TO `b 2`",
            "ALTER TABLE {t} RENAME COLUMN s.`b 2` TO a",
            "ALTER TABLE {t} RENAME COLUMN arr.element.x TO xx",
            "ALTER TABLE {t} RENAME COLUMN arr.element TO xx",
            "ALTER TABLE {t} RENAME COLUMN part TO part2",
            "ALTER TABLE {t} RENAME COLUMN g TO g2",
            "ALTER TABLE {t} RENAME COLUMN nope TO x",
            "ALTER TABLE {t} RENAME COLUMN Id2 TO id2",
            "ALTER TABLE {t} RENAME COLUMN Id2 TO s.id2",
            "ALTER TABLE {t} DROP COLUMN part2",
            "ALTER TABLE {t} DROP COLUMN c",
            "ALTER TABLE {t} DROP COLUMN s",
            "ALTER TABLE {t} DROP COLUMN s.a",
            "ALTER TABLE {t} DROP COLUMN s.`b 2`",
            "ALTER TABLE {t} DROP COLUMN S.A",
            "ALTER TABLE {t} DROP COLUMN IF EXISTS nope",
            "ALTER TABLE {t} DROP COLUMN IF EXISTS nope, G2",
            "ALTER TABLE {t} DROP COLUMNS (nope, id2)",
            "ALTER TABLE {t} DROP COLUMNS (c, arr.element.xx)",
            "ALTER TABLE {t} DROP COLUMN arr.element.y",
            "ALTER TABLE {t} DROP COLUMN arr.element",
            "ALTER TABLE {t} DROP COLUMN m.value.q",
            "ALTER TABLE {t} DROP COLUMN id2.x",
        ),
    ),
    "columns with statistics": Scenario(
        "(id INT, s STRUCT<a: INT, b: INT>, v INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.dataSkippingStatsColumns' = 'id,s.a,v')",
        (
            "ALTER TABLE {t} RENAME COLUMN id TO id2",
            "ALTER TABLE {t} RENAME COLUMN s TO ss",
            "ALTER TABLE {t} DROP COLUMN ss.a",
            "ALTER TABLE {t} DROP COLUMN v",
        ),
    ),
    "without mapping": Scenario(
        "(id INT COMMENT 'c', v STRING NOT NULL, s STRUCT<a: INT, b: INT>, part INT) USING delta PARTITIONED BY (part)",
        (
            "ALTER TABLE {t} DROP COLUMN v",
            "ALTER TABLE {t} RENAME COLUMN v TO w",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
            "ALTER TABLE {t} DROP COLUMN v",
        ),
    ),
    "changed columns": Scenario(
        f"(id INT, {NESTED}, c INT NOT NULL, g INT GENERATED ALWAYS AS (c + 1), part INT) USING delta "
        f"PARTITIONED BY (part) {MAPPED}",
        (
            "ALTER TABLE {t} ALTER COLUMN ID COMMENT 'hello'",
            "ALTER TABLE {t} ALTER COLUMN g COMMENT 'gen'",
            "ALTER TABLE {t} ALTER COLUMN s.a COMMENT 'in'",
            "ALTER TABLE {t} ALTER COLUMN s COMMENT 'all'",
            "ALTER TABLE {t} ALTER COLUMN arr.element.x COMMENT 'el'",
            "ALTER TABLE {t} ALTER COLUMN arr.element COMMENT 'el'",
            "ALTER TABLE {t} ALTER COLUMN id SET NOT NULL",
            "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
            "ALTER TABLE {t} ALTER COLUMN c SET NOT NULL",
            "ALTER TABLE {t} ALTER COLUMN c DROP NOT NULL",
            "ALTER TABLE {t} ALTER COLUMN id AFTER PART",
            "ALTER TABLE {t} ALTER COLUMN part FIRST",
            "ALTER TABLE {t} ALTER COLUMN s.a AFTER b",
            "ALTER TABLE {t} ALTER COLUMN s.a AFTER nope",
            "ALTER TABLE {t} ALTER COLUMN id AFTER id",
            "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
            "ALTER TABLE {t} ALTER COLUMN id TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN id id3 INT",
            "ALTER TABLE {t} CHANGE COLUMN id id INT COMMENT 'old style' FIRST",
            "ALTER TABLE {t} ALTER COLUMN id COMMENT 'a', c COMMENT 'b'",
            "ALTER TABLE {t} ALTER COLUMN nope COMMENT 'a'",
            "ALTER TABLE {t} ALTER COLUMN id SET DEFAULT 3",
        ),
    ),
    "defaults": Scenario(
        "(id INT, v STRING DEFAULT 'a', w INT DEFAULT 3) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        (
            "ALTER TABLE {t} ALTER COLUMN v DROP DEFAULT",
            "ALTER TABLE {t} ALTER COLUMN id DROP DEFAULT",
            "ALTER TABLE {t} ALTER COLUMN w SET DEFAULT 5+1",
            "ALTER TABLE {t} ALTER COLUMN v SET DEFAULT upper('x')",
            "ALTER TABLE {t} ALTER COLUMN w SET DEFAULT 'x'",
            "ALTER TABLE {t} ALTER COLUMN w SET DEFAULT 3000000000",
            "ALTER TABLE {t} ALTER COLUMN w SET DEFAULT true",
            "ALTER TABLE {t} ALTER COLUMN w SET DEFAULT 30L",
            "ALTER TABLE {t} ALTER COLUMN nope DROP DEFAULT",
        ),
    ),
    "clustering": Scenario(
        "(id INT, s STRUCT<a: INT, b: INT>, arr ARRAY<INT>, bo BOOLEAN) USING delta",
        (
            "INSERT INTO {t} VALUES (1, named_struct('a', 1, 'b', 1), array(1), true)",
            "ALTER TABLE {t} CLUSTER BY (id)",
            "ALTER TABLE {t} CLUSTER BY (s.a, ID)",
            "ALTER TABLE {t} CLUSTER BY (nope)",
            "ALTER TABLE {t} CLUSTER BY (id, ID)",
            "ALTER TABLE {t} CLUSTER BY (arr)",
            "ALTER TABLE {t} CLUSTER BY (bo)",
            "ALTER TABLE {t} CLUSTER BY (s)",
            "ALTER TABLE {t} CLUSTER BY (id, s.a, s.b, bo, arr)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {t} DROP COLUMN id",
            "ALTER TABLE {t} RENAME COLUMN s TO ss",
            "ALTER TABLE {t} CLUSTER BY NONE",
            "ALTER TABLE {t} CLUSTER BY (ss.b)",
        ),
    ),
    "clustering of a partitioned table": Scenario(
        "(id INT, part INT) USING delta PARTITIONED BY (part)", ("ALTER TABLE {t} CLUSTER BY (id)",)
    ),
    "features": Scenario(
        "(id INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableTypeWidening' = 'true')",
        (
            "INSERT INTO {t} VALUES (1)",
            "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)",
            "ALTER TABLE {t} DROP FEATURE nope",
            "ALTER TABLE {t} DROP FEATURE appendOnly",
            "ALTER TABLE {t} DROP FEATURE v2Checkpoint",
            "ALTER TABLE {t} DROP FEATURE checkConstraints",
            "ALTER TABLE {t} DROP FEATURE checkConstraints TRUNCATE HISTORY",
            "ALTER TABLE {t} DROP CONSTRAINT c",
            "ALTER TABLE {t} DROP FEATURE checkConstraints",
            "ALTER TABLE {t} DROP FEATURE typeWidening",
            "ALTER TABLE {t} DROP FEATURE deletionVectors",
        ),
    ),
    "features in use": Scenario(
        "(id INT, v SMALLINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        "'delta.enableTypeWidening' = 'true')",
        (
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, id FROM range(10)",
            "DELETE FROM {t} WHERE id = 3",
            "ALTER TABLE {t} DROP FEATURE 'delta.enableDeletionVectors'",
            "ALTER TABLE {t} DROP FEATURE columnMapping",
            "ALTER TABLE {t} DROP FEATURE checkpointProtection",
            "ALTER TABLE {t} DROP FEATURE deletionVectors",
            "ALTER TABLE {t} DROP FEATURE deletionVectors",
            "ALTER TABLE {t} DROP FEATURE checkpointProtection",
            "ALTER TABLE {t} DROP FEATURE checkpointProtection TRUNCATE HISTORY",
            "AGE",
            "ALTER TABLE {t} DROP FEATURE checkpointProtection TRUNCATE HISTORY",
            "ALTER TABLE {t} ALTER COLUMN v TYPE INT",
            "INSERT INTO {t} VALUES (11, 11)",
            "ALTER TABLE {t} DROP FEATURE typeWidening",
        ),
    ),
    "mapping taken away": Scenario(
        f"(id INT, v STRING, s STRUCT<a: INT, b: INT>, part INT) USING delta PARTITIONED BY (part) {MAPPED}",
        (
            "INSERT INTO {t} VALUES (1, 'a', named_struct('a', 1, 'b', 1), 1)",
            "ALTER TABLE {t} RENAME COLUMN id TO `k k`",
            "ALTER TABLE {t} DROP COLUMN s.b",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",
            "ALTER TABLE {t} RENAME COLUMN `k k` TO k",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {t} UNSET TBLPROPERTIES ('delta.columnMapping.mode')",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {t} DROP FEATURE columnMapping",
        ),
    ),
    "features of writers": Scenario(
        "(id INT) USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true', "
        "'delta.feature.domainMetadata' = 'supported')",
        (
            "ALTER TABLE {t} DROP FEATURE inCommitTimestamp",
            "ALTER TABLE {t} DROP FEATURE domainMetadata",
        ),
    ),
    "truncated history": Scenario(
        "(id INT, v SMALLINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        "'delta.enableTypeWidening' = 'true', 'delta.feature.vacuumProtocolCheck' = 'supported')",
        (
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, id FROM range(10)",
            "DELETE FROM {t} WHERE id = 3",
            "ALTER TABLE {t} DROP FEATURE deletionVectors TRUNCATE HISTORY",
            "ALTER TABLE {t} DROP FEATURE deletionVectors TRUNCATE HISTORY",
            "AGE",
            "ALTER TABLE {t} DROP FEATURE deletionVectors TRUNCATE HISTORY",
            "ALTER TABLE {t} DROP FEATURE vacuumProtocolCheck TRUNCATE HISTORY",
            "ALTER TABLE {t} ALTER COLUMN v TYPE INT",
            "ALTER TABLE {t} DROP FEATURE typeWidening TRUNCATE HISTORY",
            "ALTER TABLE {t} DROP FEATURE typeWidening TRUNCATE HISTORY",
            "AGE",
            "ALTER TABLE {t} DROP FEATURE typeWidening TRUNCATE HISTORY",
        ),
    ),
    "replaced columns": Scenario(
        "(id INT, v STRING NOT NULL COMMENT 'old', s STRUCT<a: INT, b: INT NOT NULL>, arr ARRAY<STRUCT<x: INT, y: INT>>, "
        "m MAP<STRING, STRUCT<p: INT, q: INT>>, vc VARCHAR(5), part INT) USING delta PARTITIONED BY (part)",
        tuple(
            f"ALTER TABLE {{t}} REPLACE COLUMNS ({columns})"
            for columns in (
                f"part INT, V STRING, ID INT COMMENT 'the key', {PARTS}, vc STRING",
                f"part INT, v STRING, id INT, {PARTS}, vc VARCHAR(5)",
                f"part INT, v STRING, id INT, {PARTS}, vc VARCHAR(6)",
                f"part INT, v STRING, id INT, new DOUBLE COMMENT 'n', {PARTS}, vc VARCHAR(5)",
                f"part INT, v STRING, id INT, {PARTS}, vc STRING, z STRUCT<k: INT>",
                f"id BIGINT, v STRING, part INT, {PARTS}, vc STRING",
                f"id INT, part INT, {PARTS}, vc STRING",
                f"id INT, w STRING, part INT, {PARTS}, vc STRING",
                f"id INT, v STRING, v INT, part INT, {PARTS}, vc STRING",
                f"id INT NOT NULL, v STRING, part INT, {PARTS}, vc STRING",
                f"id INT FIRST, v STRING, part INT, {PARTS}, vc STRING",
                f"id INT DEFAULT 3, v STRING, part INT, {PARTS}, vc STRING",
                f"id INT, s.c INT, v STRING, part INT, {PARTS}, vc STRING",
                f"id INT, v STRING, part INT, {PARTS}, vc STRING, `a b` INT",
                ("id INT, v STRING, s STRUCT<b: INT COMMENT 'inside', a: INT, c: INT>, arr ARRAY<STRUCT<y: INT, x: INT>>, "
                "m MAP<STRING, STRUCT<q: INT, p: INT>>, vc STRING, part INT"),
                ("id INT, v STRING, s STRUCT<a: INT>, arr ARRAY<STRUCT<x: INT, y: INT>>, "
                "m MAP<STRING, STRUCT<p: INT, q: INT>>, vc STRING, part INT"),
                ("id INT, v STRING, s STRUCT<a: INT NOT NULL, b: INT, c: INT>, arr ARRAY<STRUCT<x: INT, y: INT>>, "
                "m MAP<STRING, STRUCT<p: INT, q: INT>>, vc STRING, part INT"),
            )
        ),
    ),
    "replaced columns with mapping": Scenario(
        f"(id INT, v STRING, s STRUCT<a: INT, b: INT>, k INT, part INT) USING delta PARTITIONED BY (part) {MAPPED}",
        (
            "ALTER TABLE {t} ADD CONSTRAINT kk CHECK (k > 0)",
            *(
                f"ALTER TABLE {{t}} REPLACE COLUMNS ({columns})"
                for columns in (
                    "id INT, s STRUCT<a: INT>, k INT, part INT",
                    "id INT, s STRUCT<a: INT, c: INT>, k INT, part INT, `a b` STRING",
                    "id INT, s STRUCT<a: INT, d: INT>, k INT, part INT, `a b` STRING",
                    "id2 INT, s STRUCT<a: INT, c: INT>, k INT, part INT, `a b` STRING",
                )
            ),
        ),
    ),
    "replaced columns with wider types": Scenario(
        "(b TINYINT, i INT, a ARRAY<INT>, m MAP<INT, SMALLINT>, st STRUCT<n: INT>, f FLOAT) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        tuple(
            f"ALTER TABLE {{t}} REPLACE COLUMNS ({columns})"
            for columns in (
                "i BIGINT, b INT, a ARRAY<BIGINT>, m MAP<BIGINT, INT>, st STRUCT<n: BIGINT>, f DOUBLE",
                "i INT, b INT, a ARRAY<BIGINT>, m MAP<BIGINT, INT>, st STRUCT<n: BIGINT>, f DOUBLE",
                "i STRING, b INT, a ARRAY<BIGINT>, m MAP<BIGINT, INT>, st STRUCT<n: BIGINT>, f DOUBLE",
                "i BIGINT, b BIGINT, a ARRAY<BIGINT>, m MAP<BIGINT, INT>, st STRUCT<n: BIGINT, o: INT>, f DOUBLE",
            )
        ),
    ),
    "wider types": Scenario(
        "(b TINYINT, i INT, l BIGINT, f FLOAT, d DATE, de DECIMAL(5, 2), a ARRAY<INT>, m MAP<INT, SMALLINT>, "
        "st STRUCT<n: INT>, vc VARCHAR(3), c CHAR(3), st2 STRING, p INT, k INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        (
            "ALTER TABLE {t} ADD CONSTRAINT kk CHECK (k > 0)",
            *(
                f"ALTER TABLE {{t}} ALTER COLUMN {change}"
                for change in (
                    "b TYPE INT", "b TYPE BIGINT", "b TYPE DECIMAL(20, 0)", "i TYPE DOUBLE", "l TYPE DOUBLE", "l TYPE INT",
                    "l TYPE DECIMAL(20, 0)", "f TYPE DOUBLE", "d TYPE TIMESTAMP_NTZ", "d TYPE TIMESTAMP",
                    "de TYPE DECIMAL(7, 3)", "de TYPE DECIMAL(7, 5)", "a TYPE ARRAY<BIGINT>", "a.element TYPE BIGINT",
                    "m.value TYPE INT", "m.key TYPE BIGINT", "m TYPE MAP<INT, INT>", "st TYPE STRUCT<n: BIGINT>",
                    "st.n TYPE BIGINT", "vc TYPE VARCHAR(5)", "vc TYPE VARCHAR(4)", "vc TYPE STRING", "c TYPE VARCHAR(3)",
                    "c TYPE STRING", "st2 TYPE VARCHAR(5)", "p TYPE BIGINT", "k TYPE BIGINT", "i TYPE STRING",
                )
            ),
        ),
    ),
}  # fmt: skip


def their_error(error):
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    found = condition or next(iter(CLASS.findall(str(error))), str(error)[:200])
    return OWN_CLASS.get(found.partition(".")[0], found.partition(".")[0])


def our_error(error):
    found = error.error_class.partition(".")[0]
    return OWN_CLASS.get(found, found)


def state(path):
    """What both tables must have in common, with names that are made at random masked."""
    snapshot = load_snapshot(open_store(path))
    info = read_commit(open_store(path), snapshot.version)[0].fields
    parameters = {key: decoded(value) for key, value in info["operationParameters"].items()}
    found = {
        "version": snapshot.version,
        "operation": info["operation"],
        "blind": info["isBlindAppend"],
        "schema": snapshot.schema.to_json(),
        "partition columns": list(snapshot.metadata.partition_columns),
        "configuration": dict(sorted(snapshot.metadata.configuration.items())),
        "features": sorted(supported_features(snapshot.protocol)),
        "domains": sorted(domain.configuration for domain in snapshot.domain_metadata.values()),
    }
    # A condition is recorded with numbers that Spark gives out.
    if info["operation"] not in {"CREATE TABLE", "WRITE", "DELETE"}:
        found["parameters"] = parameters
    return json.loads(PHYSICAL_NAME.sub("col", json.dumps(found, sort_keys=True)))


def decoded(value):
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def let_time_pass(path):
    """Let every file of the log be older than it is."""
    for file in (Path(path) / "_delta_log").iterdir():
        then = file.stat().st_mtime - RETENTION_SECONDS
        os.utime(file, (then, then))


def run(engine, statement):
    try:
        engine(statement)
    except Exception as error:  # every kind of error is compared by its class
        return their_error(error) if not isinstance(error, ebbtide.DeltaError) else our_error(error)
    return None


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_statement_leaves_the_table_that_delta_spark_leaves(spark, spark_kind, tmp_path, name):
    if spark_kind != "reference":
        pytest.skip("asks delta-spark in the same session: --spark=reference")
    scenario = SCENARIOS[name]
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    differences = []
    for statement in ("CREATE TABLE {t} " + scenario.definition, *scenario.statements):
        if statement == "AGE":
            let_time_pass(ours)
            let_time_pass(theirs)
            continue
        said_by_us = run(lambda text: ebbtide.sql(spark, text), statement.replace("{t}", f"delta.`{ours}`"))
        said_by_them = run(spark.sql, statement.replace("{t}", f"delta.`{theirs}`"))
        mine, other = state(ours), state(theirs)
        different = {key: (mine[key], other.get(key)) for key in mine if mine[key] != other.get(key)}
        if said_by_us != said_by_them or different:
            differences.append((statement, said_by_us, said_by_them, different))
    assert not differences, "\n\n".join(map(str, differences))
