"""Which expressions of a table stop a column from being dropped, renamed or given another type?

Those of CHECK constraints, generated columns and invariants that read it. They came with the table, so they are read as
text and never evaluated: an expression that nobody may run must not stop its owner from dropping it. If the text is not
understood, every name in it counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ebbtide.errors import RequestError, UnsupportedFeatureError
from ebbtide.log import Snapshot
from ebbtide.protocol.schema import CHAR_VARCHAR, StructField, StructType, all_fields
from ebbtide.protocol.schema_edits import FieldPath, shown_path
from ebbtide.sql_text import tokenize
from ebbtide.sql_text.names import names_in
from ebbtide.write.expression_reading import UnknownSyntaxError, read_expression

__all__ = ["refuse_dependents", "refuse_lengths_inside", "uses_column"]

_GENERATION = "delta.generationExpression"
_INVARIANTS = "delta.invariants"


def refuse_dependents(snapshot: Snapshot, path: FieldPath, doing: str) -> None:
    """RequestError when a constraint or a generated column reads the field at `path`; `doing` is "dropped" or so."""
    what = f"The column '{shown_path(path)}' of the table at {snapshot.store.url} cannot be {doing}"
    for name, text in snapshot.properties.constraints.items():
        if uses_column(text, path):
            raise RequestError(
                f"{what}: the CHECK constraint {name} ({text[:200]}) reads it. Drop the constraint first.",
                error_class="DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
            )
    for field, text in _generations(snapshot.schema):
        if field.name.lower() != path[0].lower() and uses_column(text, path):
            raise RequestError(
                f"{what}: the generated column {field.name} ({text[:200]}) is computed from it. Drop that one first.",
                error_class="DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE",
            )
    for owner in snapshot.schema.fields:
        if owner.name.lower() != path[0].lower() and any(uses_column(text, path) for text in _invariants(owner)):
            raise RequestError(
                f"{what}: an invariant of the column {owner.name} reads it.",
                error_class="DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
            )


def refuse_lengths_inside(schema: StructType, path: FieldPath) -> None:
    """Refuse a change inside a column whose CHAR and VARCHAR lengths are noted for the column as a whole."""
    column = schema.get(path[0])
    if len(path) > 1 and column is not None and CHAR_VARCHAR in column.metadata:
        raise UnsupportedFeatureError(
            f"'{shown_path(path)}' cannot be changed: the column {column.name} holds CHAR or VARCHAR values, whose "
            "lengths are noted for the column as a whole. Change the whole column.",
            error_class="",
        )


def uses_column(text: str, path: FieldPath) -> bool:
    """Whether an expression reads the field, something inside it, or something that it is inside of."""
    wanted = [part.lower() for part in path]
    names = _names(text)
    if names is None:
        # No SQL that anyone can read. A name in it would still be there, letter by letter.
        return wanted[0].replace("`", "") in text.lower().replace("`", "")
    return any(all(a.lower() == b for a, b in zip(name, wanted, strict=False)) for name in names)


def _names(text: str) -> list[tuple[str, ...]] | None:
    tokens = tokenize(text, is_substituted=False)
    if not tokens:
        return None
    # In some sessions a name may stand in double quotes.
    quoted = [(token.value,) for token in tokens if token.kind == "string" and token.value]
    try:
        return [*read_expression(text).names, *quoted]
    except UnknownSyntaxError:
        return [*(name.parts for name in names_in(tokens)), *quoted]


def _generations(schema: StructType) -> Iterator[tuple[StructField, str]]:
    for field in schema.fields:
        text = field.metadata.get(_GENERATION)
        if isinstance(text, str):
            yield field, text


def _invariants(column: StructField) -> Iterator[str]:
    for field in all_fields(StructType((column,))):
        text = field.metadata.get(_INVARIANTS)
        if isinstance(text, str):
            try:
                yield str(json.loads(text)["expression"]["expression"])
            except (ValueError, KeyError, TypeError, RecursionError):
                yield text
