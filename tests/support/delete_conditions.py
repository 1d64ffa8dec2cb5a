"""Which rows does a random condition choose, by three-valued logic in plain Python?

A condition is a small tree. `sql` writes it as SQL text, `column` builds it with PySpark's functions, and `holds` gives
True, False or None (unknown) for a row, so a test can say what a DELETE must do without asking Spark. Operands are
columns, fields of structs, and arithmetic on a number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = ["STRINGS", "Condition", "conditions"]

Row = dict[str, Any]

STRINGS = ("a", "ab", "b", "B", "", "é", "a'b", "c\\d", "100%")


# --- operands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A column, or a field inside a struct: `("o", "inner", "c")`."""

    path: tuple[str, ...]

    @property
    def sql(self) -> str:
        return ".".join(f"`{name}`" for name in self.path)

    def column(self) -> Column:
        found = F.col(f"`{self.path[0]}`")
        for name in self.path[1:]:
            found = found.getField(name)
        return found

    def value(self, row: Row) -> Any:
        found: Any = row
        for name in self.path:
            found = None if found is None else found[name]
        return found

    def columns(self) -> set[str]:
        return {self.path[0]}


@dataclass(frozen=True)
class Arithmetic:
    """A number after `+`, `-`, `*` or `%` with a small constant. The remainder has the sign of the number, as in Java."""

    number: Field
    operator: str
    constant: int

    @property
    def sql(self) -> str:
        return f"({self.number.sql} {self.operator} {self.constant})"

    def column(self) -> Column:
        number = self.number.column()
        match self.operator:
            case "+":
                return number + self.constant
            case "-":
                return number - self.constant
            case "*":
                return number * self.constant
        return number % self.constant

    def value(self, row: Row) -> Any:
        number = self.number.value(row)
        if number is None:
            return None
        match self.operator:
            case "+":
                return number + self.constant
            case "-":
                return number - self.constant
            case "*":
                return number * self.constant
        return int(math.fmod(number, self.constant))

    def columns(self) -> set[str]:
        return self.number.columns()


@dataclass(frozen=True)
class Literal:
    constant: Any

    @property
    def sql(self) -> str:
        value = self.constant
        if value is None:
            return "NULL"
        if isinstance(value, str):
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if isinstance(value, float):
            return f"double('{value}')"
        return str(value)

    def column(self) -> Column:
        return F.lit(self.constant)

    def value(self, row: Row) -> Any:
        del row
        return self.constant

    def columns(self) -> set[str]:
        return set()


Operand = Field | Arithmetic | Literal


# --- conditions -------------------------------------------------------------------------------------------------------


