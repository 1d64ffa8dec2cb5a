"""Which table do the documentation and the command-line tests talk about?

`people`: two files of three people each; version 2 deleted Ada's and Grace's rows by marking them in the first file. Names, times
and sizes of the log are always the same, so that what the documentation shows can be compared letter by letter.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.support.table_builder import TableBuilder

__all__ = ["people_table"]

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "city": pa.string()})
FIRST = [("Ada", "London"), ("Grace", "New York"), ("Edsger", "Rotterdam")]
SECOND = [("Barbara", "Boston"), ("Donald", None), ("Frances", "Peru")]


def people_table(path: Path) -> TableBuilder:
    """The table at `path`, three versions: two appends and a DELETE."""
    builder = TableBuilder(path, SCHEMA).deletion_vectors()
    builder.file(_rows(1, FIRST), name="part-0.parquet").commit(operation="WRITE")
    builder.file(_rows(4, SECOND), name="part-1.parquet").commit(operation="WRITE")
    return builder.mark(builder.files[0], [0, 1]).commit(operation="DELETE")


def _rows(first_id: int, people: list[tuple[str, str | None]]) -> list[dict[str, object]]:
    return [{"id": first_id + index, "name": name, "city": city} for index, (name, city) in enumerate(people)]
