"""Do other engines see exactly the rows we write, and do our statistics never hide one from them?

Rows first: every shape of table is read whole by DuckDB, Polars and deltalake. Then filters, around each value that
could be cut or rounded on its way into the statistics: the engine that skips files by them must count what Spark counts.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.comparison import arrow_table, assert_same_rows
from tests.support.log_reading import log_state
from tests.support.peers import PEERS, duckdb_connection

import ebbtide
from ebbtide import DeltaTable

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("duckdb")
pytest.importorskip("duckdb_extension_delta")

pytestmark = pytest.mark.spark

ROWS = """
    SELECT CAST(id AS INT) AS id, CAST(id % 3 AS INT) AS p, IF(id % 5 = 0, NULL, concat('n', id)) AS name,
           CAST(id * 1.25 AS DECIMAL(20, 4)) AS amount, timestamp_micros(id * 1000001) AS ts,
           date_add(DATE'1969-12-30', CAST(id AS INT)) AS day, named_struct('a', id, 'b', array(id, NULL)) AS nested
    FROM range({first}, {last})
"""
SHAPES = {
    "plain": {},
    "partitioned": {"partition_by": ["p"]},
    "vectors": {"properties": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}},
    "mapped": {"properties": {"delta.columnMapping.mode": "name"}},
    "rewritten with changes": {"properties": {"delta.enableChangeDataFeed": "true"}},
}


def written(spark, path, shape):
    """Created, appended to, partly replaced: three versions."""
    ebbtide.write(spark.sql(ROWS.format(first=0, last=20)), str(path), **SHAPES[shape])
    ebbtide.write(spark.sql(ROWS.format(first=20, last=25)), str(path), mode="append")
    replacing = spark.sql(ROWS.format(first=3, last=6))
    ebbtide.write(replacing, str(path), mode="overwrite", replace_where="id >= 3 AND id < 9")
    return path


@pytest.mark.parametrize("peer", list(PEERS))
@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_peer_sees_the_rows_of_every_version(spark, tmp_path, shape, peer):
    path = written(spark, tmp_path / "t", shape)
    engine = PEERS[peer]
    if not engine.can_read(["columnMapping"] if shape == "mapped" else []):
        pytest.skip(f"{peer} does not read {shape} tables")
    for version in range(3):
        ours = arrow_table(ebbtide.read(spark, str(path), version=version))
        assert_same_rows(engine.rows(path, ours.schema, version=version), ours)


# --- statistics -------------------------------------------------------------------------------------------------------

EDGES = """
    SELECT 'a' AS k, TIMESTAMP'2024-01-01 12:00:00.123456' AS ts, TIMESTAMP_NTZ'1960-01-01 12:00:00.999999' AS ntz,
           concat(repeat('é', 40), 'x') AS s, CAST('NaN' AS DOUBLE) AS d, -0.0D AS z, CAST(0.1 AS FLOAT) AS f,
           CAST('12345678901234567890.1234' AS DECIMAL(38, 4)) AS dec, DATE'0999-12-31' AS day,
           named_struct('in', concat(repeat('a', 31), '\U0001f600', 'z')) AS st
    UNION ALL
    SELECT 'b', TIMESTAMP'1969-12-31 23:59:59.999999', TIMESTAMP_NTZ'2024-01-01 12:00:00.123456',
           repeat('\U0010ffff', 40), 1.5D, 0.0D, CAST(16777217 AS FLOAT),
           CAST('-12345678901234567890.1234' AS DECIMAL(38, 4)), DATE'9999-12-31', named_struct('in', repeat('k', 33))
