"""Does a schema grow by exactly what it lacks, and is every new field mapped where columns are?"""

from __future__ import annotations

import json

from ebbtide.protocol.actions import Metadata
from ebbtide.protocol.schema import ArrayType, PrimitiveType, StructField, StructType, parse_schema
from ebbtide.protocol.schema_evolution import evolved_metadata, evolved_schema

INT, STRING = PrimitiveType("integer"), PrimitiveType("string")


def struct(**fields):
    return StructType(tuple(StructField(name, data_type) for name, data_type in fields.items()))


def test_new_columns_come_last_and_known_ones_keep_their_types():
    grown = evolved_schema(struct(a=INT, b=STRING), struct(c=INT, B=INT))
    assert grown == struct(a=INT, b=STRING, c=INT)


def test_new_fields_are_nullable_and_carry_no_metadata():
    incoming = StructType((StructField("c", INT, False, {"comment": "from elsewhere"}),))
    [_, added] = evolved_schema(struct(a=INT), incoming).fields
    assert (added.nullable, dict(added.metadata)) == (True, {})


def test_structs_grow_inside_structs_and_arrays():
    schema = struct(s=struct(a=INT), items=ArrayType(struct(x=INT)))
    grown = evolved_schema(schema, struct(s=struct(b=INT), items=ArrayType(struct(y=INT))))
    assert grown == struct(s=struct(a=INT, b=INT), items=ArrayType(struct(x=INT, y=INT)))


def test_nothing_new_gives_the_same_metadata():
    metadata = Metadata("id", struct(a=INT).to_schema_string(), (), {})
    assert evolved_metadata(metadata, struct(A=STRING), column_mapping_mode="none") is metadata


def test_mapped_columns_get_fresh_ids_and_names_at_every_level():
    mapped = StructField("a", INT, True, {"delta.columnMapping.id": 4, "delta.columnMapping.physicalName": "col-a"})
    metadata = Metadata(
        "id", StructType((mapped,)).to_schema_string(), (), {"delta.columnMapping.maxColumnId": "9", "k": "v"}
    )
    grown = evolved_metadata(metadata, struct(s=struct(x=INT, y=INT)), column_mapping_mode="name")
    [kept, added] = parse_schema(grown.schema_string).fields
    assert kept == mapped
    inner = added.type.fields
    ids = [field.metadata["delta.columnMapping.id"] for field in (added, *inner)]
    names = {field.metadata["delta.columnMapping.physicalName"] for field in (added, *inner)}
    assert sorted(ids) == [10, 11, 12]
    assert len(names) == 3
    assert grown.configuration == {"delta.columnMapping.maxColumnId": "12", "k": "v"}
    assert json.loads(grown.schema_string)["fields"][0]["name"] == "a"
