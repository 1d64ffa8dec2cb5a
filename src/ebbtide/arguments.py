"""Does every argument of a public call have the right type?

    @checked(spark=session, path=table_path, version=optional(integer))
    def read(spark, path, version=None): ...

A wrong type is refused before anything else happens, with one sentence that names the argument, its type, and what to
write instead. Every parameter needs a check: a door that forgets one cannot be imported. Values of the right type that
make no sense (a version that does not exist) are checked later, where they are used.
"""

from __future__ import annotations

import datetime as dt
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from ebbtide.config import EngineConfig
from ebbtide.errors import ArgumentTypeError
from ebbtide.spark_border import is_session

__all__ = [
    "Check",
    "assignments",
    "checked",
    "column_type",
    "condition",
    "engine_config",
    "fields",
    "flag",
    "frame",
    "integer",
    "integers",
    "moment",
    "names",
    "number",
    "optional",
    "session",
    "table_path",
    "text",
    "text_map",
    "texts",
    "transaction_id",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LONGEST_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Check:
    """What an argument must be, in the words of the message, and what to write instead."""

    wanted: str
    accepts: Callable[[Any], bool]
    fix: str = ""
    # For collections of the right kind: describes the first wrong item, if any.
    wrong_item: Callable[[Any], str | None] | None = None
    error_class: str = ""

    def __call__(self, name: str, value: object) -> None:
        if not self.accepts(value):
            wrong: str | None = f"not {_describe(value)}"
        else:
            wrong = None if value is None or self.wrong_item is None else self.wrong_item(value)
        if wrong is not None:
            message = f"{name} must be {self.wanted}, {wrong}. {self.fix}".rstrip()
            raise ArgumentTypeError(message, error_class=self.error_class)


def optional(check: Check) -> Check:
    """The same, or None."""
    accepts = check.accepts
    return replace(check, wanted=f"{check.wanted}, or None", accepts=lambda value: value is None or accepts(value))


def checked(**checks: Check) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Check the arguments of every call of the decorated function.

    If the function takes `**options`, the checks that are not its parameters are the options it knows.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)
        own = [name for name in signature.parameters if name not in {"self", "cls"}]
        collects = {p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD}
        forgotten = [name for name in own if name not in checks and name not in collects]
        assert not forgotten, f"{function.__qualname__} does not check {forgotten}"

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                # Too few or too many arguments: Python's own message is the one that everybody knows.
                return function(*args, **kwargs)
            for name, value in _arguments(signature, bound, checks):
                checks[name](name, value)
            return function(*args, **kwargs)

        return call

    return decorate


def _arguments(
    signature: inspect.Signature, bound: inspect.BoundArguments, checks: Mapping[str, Check]
) -> Iterator[tuple[str, object]]:
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((name, item) for item in value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            for option in value:
                if option not in checks:
                    known = ", ".join(sorted(set(checks) - set(signature.parameters)))
                    raise ArgumentTypeError(f"There is no option {option!r} here. The options are {known}.")
            yield from value.items()
        elif name in checks:
            yield name, value


# --- the kinds of arguments -------------------------------------------------------------------------------------------


def _is_a(*types: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, types)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_path(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, os.PathLike) and isinstance(os.fspath(value), str))


def _holds(found: object) -> str:
    return f"but it holds {_describe(found)}"


def _first_non_text(values: Iterable[Any]) -> str | None:
    items = (values,) if isinstance(values, str) else values
    return next((_holds(item) for item in items if not isinstance(item, str)), None)


def _first_non_int(values: Iterable[Any]) -> str | None:
    return next((_holds(item) for item in values if not _is_int(item)), None)


def _first_non_text_pair(values: Mapping[Any, Any]) -> str | None:
    return _first_non_text(item for pair in values.items() for item in pair)


def _first_non_assignment(values: Mapping[Any, Any]) -> str | None:
    for name, value in values.items():
        if not isinstance(name, str):
            return f"but it names a column by {_describe(name)}"
        if not isinstance(value, str | Column):
            return f"but the value of {name!r} is {_describe(value)}"
    return None


def _first_non_field(values: Iterable[Any]) -> str | None:
    return next((_holds(field) for field in values if not isinstance(field, T.StructField)), None)


def _not_a_transaction(pair: Any) -> str | None:
    is_one = len(pair) == 2 and isinstance(pair[0], str) and _is_int(pair[1])
    return None if is_one else f"not {_shorten(pair)}"


session = Check("a SparkSession", is_session, "SparkSession.builder.getOrCreate() gives one.")
frame = Check("a Spark DataFrame", _is_a(DataFrame), "Use spark.createDataFrame(data) to make one.")
table_path = Check("the path or URL of a table as a str or pathlib.Path", _is_path)
text = Check("a str", _is_a(str))
integer = Check("an int", _is_int)
number = Check("a number", lambda value: _is_int(value) or isinstance(value, float))
integers = Check("a list of ints", _is_a(list, tuple, set, frozenset), wrong_item=_first_non_int)
texts = Check("a list of strs", _is_a(list, tuple, set, frozenset), wrong_item=_first_non_text)
flag = Check("True or False", _is_a(bool))
condition = Check("SQL text or a Column", _is_a(str, Column), "Write it like \"id > 5\" or col('id') > 5.")
moment = Check(
    "a str or a datetime", _is_a(str, dt.datetime), "Write it like '2026-01-31 12:00:00' or pass a datetime."
)
names = Check("a column's name or a list of names", _is_a(str, list, tuple), wrong_item=_first_non_text)
text_map = Check(
    "a dict of strings", _is_a(Mapping), "Write keys and values like {'key': 'value'}.", _first_non_text_pair
)
assignments = Check(
    "a dict that gives columns SQL text or Columns",
    _is_a(Mapping),
    "Write it like {'price': 'price * 2'}; a plain value is pyspark.sql.functions.lit(...).",
    _first_non_assignment,
)
column_type = Check("a type as SQL text or a pyspark.sql.types.DataType", _is_a(str, T.DataType))
partition_columns = Check(
    "columns with their types as SQL text or a StructType",
    _is_a(str, T.StructType),
    "Write it like 'day DATE, country STRING'.",
)
fields = Check("a StructType or a list of StructFields", _is_a(T.StructType, list, tuple), wrong_item=_first_non_field)
transaction_id = Check(
    "a pair of application id and number",
    _is_a(tuple, list),
    "Write it like ('nightly', 7).",
    _not_a_transaction,
    error_class="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
)
engine_config = Check("an EngineConfig", _is_a(EngineConfig), "Write it like config=ebbtide.EngineConfig(...).")


# --- words for a value ------------------------------------------------------------------------------------------------


def _describe(value: object) -> str:
    if value is None:
        return "None"
    kind = type(value)
    if kind in {str, int, float, bool, bytes}:
        return f"the {kind.__name__} {_shorten(value)}"
    module = kind.__module__.partition(".")[0]
    name = kind.__name__ if module == "builtins" else f"{module}.{kind.__name__}"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _shorten(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."
