"""Does an expression that came with a table ever run code, read other data, or give away what the session knows?

The attacks are real: a table that another writer could have made sets a property of the JVM, opens a file, or stores a
secret, and afterwards the property, the rows and the log are looked at.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

import ebbtide
from ebbtide.errors import (
    ConstraintViolationError,
    CorruptTableError,
    DeltaError,
    RequestError,
    UnknownColumnError,
    UnsupportedFeatureError,
)
from ebbtide.session_settings import ALLOWED_FUNCTIONS
from ebbtide.write.allowed_functions import ALLOWED_EVERYWHERE, CLOCK, USER

pytestmark = pytest.mark.spark

PROPERTY = "ebbtide.test.attacked"
ATTACK = f"reflect('java.lang.System', 'setProperty', '{PROPERTY}', 'yes')"
SECRET = "${system:user.home}"
FEATURES = ["checkConstraints", "generatedColumns", "allowColumnDefaults", "invariants", "appendOnly"]


def table_of_another_writer(path, *, check=None, more=(), partition_columns=(), **metadata):
    """Two rows of (id, v); `metadata` is that of the column v, with underscores for dots."""
    (path / "_delta_log").mkdir(parents=True)
    rows = pa.table({"id": [1, 2], "v": ["a", "b"]})
    pq.write_table(rows.drop_columns(list(partition_columns)), path / "f.parquet")
    described = {key.replace("delta_", "delta."): value for key, value in metadata.items()}
    fields = [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "v", "type": "string", "nullable": True, "metadata": described},
        *more,
    ]
    configuration = {} if check is None else {"delta.constraints.c": check}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": FEATURES}},
        {
            "metaData": {
                "id": "11111111-2222-3333-4444-555555555555",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": list(partition_columns),
                "configuration": configuration,
                "createdTime": 1,
            }
        },
        {
            "add": {
                "path": "f.parquet",
                "partitionValues": dict.fromkeys(partition_columns, "a"),
                "size": (path / "f.parquet").stat().st_size,
                "modificationTime": 1,
                "dataChange": True,
                "stats": '{"numRecords":2}',
            }
        },
    ]
    log = path / "_delta_log" / "00000000000000000000.json"
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return str(path)


def attacked(spark):
    """Whether the attack has run; forgets it."""
    found = spark.sql(f"SELECT reflect('java.lang.System', 'clearProperty', '{PROPERTY}')").first()
    return found is not None and found[0] == "yes"


def version(spark, path):
    return ebbtide.DeltaTable.forPath(spark, path).version()


def rows(spark, path):
    return sorted(tuple(row) for row in ebbtide.read(spark, path).select("id", "v").collect())


def append(spark, path):
    ebbtide.write(spark.createDataFrame([(3, "c")], "id long, v string"), path, mode="append")


def append_without_v(spark, path):
    ebbtide.write(spark.createDataFrame([(3,)], "id long"), path, mode="append")


def overwrite(spark, path):
    ebbtide.write(spark.createDataFrame([(3, "c")], "id long, v string"), path, mode="overwrite")


def replace_where(spark, path):
    rows = spark.createDataFrame([(1, "c")], "id long, v string")
    ebbtide.write(rows, path, mode="overwrite", replace_where="id = 1")


def delete(spark, path):
    ebbtide.DeltaTable.forPath(spark, path).delete("id = 1")


def update(spark, path):
    ebbtide.DeltaTable.forPath(spark, path).update("id = 1", {"v": "'z'"})


def update_to_default(spark, path):
    ebbtide.sql(spark, f"UPDATE delta.`{path}` SET v = DEFAULT WHERE id = 1")


def merge(spark, path):
    source = spark.createDataFrame([(1, "z"), (9, "y")], "id long, v string").alias("s")
    target = ebbtide.DeltaTable.forPath(spark, path).alias("t")
    target.merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def merge_with_default(spark, path):
    source = spark.createDataFrame([(1,), (9,)], "id long").alias("s")
    target = ebbtide.DeltaTable.forPath(spark, path).alias("t")
    clauses = target.merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "default"})
    clauses.whenNotMatchedInsert(values={"id": "s.id"}).execute()


def insert_in_sql(spark, path):
    ebbtide.sql(spark, f"INSERT INTO delta.`{path}` (id) VALUES (3)")


ROW_VERBS = [append, overwrite, replace_where, delete, update, merge]
DEFAULT_VERBS = [append_without_v, update_to_default, merge_with_default, insert_in_sql]


def refused(spark, path, verb, kind=UnsupportedFeatureError):
    before = version(spark, path)
    with pytest.raises(kind) as caught:
        verb(spark, path)
    assert not attacked(spark)
    assert version(spark, path) == before
    return str(caught.value)


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    return table_of_another_writer(tmp_path_factory.mktemp("t") / "check", check=f"id > 0 AND {ATTACK} IS NULL")


@pytest.fixture(scope="module")
def invariant(tmp_path_factory):
    text = json.dumps({"expression": {"expression": f"{ATTACK} IS NULL"}})
    return table_of_another_writer(tmp_path_factory.mktemp("t") / "invariant", delta_invariants=text)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    return table_of_another_writer(tmp_path_factory.mktemp("t") / "generated", delta_generationExpression=ATTACK)


@pytest.fixture(scope="module")
def defaulted(tmp_path_factory):
    path = tmp_path_factory.mktemp("t") / "default"
    return table_of_another_writer(path, CURRENT_DEFAULT=ATTACK, EXISTS_DEFAULT=ATTACK)


@pytest.mark.one_value("the text is refused before Spark sees it, whatever the verb")
@pytest.mark.parametrize("verb", ROW_VERBS)
def test_code_in_a_check_is_not_run_by_any_verb(spark, checked, verb):
    message = refused(spark, checked, verb)
    assert "reflect" in message and "DROP CONSTRAINT `c`" in message and "id > 0 AND" in message


@pytest.mark.one_value("the text is refused before Spark sees it, whatever the verb")
@pytest.mark.parametrize("verb", [append, update])
def test_code_in_an_invariant_is_not_run(spark, invariant, verb):
    assert "delta.invariants" in refused(spark, invariant, verb)


@pytest.mark.one_value("the text is refused before Spark sees it, whatever the verb")
@pytest.mark.parametrize("verb", [append, append_without_v, update, merge])
def test_code_in_a_generation_expression_is_not_run(spark, generated, verb):
    assert "DROP COLUMN `v`" in refused(spark, generated, verb)


@pytest.mark.one_value("the text is refused before Spark sees it, whatever the verb")
@pytest.mark.parametrize("verb", DEFAULT_VERBS)
def test_code_in_a_default_is_not_run(spark, defaulted, verb):
    assert "ALTER COLUMN `v` DROP DEFAULT" in refused(spark, defaulted, verb)


def statements_in(message):
    """The statements that an error message tells the owner of the table to run."""
    return re.findall(r"ALTER TABLE delta\.`[^`]+` [A-Z].*?(?=; |\. |\.$)", message)


@pytest.mark.one_value("the text is refused before Spark sees it, whatever the verb")
@pytest.mark.parametrize(
    ("metadata", "verb", "count", "after"),
    [
        ({"check": f"{ATTACK} IS NULL"}, append, 1, [(1, "a"), (2, "b"), (3, "c")]),
        ({"check": "this is no SQL ("}, append, 1, [(1, "a"), (2, "b"), (3, "c")]),
        ({"CURRENT_DEFAULT": ATTACK, "EXISTS_DEFAULT": ATTACK}, append_without_v, 1, [(1, "a"), (2, "b"), (3, None)]),
        ({"delta_generationExpression": ATTACK}, append_without_v, 2, [(1,), (2,), (3,)]),
    ],
)
def test_statement_in_the_refusal_does_not_help_its_owner(spark, tmp_path, metadata, verb, count, after):
    path = table_of_another_writer(tmp_path / "a table", **metadata)
    statements = statements_in(refused(spark, path, verb))
    assert len(statements) == count
    for statement in statements:
        ebbtide.sql(spark, statement)
    assert not attacked(spark)
    verb(spark, path)
    assert sorted(map(tuple, ebbtide.read(spark, path).collect())) == after


@pytest.mark.one_kind("the text is refused before Spark sees it, whatever the verb")
def test_generated_column_that_partitions_the_table_is_said_to_be_dropped(spark, tmp_path):
    path = table_of_another_writer(tmp_path / "t", partition_columns=["v"], delta_generationExpression=ATTACK)
    message = refused(spark, path, append_without_v)
    assert statements_in(message) == [] and "replace the table" in message


@pytest.mark.one_kind("the text is refused before Spark sees it, whatever the verb")
def test_two_expressions_that_nobody_may_run_keep_each_other_from_being_dropped(spark, tmp_path):
    other = {"name": "w", "type": "string", "nullable": True, "metadata": {"delta.generationExpression": "(( v"}}
    path = table_of_another_writer(tmp_path / "t", delta_generationExpression=f"{ATTACK} ((", more=[other])
    ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    with pytest.raises(RequestError, match="DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"):
        ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` DROP COLUMN v")
    for column in ("w", "v"):
        ebbtide.sql(spark, f"ALTER TABLE delta.`{path}` DROP COLUMN {column}")
    append_without_v(spark, path)
    assert not attacked(spark)


def test_rows_of_a_table_with_code_in_it_are_read_and_nothing_runs(spark, checked, generated, defaulted):
    for path in (checked, generated, defaulted):
        assert rows(spark, path) == [(1, "a"), (2, "b")]
    assert not attacked(spark)


@pytest.mark.parametrize(
    "text",
    [
        "java_method('java.lang.System', 'setProperty', 'a', 'b') IS NULL",
        "try_reflect('java.lang.System', 'setProperty', 'a', 'b') IS NULL",
        "id IN (SELECT id FROM range(10))",
        "(SELECT max(id) FROM range(10)) > 0",
        "(\u017felect 1) = 1",
        "`reflect`('java.lang.System', 'getenv', 'HOME') IS NOT NULL",
        "system.builtin.reflect('java.lang.System', 'getenv', 'HOME') IS NOT NULL",
        "identifier('reflect')('java.lang.System', 'getenv', 'HOME') IS NOT NULL",
        "ReFlEcT/**/('java.lang.System', 'getenv', 'HOME') IS NOT NULL",
        "transform(array(id), x -> reflect('java.lang.System', 'getenv', 'HOME'))[0] IS NOT NULL",
        "CASE WHEN id > 0 THEN true ELSE reflect('java.lang.System', 'getenv', 'HOME') IS NULL END",
        "xpath_string(v, 'a') IS NULL",
        "input_file_name() = ''",
        "version() IS NOT NULL",
        "current_user() = 'root'",
        "rand() < 2",
        "uuid() IS NOT NULL",
        "no_such_function(id)",
        "my_own(id) IS NULL",
        "max(id) > 0",
        "explode(array(id)) > 0",
        "spark_partition_id() >= 0",
    ],
)
@pytest.mark.one_value("the text is refused before Spark sees it; other tests here do the attacks on both kinds")
def test_an_expression_outside_of_the_list_is_refused(spark, tmp_path, text):
    spark.udf.register("my_own", lambda number: None)
    path = table_of_another_writer(tmp_path / "t", check=text)
    assert text in refused(spark, path, append)


@pytest.mark.one_kind("the text is refused before Spark sees it, whatever the verb")
def test_a_default_that_reads_other_data_is_refused(spark, tmp_path):
    path = table_of_another_writer(tmp_path / "t", CURRENT_DEFAULT="(SELECT concat_ws(',', collect_list(id)) FROM x)")
    assert "subquery" in refused(spark, path, append_without_v)


def test_a_variable_of_the_session_is_not_stored_by_a_default(spark, tmp_path):
    spark.sql("DECLARE OR REPLACE VARIABLE ebbtide_secret STRING DEFAULT 'hidden'")
    path = table_of_another_writer(tmp_path / "t", CURRENT_DEFAULT="ebbtide_secret")
    assert "ebbtide_secret" in refused(spark, path, append_without_v, UnknownColumnError)
    quoted = table_of_another_writer(tmp_path / "q", CURRENT_DEFAULT='"ebbtide_secret"')
    append_without_v(spark, quoted)
    assert rows(spark, quoted)[-1] == (3, "ebbtide_secret")
    check = table_of_another_writer(tmp_path / "c", check="v <> ebbtide_secret")
    refused(spark, check, append, UnknownColumnError)


@pytest.mark.parametrize("substitute", ["true", "false"])
def test_a_variable_in_a_string_is_not_replaced(spark, tmp_path, substitute):
    spark.conf.set("spark.sql.variable.substitute", substitute)
    try:
        path = table_of_another_writer(tmp_path / "t", CURRENT_DEFAULT=f"'<{SECRET}>'", check=f"v <> '{SECRET}'")
        append_without_v(spark, path)
        assert rows(spark, path)[-1] == (3, f"<{SECRET}>")
        ebbtide.write(spark.createDataFrame([(4, "/root")], "id long, v string"), path, mode="append")
        with pytest.raises(ConstraintViolationError):
            ebbtide.write(spark.createDataFrame([(5, SECRET)], "id long, v string"), path, mode="append")
    finally:
        spark.conf.unset("spark.sql.variable.substitute")


@pytest.mark.one_kind("the calls of test_a_variable_in_a_string_is_not_replaced, which runs on both kinds")
def test_a_variable_in_a_comment_or_a_raw_string_is_not_replaced(spark, tmp_path):
    path = table_of_another_writer(tmp_path / "t", CURRENT_DEFAULT=f"r'{SECRET}' /* {SECRET} */")
    append_without_v(spark, path)
    assert rows(spark, path)[-1] == (3, SECRET)


def test_a_note_on_char_and_varchar_is_not_read_by_spark(spark, tmp_path):
    variable = table_of_another_writer(tmp_path / "v", __CHAR_VARCHAR_TYPE_STRING=f"struct<`{SECRET}`:varchar(5)>")
    assert "/root" not in refused(spark, variable, append)
    more = table_of_another_writer(tmp_path / "m", __CHAR_VARCHAR_TYPE_STRING="varchar(5), w int")
    refused(spark, more, append, CorruptTableError)
    deep = table_of_another_writer(tmp_path / "d", __CHAR_VARCHAR_TYPE_STRING="array<" * 500 + "varchar(5)" + ">" * 500)
    with pytest.raises(CorruptTableError, match="nests"):
        append(spark, deep)


def test_harmless_functions_of_a_table_run(spark, tmp_path):
    check = "length(trim(BOTH ' ' FROM v)) BETWEEN 1 AND 20 AND current_date() > DATE'2020-01-01' AND id IS NOT NULL"
    path = table_of_another_writer(tmp_path / "t", check=check, CURRENT_DEFAULT="concat('by ', lower(current_user()))")
    append_without_v(spark, path)
    assert rows(spark, path)[-1][1].startswith("by ")
    with pytest.raises(ConstraintViolationError):
        ebbtide.write(spark.createDataFrame([(3, " ")], "id long, v string"), path, mode="append")


def test_a_named_function_can_be_allowed_by_the_session_but_never_one_that_runs_code(spark, tmp_path):
    path = table_of_another_writer(tmp_path / "t", CURRENT_DEFAULT="uuid()")
    spark.udf.register("my_own", lambda: "mine")
    assert ALLOWED_FUNCTIONS in refused(spark, path, append_without_v)
    spark.conf.set(ALLOWED_FUNCTIONS, "some_other, UUID, reflect, my_own")
    try:
        append_without_v(spark, path)
        update_to_default(spark, path)
        assert len(rows(spark, path)[-1][1]) == 36
        refused(spark, table_of_another_writer(tmp_path / "r", CURRENT_DEFAULT=ATTACK), append_without_v)
        refused(spark, table_of_another_writer(tmp_path / "u", CURRENT_DEFAULT="my_own()"), append_without_v)
    finally:
        spark.conf.unset(ALLOWED_FUNCTIONS)


@pytest.mark.matrix
@pytest.mark.parametrize("order", ["first", "second"])
def test_a_function_of_the_session_under_the_name_of_a_built_in_one_is_not_run(spark, tmp_path, order):
    path = table_of_another_writer(tmp_path / "t", CURRENT_DEFAULT="soundex('x')")
    setting = "spark.sql.functionResolution.sessionOrder"
    spark.conf.set(setting, order)
    spark.udf.register("soundex", lambda text: "mine")
    try:
        append_without_v(spark, path)
    except UnsupportedFeatureError as error:
        assert "soundex" in str(error) and "of its own" in str(error)
    finally:
        # Spark 4.0 takes it for the built-in one, and keeps it until the session ends.
        with suppress(AnalysisException):
            spark.sql("DROP TEMPORARY FUNCTION soundex")
        spark.conf.unset(setting)
    assert (3, "mine") not in rows(spark, path)


@pytest.mark.one_kind("the text is refused before Spark sees it, whatever the verb")
def test_a_table_is_not_made_with_an_expression_that_could_not_be_run(spark, tmp_path):
    builder = ebbtide.DeltaTable.create(spark).location(str(tmp_path / "t")).addColumn("id", "long")
    with pytest.raises(DeltaError, match="reflect"):
        builder.addColumn("v", "string", generatedAlwaysAs=ATTACK).execute()
    assert not attacked(spark)
    assert not (tmp_path / "t" / "_delta_log").exists()


@pytest.mark.one_kind("both kinds have the same functions")
def test_every_function_on_the_list_is_one_of_sparks_own(spark):
    known = {row[0].lower() for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    # Words of the grammar, which are no functions in its list.
    assert (ALLOWED_EVERYWHERE | CLOCK | USER) - known <= {"timestampadd", "timestampdiff"}
