"""Which numbers does an identity column hand out, and where did it stop?

A field's metadata has the first number, the step from one to the next, and a mark: the number that went furthest in the
direction of the step. Every later number lies beyond the mark, so none comes twice, and a number that was skipped is
never used. Explicit values, where the column allows them, do not move the mark. See "Identity Columns" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

from ebbtide.errors import CorruptTableError, RequestError, SchemaMismatchError, UnsupportedFeatureError
from ebbtide.protocol.actions import Metadata
from ebbtide.protocol.schema import PrimitiveType, StructField, StructType, all_fields, parse_schema, physical_name

__all__ = [
    "EXHAUSTED",
    "MARK",
    "IdentityColumn",
    "advance_marks",
    "check_identity_fields",
    "explain_exhausted",
    "identity_metadata",
    "keep_marks",
    "moves_only_marks",
]

START: Final = "delta.identity.start"
STEP: Final = "delta.identity.step"
MARK: Final = "delta.identity.highWaterMark"
ALLOWS_VALUES: Final = "delta.identity.allowExplicitInsert"
# As Spark calls a number that is too large.
EXHAUSTED: Final = "ARITHMETIC_OVERFLOW"
_LONG: Final = PrimitiveType("long")
_MIN, _MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class IdentityColumn:
    """How one column counts; `mark` is None before the first number."""

    name: str
    start: int
    step: int
    allows_values: bool
    mark: int | None = None

    @classmethod
    def of(cls, field: StructField) -> IdentityColumn:
        """What the field's metadata says. CorruptTableError where it says half of it."""
        start, step, allowed = (field.metadata.get(key) for key in (START, STEP, ALLOWS_VALUES))
        mark = field.metadata.get(MARK)
        is_marked_well = mark is None or _is_long(mark)
        if _is_long(start) and _is_long(step) and step != 0 and isinstance(allowed, bool) and is_marked_well:
            return cls(field.name, start, step, allowed, mark)
        shown = {key: value for key, value in field.metadata.items() if key.startswith("delta.identity.")}
        raise CorruptTableError(
            f"The metadata of the identity column '{field.name}' is not whole: {str(shown)[:300]}. It needs a start, a "
            "step other than 0, and whether values may be given, all numbers of 64 bits.",
            error_class="DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA",
        )

    def is_beyond(self, one: int, other: int) -> bool:
        """Whether `one` lies further than `other` in the direction of the steps."""
        return one > other if self.step > 0 else one < other

    @property
    def next_number(self) -> int:
        """The first number beyond the mark. It can lie outside of 64 bits: then no number is left."""
        if self.mark is None or self.is_beyond(self.start, self.mark):
            return self.start
        reached = self._reach(self.mark)
        return reached + self.step if reached == self.mark else reached

    def room(self, first: int) -> int:
        """How many steps from `first` still lead to a number of 64 bits; -1 when `first` itself is none."""
        if not _MIN <= first <= _MAX:
            return -1
        return (_MAX - first) // self.step if self.step > 0 else (first - _MIN) // -self.step

    def advance_to(self, number: int) -> IdentityColumn:
        """The column after `number` came into use. A number before the start, or before the mark, changes nothing."""
        if self.is_beyond(self.start, number):
            return self
        reached = self._reach(number)
        if not _MIN <= reached <= _MAX:
            raise RequestError(explain_exhausted(self.name), error_class=EXHAUSTED)
        return self if self.mark is not None and not self.is_beyond(reached, self.mark) else replace(self, mark=reached)

    def _reach(self, number: int) -> int:
        """The number itself, or the next one that the steps from the start lead to."""
        steps = -((self.start - number) // self.step)
        return self.start + steps * self.step


def identity_metadata(start: int, step: int, *, allows_values: bool) -> dict[str, Any]:
    """What a new identity column has in its metadata."""
    return {START: start, STEP: step, ALLOWS_VALUES: allows_values}


def check_identity_fields(schema: StructType, partition_columns: tuple[str, ...]) -> None:
    """SchemaMismatchError for an identity column that a new table cannot have."""
    partitioned = {name.lower() for name in partition_columns}
    for field in schema.fields:
        if field.is_identity:
            _check_field(field)
            if field.name.lower() in partitioned:
                raise SchemaMismatchError(
                    f"PARTITIONED BY the identity column '{field.name}' is not supported: every row would be a "
                    "partition. Leave it out.",
                    error_class="DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED",
                )
    inside = (deep for field in schema.fields for deep in all_fields(field.type))
    for field in inside:
        if field.is_identity:
            raise SchemaMismatchError(
                f"The identity column '{field.name}' is inside another column. Only a column of the table can count.",
                error_class="DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA",
            )


def _check_field(field: StructField) -> None:
    if "delta.generationExpression" in field.metadata:
        raise SchemaMismatchError(
            f"The identity column '{field.name}' cannot have a generation expression too. Keep one of them.",
            error_class="DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION",
        )
    if "CURRENT_DEFAULT" in field.metadata:
        raise SchemaMismatchError(
            f"The identity column '{field.name}' cannot have a default too: a value that is not given is counted. Keep "
            "one of them.",
            error_class="IDENTITY_COLUMN_WITH_DEFAULT_VALUE",
        )
    if field.type != _LONG:
        shown = field.type.name if isinstance(field.type, PrimitiveType) else "a nested type"
        raise UnsupportedFeatureError(
            f"The identity column '{field.name}' must be BIGINT, not {shown}.",
            error_class="DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
        )
    if field.metadata.get(STEP) == 0:
        raise SchemaMismatchError(
            f"The step of the identity column '{field.name}' cannot be 0: every row would get the same number.",
            error_class="DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP",
        )
    IdentityColumn.of(field)


def explain_exhausted(name: str) -> str:
    """What to say when no number is left."""
    return (
        f"The identity column '{name}' has no number left that fits 64 bits. Nothing was changed. Make a table with "
        "another start or a smaller step, and copy the rows."
    )


# --- marks of a whole table -------------------------------------------------------------------------------------------


def advance_marks(metadata: Metadata, numbers: Mapping[str, int]) -> Metadata:
    """The metadata after these numbers came into use, by physical name of the column; the same where no mark moves."""
    if not numbers:
        return metadata
    schema = parse_schema(metadata.schema_string)
    moved = StructType(tuple(_advance_field(field, numbers) for field in schema.fields))
    return metadata if moved == schema else replace(metadata, schema_string=moved.to_schema_string())


def keep_marks(metadata: Metadata, newest: Metadata) -> Metadata:
    """The metadata, with columns that count on where `newest` stopped: no number is handed out twice."""
    if START not in metadata.schema_string or MARK not in newest.schema_string:
        return metadata
    marks = {
        physical_name(field): field.metadata[MARK]
        for field in parse_schema(newest.schema_string).fields
        if field.is_identity and _is_long(field.metadata.get(MARK))
    }
    return advance_marks(metadata, marks)


def moves_only_marks(before: Metadata, after: Metadata) -> bool:
    """Whether the two differ, and in nothing but the marks."""
    if (
        before == after
        or replace(before, schema_string=after.schema_string) != after
        or MARK not in after.schema_string
    ):
        return False
    old, new = (parse_schema(metadata.schema_string) for metadata in (before, after))
    return _without_marks(old) == _without_marks(new)


def _advance_field(field: StructField, numbers: Mapping[str, int]) -> StructField:
    number = numbers.get(physical_name(field))
    if number is None or not field.is_identity:
        return field
    column = IdentityColumn.of(field)
    mark = column.advance_to(number).mark
    return field if mark == column.mark else replace(field, metadata={**field.metadata, MARK: mark})


def _without_marks(schema: StructType) -> StructType:
    return StructType(
        tuple(
            replace(field, metadata={key: value for key, value in field.metadata.items() if key != MARK})
            for field in schema.fields
        )
    )


def _is_long(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and _MIN <= value <= _MAX
