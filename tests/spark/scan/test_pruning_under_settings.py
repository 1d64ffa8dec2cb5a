"""Is a file with a row for which Spark says TRUE ever left out, whatever the session is set to?

One table with one row per file; every condition is asked of Spark, for all rows in one job, and of pruning.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import orjson
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

from ebbtide.log import load_snapshot
from ebbtide.scan import scan_rows
from ebbtide.scan.conditions import prune_snapshot
from ebbtide.spark_border import analyse, asking_the_analyser
from ebbtide.sql_text import TEXT_SETTINGS
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

UTC = dt.timezone.utc
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "n": pa.decimal128(38, 18),
        "x": pa.float64(),
        "s": pa.string(),
        "other": pa.string(),
        "d": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "b": pa.bool_(),
        "pd": pa.date32(),
        "pat": pa.timestamp("us", "UTC"),
        "ps": pa.string(),
    }
)
# What some setting makes of the strings in the conditions is among them.
TEXTS = ["abc", "'abc", '"abc', "a\nb", r"a\nb", "its", "it's", "/here", "${env:EBBTIDE_NOWHERE}", "other", "zz", None]
MIDNIGHT = dt.datetime(2024, 1, 1, tzinfo=UTC)
CONDITIONS = [
    "s = 'abc'", "s = r'abc'", 's = r"abc"', "s <> 'zz' AND s = R'abc'", r"s = 'a\nb'", r"s = r'a\nb'", "s = 'it''s'",
    "s = 'it' 's'", 's = "abc"', 's = "other"', "\"s\" = 'abc'", 'ps = "other"', "s = '${env:EBBTIDE_NOWHERE}'",
    "s = 'abc' OR id = 3 -- ${env:EBBTIDE_NOWHERE}", "S = 'abc'", "`s` = 'abc'", "`s.*` = 'abc'", "s IN ('abc', r'abc')",
    "s LIKE 'ab%'", "s NOT LIKE 'ab%'", "s LIKE r'abc'", "ps = r'abc'", "ps >= 'it'", "other = 'zz'",
    "id = 1e0", "id < 1.5e-30", "id >= 1.5e-30", "id > 4503599627370495.3e0", "id = 9007199254740993e0", "id = '1'",
    "id IN (1, 2.5)", "id ! IN (1, 2)", "! (id = 1)", "id = 1.0D", "id > 2F", "id BETWEEN 1e0 AND 2e0",
    "n = 1e0", "n = 1", "n = 1.5", "n < 1.5e-30", "n >= 1.5e-30", "n = 15e-1BD", "n > 1e3BD",
    "x = 1.5e0", "x > 1e0", "x < 0.1", "x IN (1.5e0, 2e0)", "NOT (x > 1e0)",
    "d = '2024-01-01'", "d > '2024-01-01'", "d >= '2024-1-1'", "d < DATE'2024-01-02'", "d IN ('2024-01-01', '2024-01-03')",
    "pd = '2024-01-01'", "pd > '2024-01-01'", "pd < '2024-01-02 00:00:00'", "pd LIKE '2024-01-01'",
    "at = TIMESTAMP'2024-01-01 00:00:00'", "at > '2024-01-01'", "at = '2024-01-01 00:00:00'", "at < '2024-01-02'",
    "pat = TIMESTAMP'2024-01-01 00:00:00'", "pat > '2024-01-01'", "pat = '2024-01-01'", "pat <= '2024-01-01'",
    "pat = TIMESTAMP'2024-01-01 00:00:00+00:00'", "pat >= DATE'2024-01-02'", "pat = TIMESTAMP_NTZ'2024-01-01 00:00:00'",
    "pat IN ('2024-01-01 00:00:00')", "b", "NOT b", "b = true", "b IS NOT NULL",
]  # fmt: skip


def row(number, text):
    return {
        "id": {9: (1 << 52) - 1, 10: (1 << 53) + 1}.get(number, number),
        "n": Decimal(number) / 2,
        "x": number * 0.5,
        "s": text,
        "other": "zz" if number % 2 else "abc",
        "d": dt.date(2024, 1, 1) + dt.timedelta(days=number // 3),
        "at": MIDNIGHT + dt.timedelta(hours=6 * number),
        "b": None if number == 5 else number % 2 == 0,
        "pd": dt.date(2024, 1, 1) + dt.timedelta(days=number // 3),
        "pat": MIDNIGHT + dt.timedelta(hours=6 * number),
        "ps": text,
    }


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    builder = TableBuilder(tmp_path_factory.mktemp("settings") / "t", SCHEMA).partitioned_by("pd", "pat", "ps")
    for number, text in enumerate(TEXTS):
        builder.file([row(number, text)])
    return load_snapshot(open_store(str(builder.commit().path)))


def understood(frame, condition):
    """Whether Spark takes the condition in this session."""
    try:
        with asking_the_analyser():
            analyse(frame.where(F.expr(condition)))
    except PySparkException:
        return False
    return True


def odd_sessions():
    for setting in TEXT_SETTINGS:
        for value in setting.odd_values:
            settings = {setting.key: value}
            if setting.key.startswith("spark.sql.legacy.typeCoercion"):
                settings["spark.sql.ansi.enabled"] = "false"
            yield pytest.param(settings, id=f"{setting.key.removeprefix('spark.sql.')}={value}")


@pytest.mark.one_value(
    "the same calls under other settings, which Spark's analyser reads on the same side for both kinds"
)
@pytest.mark.parametrize("settings", [pytest.param({}, id="defaults"), *odd_sessions()])
def test_no_file_with_a_matching_row_is_left_out(spark, snapshot, settings):
    paths = snapshot.files["path"].to_pylist()
    ids = dict(zip(paths, (orjson.loads(text)["minValues"]["id"] for text in snapshot.files["stats"].to_pylist())))
    with session_settings(spark, settings):
        frame = scan_rows(spark, snapshot)
        conditions = [condition for condition in CONDITIONS if understood(frame, condition)]
        answers = frame.select("id", *(F.expr(text).alias(f"c{at}") for at, text in enumerate(conditions))).collect()
        excluded = 0
        for at, condition in enumerate(conditions):
            kept = {ids[path] for path in prune_snapshot(spark, snapshot, condition)["path"].to_pylist()}
            wrong = sorted(answer["id"] for answer in answers if answer[f"c{at}"] is True and answer["id"] not in kept)
            assert not wrong, f"{condition} is true for rows {wrong}, whose files are left out"
            excluded += len(ids) - len(kept)
    assert len(conditions) > len(CONDITIONS) * 0.8, "Spark understands too little of it"
    assert excluded > len(ids) * len(conditions) * 0.2, "hardly anything was pruned"
