"""What is an engine to this package? It makes tables, takes steps, and shows rows; it may offer only some of that.

`Engine` is the whole of it. `ENGINES` names the classes, in the order of the page's columns, and where each lives: in
this process, or in one of its own because it cannot share one (`interop.remote`). `conformed` brings what an engine
shows into the model's types, wherever nothing can be lost by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from interop.features import Definition
from interop.steps import Step

__all__ = ["ENGINES", "Engine", "Place", "conformed", "load"]


class Engine(Protocol):
    """`offers` names the kinds of steps, and `create` and `changes`, that it has. It raises whatever it raises."""

    offers: frozenset[str]

    def version(self) -> str: ...

    def create(self, path: str, definition: Definition) -> None: ...

    def run(self, path: str, step: Step) -> None: ...

    def read(self, path: str) -> pa.Table: ...

    def changes(self, path: str) -> pa.Table: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Place:
    """Where an engine's class is (`module:class`), and whether it needs a process of its own."""

    engine: str
    is_remote: bool = False


# delta-spark shares its session with Ebbtide. A Connect client cannot live beside a classic session, and ClickHouse
# opens only what lies below its working directory.
ENGINES: Mapping[str, Place] = {
    "delta-spark": Place("interop.spark_engines:DeltaSpark"),
    "deltalake": Place("interop.wheel_engines:Deltalake"),
    "Polars": Place("interop.wheel_engines:Polars"),
    "DuckDB": Place("interop.wheel_engines:DuckDB"),
    "ClickHouse": Place("interop.clickhouse:ClickHouse", is_remote=True),
    "Sail": Place("interop.sail:Sail", is_remote=True),
}


def conformed(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with the columns and types of `schema`; raises where a value does not fit."""
    columns = [_conformed(found.column(each.name).combine_chunks(), each.type) for each in schema]
    return pa.Table.from_arrays(columns, schema=pa.schema([each.with_nullable(True) for each in schema]))


def _conformed(array: Any, target: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_struct(target):
        children = [_conformed(pc.struct_field(array, each.name), each.type) for each in target]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
    if pa.types.is_map(target):
        # Engines without a type for maps show lists of pairs.
        entries = array.values
        keys, items = _pair(entries)
        keys, items = _conformed(keys, target.key_type), _conformed(items, target.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=target, mask=array.is_null())
    if pa.types.is_list(target):
        values = _conformed(array.values, target.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=target, mask=array.is_null())
    return array.cast(target)


def _offsets(array: Any) -> pa.Array:
    return array.offsets.cast(pa.int32())


def _pair(entries: Any) -> tuple[pa.Array, pa.Array]:
    return entries.field(0), entries.field(1)


def load(place: Place) -> type:
    """The class of an engine; imports what the engine needs."""
    import importlib

    module, _, name = place.engine.partition(":")
    return getattr(importlib.import_module(module), name)
