"""Which column names would be read as variables?

Spark replaces `${...}` in SQL text, and Hadoop replaces it in the schema that goes to every Parquet reader and writer:
with session settings, JVM properties and the environment. A column with such a name would be read or written under
another one, and messages and files would hold the variable's value. No setting switches both off, so a table with such
a column is refused before Spark sees it.
"""

from __future__ import annotations

import json
from typing import Final

from ebbtide.errors import UnsupportedFeatureError
from ebbtide.protocol.schema import (
    CHAR_VARCHAR,
    COLLATIONS,
    PHYSICAL_NAME,
    StructType,
    all_fields,
)

__all__ = ["holds_variable", "refuse_variables"]

_MARK: Final = "${"


def holds_variable(text: object) -> bool:
    """Whether a part of the text, or of a JSON value, could be taken for a variable."""
    return _MARK in (text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str))


def refuse_variables(schema: StructType) -> None:
    """UnsupportedFeatureError for the first column whose name, in the table or in its files, holds `${`."""
    for field in all_fields(schema):
        names = [field.name, *(field.metadata.get(key) for key in (PHYSICAL_NAME, CHAR_VARCHAR, COLLATIONS))]
        found = next((name for name in names if name is not None and holds_variable(name)), None)
        if found is not None:
            raise UnsupportedFeatureError(
                f"The column '{field.name}' has '${{' in its name or type ({str(found)[:200]}), and Spark and Hadoop "
                "would put a variable in its place. Rename the column with the engine that made the table.",
                error_class="",
            )