def _order_key(value: Any) -> Any:
    """Spark's order of doubles: NaN is equal to itself and above everything; -0.0 is 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


@dataclass(frozen=True)
class Comparison:
    left: Operand
    operator: str
    right: Operand

    @property
    def sql(self) -> str:
        return f"{self.left.sql} {self.operator} {self.right.sql}"

    def column(self) -> Column:
        left, right = self.left.column(), self.right.column()
        match self.operator:
            case "=":
                return left == right
            case "<>":
                return left != right
            case "<":
                return left < right
            case "<=":
                return left <= right
            case ">":
                return left > right
            case ">=":
                return left >= right
        return left.eqNullSafe(right)

    def holds(self, row: Row) -> bool | None:
        left, right = self.left.value(row), self.right.value(row)
        if self.operator == "<=>":
            return left is right if left is None or right is None else _order_key(left) == _order_key(right)
        if left is None or right is None:
            return None
        left, right = _order_key(left), _order_key(right)
        answers = {
            "=": left == right,
            "<>": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }
        return answers[self.operator]

    def columns(self) -> set[str]:
        return self.left.columns() | self.right.columns()


@dataclass(frozen=True)
class Membership:
    operand: Operand
    choices: tuple[Literal, ...]

    @property
    def sql(self) -> str:
        return f"{self.operand.sql} IN ({', '.join(choice.sql for choice in self.choices)})"

    def column(self) -> Column:
        return self.operand.column().isin(*(choice.constant for choice in self.choices))

    def holds(self, row: Row) -> bool | None:
        value = self.operand.value(row)
        if value is None:
            return None
        if any(
            choice.constant is not None and _order_key(choice.constant) == _order_key(value) for choice in self.choices
        ):
            return True
        return None if any(choice.constant is None for choice in self.choices) else False

    def columns(self) -> set[str]:
        return self.operand.columns()


@dataclass(frozen=True)
class Nullness:
    operand: Operand
    is_null: bool

    @property
    def sql(self) -> str:
        return f"{self.operand.sql} IS {'' if self.is_null else 'NOT '}NULL"

    def column(self) -> Column:
        return self.operand.column().isNull() if self.is_null else self.operand.column().isNotNull()

    def holds(self, row: Row) -> bool:
        return (self.operand.value(row) is None) == self.is_null

    def columns(self) -> set[str]:
        return self.operand.columns()


@dataclass(frozen=True)
class Prefix:
    """`LIKE 'ab%'`, with a prefix in which no character is special."""

    operand: Operand
    prefix: str

    @property
    def sql(self) -> str:
        return f"{self.operand.sql} LIKE {Literal(self.prefix + '%').sql}"

    def column(self) -> Column:
        return self.operand.column().like(self.prefix + "%")

    def holds(self, row: Row) -> bool | None:
        value = self.operand.value(row)
        return None if value is None else value.startswith(self.prefix)

    def columns(self) -> set[str]:
        return self.operand.columns()


@dataclass(frozen=True)
class Constant:
    value: bool | None

    @property
    def sql(self) -> str:
        return {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}[self.value]

    def column(self) -> Column:
        return F.lit(self.value).cast("boolean")

    def holds(self, row: Row) -> bool | None:
        del row
        return self.value

    def columns(self) -> set[str]:
        return set()


@dataclass(frozen=True)
class Not:
    inner: Condition

    @property
    def sql(self) -> str:
        return f"NOT ({self.inner.sql})"

    def column(self) -> Column:
        return ~self.inner.column()

    def holds(self, row: Row) -> bool | None:
        inner = self.inner.holds(row)
        return None if inner is None else not inner

    def columns(self) -> set[str]:
        return self.inner.columns()


@dataclass(frozen=True)
class Both:
    """AND or OR. One side can decide alone: `false` an AND, `true` an OR; else an unknown side leaves it unknown."""

    left: Condition
    operator: str
    right: Condition

    @property
    def sql(self) -> str:
        return f"({self.left.sql}) {self.operator} ({self.right.sql})"

    def column(self) -> Column:
        left, right = self.left.column(), self.right.column()
        return left & right if self.operator == "AND" else left | right

    def holds(self, row: Row) -> bool | None:
        answers = (self.left.holds(row), self.right.holds(row))
        decisive = self.operator == "OR"
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive

    def columns(self) -> set[str]:
        return self.left.columns() | self.right.columns()


Condition = Comparison | Membership | Nullness | Prefix | Constant | Not | Both


# --- strategies -------------------------------------------------------------------------------------------------------

_OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
_INTEGERS = st.one_of(st.none(), st.integers(-4, 4)).map(Literal)
_STRINGS = st.one_of(st.none(), st.sampled_from(STRINGS)).map(Literal)
_DOUBLES = st.one_of(st.none(), st.sampled_from([-1.5, -0.0, 0.0, 2.25, math.nan, math.inf])).map(Literal)


def conditions(
    *, integers: list[tuple[str, ...]], strings: list[tuple[str, ...]], doubles: list[tuple[str, ...]]
) -> st.SearchStrategy[Condition]:
    """Conditions over columns (and fields of structs) of the three kinds."""
    numbers = st.sampled_from(integers).map(Field)
    sums = st.builds(Arithmetic, numbers, st.sampled_from(["+", "-", "*", "%"]), st.integers(1, 3))
    texts = st.sampled_from(strings).map(Field)
    reals = st.sampled_from(doubles).map(Field)
    leaves = st.one_of(
        st.builds(Comparison, st.one_of(numbers, sums), _OPERATORS, st.one_of(_INTEGERS, numbers)),
        st.builds(Comparison, texts, _OPERATORS, st.one_of(_STRINGS, texts)),
        st.builds(Comparison, reals, _OPERATORS, _DOUBLES),
        st.builds(Membership, st.one_of(numbers, sums), st.lists(_INTEGERS, min_size=1, max_size=3).map(tuple)),
        st.builds(Membership, texts, st.lists(_STRINGS, min_size=1, max_size=3).map(tuple)),
        st.builds(Nullness, st.one_of(numbers, texts, reals), st.booleans()),
        st.builds(Prefix, texts, st.sampled_from(["a", "ab", "é", "", "a'"])),
        st.builds(Constant, st.sampled_from([True, False, None])),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.builds(Both, inner, st.sampled_from(["AND", "OR"]), inner), st.builds(Not, inner)),
        max_leaves=4,
    )
