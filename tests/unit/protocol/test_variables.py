"""Are tables refused whose columns Spark or Hadoop would call otherwise?"""

from __future__ import annotations

import pytest

from ebbtide.errors import UnsupportedFeatureError
from ebbtide.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from ebbtide.protocol.variables import refuse_variables

LONG = PrimitiveType("long")


def inside(field):
    """The field at every place where a field can be."""
    struct = StructType((field,))
    return [
        struct,
        StructType((StructField("s", struct),)),
        StructType((StructField("a", ArrayType(struct)),)),
        StructType((StructField("m", MapType(LONG, ArrayType(struct))),)),
    ]


@pytest.mark.parametrize(
    "field",
    [
        StructField("${env:HOME}", LONG),
        StructField("x${user.home}y", LONG),
        StructField("${", LONG),
        StructField("a", LONG, True, {"delta.columnMapping.physicalName": "${spark.app.name}"}),
        StructField("a", LONG, True, {"__CHAR_VARCHAR_TYPE_STRING": "struct<`${spark.app.name}`:varchar(5)>"}),
        StructField("a", LONG, True, {"__COLLATIONS": {"${spark.app.name}": "x"}}),
    ],
    ids=str,
)
def test_a_column_that_reads_like_a_variable_is_refused(field):
    for schema in inside(field):
        with pytest.raises(UnsupportedFeatureError, match="Rename the column"):
            refuse_variables(schema)


def test_ordinary_names_with_dollars_and_braces_are_not_refused():
    for name in ("$", "{a}", "$ {a}", "a$b", "price ($)", "}{$"):
        for schema in inside(StructField(name, LONG, True, {"comment": "${env:HOME}"})):
            refuse_variables(schema)
