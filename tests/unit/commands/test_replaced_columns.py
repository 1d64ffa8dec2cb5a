"""Does REPLACE COLUMNS keep the values of columns that stay, and refuse what the rows could not follow?"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.log_reading import newest_version
from tests.support.table_builder import TableBuilder

from ebbtide.commands.define.replaced_columns import replace_columns
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import DeltaError, RequestError, SchemaMismatchError
from ebbtide.log import load_snapshot, read_commit
from ebbtide.protocol.schema import ArrayType, PrimitiveType, StructField, StructType
from ebbtide.storage import open_store

LONG, STRING, INT = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("integer")
REFUSED = "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        pa.field("many", pa.list_(pa.int64())),
    ]
)
ID, NAME = StructField("id", LONG), StructField("name", STRING)
S = StructField("s", StructType((StructField("a", LONG), StructField("b", STRING))))
MANY = StructField("many", ArrayType(LONG))


@pytest.fixture
def builder(tmp_path):
    return TableBuilder(tmp_path / "t", SCHEMA).file([{"id": 1, "name": "x", "s": {"a": 1, "b": "y"}, "many": [1]}])


def store_of(builder):
    return open_store(str(builder.path))


def schema_after(builder, *columns):
    replace_columns(store_of(builder), columns, options=WriteOptions())
    return load_snapshot(store_of(builder)).schema


def refusal(builder, *columns):
    before = newest_version(builder.path)
    with pytest.raises(DeltaError) as caught:
        replace_columns(store_of(builder), columns, options=WriteOptions())
    assert newest_version(builder.path) == before
    return caught.value


def test_columns_stand_in_the_new_order_under_their_names_and_may_be_null(builder):
    builder.commit()
    schema = schema_after(builder, MANY, StructField("NAME", STRING, metadata={"comment": "n"}), S, ID)
    assert schema.names == ("many", "name", "s", "id")
    assert schema.get("id").nullable and schema.get("name").metadata == {"comment": "n"}
    assert schema_after(builder, ID, NAME, S, MANY).get("name").metadata == {"comment": "n"}


def test_new_columns_and_fields_are_added_and_the_history_says_so(builder):
    builder.commit()
    inside = StructType((StructField("c", INT), *S.type.fields))
    schema = schema_after(builder, ID, StructField("new", INT), NAME, StructField("s", inside), MANY)
    assert schema.names == ("id", "new", "name", "s", "many") and schema.get("s").type.names == ("c", "a", "b")
    info = read_commit(store_of(builder), 1)[0].fields
    assert info["operation"] == "REPLACE COLUMNS"
    shown = json.loads(info["operationParameters"]["columns"])
    assert [column["name"] for column in shown] == ["id", "new", "name", "s", "many"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((ID, S, MANY), "leave out 'name'"),
        ((ID, StructField("n", STRING), S, MANY), "RENAME COLUMN"),
        ((ID, NAME, StructField("s", StructType((S.type.fields[0],))), MANY), "leave out 's.b'"),
        ((StructField("id", STRING), NAME, S, MANY), "from long to string"),
        ((ID, NAME, S, StructField("many", ArrayType(INT))), "'many.element'"),
        ((ID, StructField("name", STRING, nullable=False), S, MANY), "CHECK (name IS NOT NULL)"),
        ((ID, NAME, S, StructField("many", ArrayType(LONG, contains_null=False))), "may hold nulls"),
        ((ID, NAME, StructField("s", LONG), MANY), "from struct to long"),
    ],
)
def test_change_that_the_rows_could_not_follow_is_refused(builder, columns, said):
    builder.commit()
    error = refusal(builder, *columns)
    assert isinstance(error, SchemaMismatchError) and error.error_class == REFUSED
    assert said in str(error)


def test_dropped_column_takes_column_mapping_and_nothing_that_reads_it(builder):
    builder.column_mapping("name").feature("checkConstraints")
    builder.table_property("delta.constraints.c", "s.a > 0").commit()
    assert schema_after(builder, ID, S, MANY).names == ("id", "s", "many")
    error = refusal(builder, ID, MANY)
    assert error.error_class == "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"
    error = refusal(builder, ID, StructField("s", StructType((S.type.fields[1],))), MANY)
    assert error.error_class == "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"


def test_wider_type_is_noted_where_the_table_widens(builder):
    builder.feature("typeWidening").table_property("delta.enableTypeWidening", "true").commit()
    inside = StructType((StructField("a", PrimitiveType("decimal(20,0)")), S.type.fields[1]))
    schema = schema_after(builder, ID, NAME, StructField("s", inside), MANY)
    changes = schema.get("s").type.get("a").metadata["delta.typeChanges"]
    assert changes == [{"toType": "decimal(20,0)", "fromType": "long"}]


def test_column_named_twice_is_refused(builder):
    builder.commit()
    with pytest.raises(RequestError, match="twice"):
        replace_columns(store_of(builder), [ID, StructField("ID", LONG)], options=WriteOptions())


def test_new_column_cannot_be_not_null(builder):
    builder.commit()
    assert refusal(builder, ID, NAME, S, MANY, StructField("n", INT, nullable=False)).error_class