"""
TIMESTAMP = """arrow_cast('{}', 'Timestamp(Microsecond, Some("UTC"))')"""
LOCAL = "arrow_cast('{}', 'Timestamp(Microsecond, None)')"
DECIMAL = "arrow_cast('{}', 'Decimal128(38, 4)')"
# (Spark, DuckDB, deltalake), None where they write the condition alike.
FILTERS = [
    ("ts > TIMESTAMP'2024-01-01 12:00:00.1234Z'", "ts > TIMESTAMPTZ '2024-01-01 12:00:00.1234Z'", f"ts > {TIMESTAMP.format('2024-01-01T12:00:00.1234Z')}"),
    ("ts = TIMESTAMP'1969-12-31 23:59:59.999999Z'", "ts = TIMESTAMPTZ '1969-12-31 23:59:59.999999Z'", f"ts = {TIMESTAMP.format('1969-12-31T23:59:59.999999Z')}"),
    ("ntz >= TIMESTAMP_NTZ'2024-01-01 12:00:00.123456'", "ntz >= TIMESTAMP '2024-01-01 12:00:00.123456'", f"ntz >= {LOCAL.format('2024-01-01T12:00:00.123456')}"),
    ("ntz < TIMESTAMP_NTZ'1960-01-01 12:00:01'", "ntz < TIMESTAMP '1960-01-01 12:00:01'", f"ntz < {LOCAL.format('1960-01-01T12:00:01')}"),
    ("s > repeat('é', 40)", None, None),
    ("s = concat(repeat('é', 40), 'x')", None, None),
    ("s >= repeat('\U0010ffff', 40)", None, None),
    ("z = 0.0", None, None),
    ("z >= 0.0", None, None),
    ("z <= 0.0", None, None),
    ("d > 5", None, None),
    ("d = 1.5", None, None),
    ("dec = 12345678901234567890.1234BD", "dec = 12345678901234567890.1234::DECIMAL(38,4)", f"dec = {DECIMAL.format('12345678901234567890.1234')}"),
    ("dec <= -12345678901234567890.1234BD", "dec <= -12345678901234567890.1234::DECIMAL(38,4)", f"dec <= {DECIMAL.format('-12345678901234567890.1234')}"),
    ("day = DATE'9999-12-31'", "day = DATE '9999-12-31'", "day = arrow_cast('9999-12-31', 'Date32')"),
    ("st.in > concat(repeat('a', 31), '\U0001f600')", "st.in > concat(repeat('a', 31), '\U0001f600')", "st['in'] > concat(repeat('a', 31), '\U0001f600')"),
    ("st.in > repeat('k', 32)", "st.in > repeat('k', 32)", "st['in'] > repeat('k', 32)"),
]  # fmt: skip


@pytest.fixture(scope="module", params=[1, 2], ids=["one-file", "two-files"])
def edges(spark, request, tmp_path_factory):
    """The rows together in a file, so that they widen each other's bounds, and one in each file."""
    path = tmp_path_factory.mktemp("edges") / "t"
    frame = spark.sql(EDGES)
    frame = frame.coalesce(1) if request.param == 1 else frame.repartition(2, "k")
    ebbtide.write(frame, str(path))
    if request.param == 2 and len(log_state(path).live) == 1:
        DeltaTable.forPath(spark, str(path)).delete("k = 'b'")
        ebbtide.write(spark.sql(EDGES).where("k = 'b'"), str(path), mode="append")
    return path


@pytest.mark.parametrize(("spark_filter", "duckdb_filter", "deltalake_filter"), FILTERS, ids=[f[0] for f in FILTERS])
def test_statistics_hide_no_row(spark, edges, spark_filter, duckdb_filter, deltalake_filter):
    expected = spark.sql(EDGES).where(spark_filter).count()
    assert expected > 0
    assert ebbtide.read(spark, str(edges), where=spark_filter).count() == expected
    with duckdb_connection() as connection:
        query = f"SELECT count(*) FROM delta_scan($path) WHERE {duckdb_filter or spark_filter}"
        assert connection.execute(query, {"path": str(edges)}).fetchone() == (expected,)
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(edges)))
    answer = engine.execute(f"SELECT count(*) AS n FROM t WHERE {deltalake_filter or spark_filter}").read_all()
    assert pa.table(answer).to_pylist() == [{"n": expected}]
