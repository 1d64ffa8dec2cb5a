"""How do Spark's exceptions become ours?

`spark_errors` translates whatever Spark raises. A row that breaks a rule fails with a text of ours (`failure`), and
`spark_errors` finds that text again in whatever Spark wraps around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from ebbtide.errors import (
    ConstraintViolationError,
    CorruptTableError,
    DeltaError,
    InvalidPredicateError,
    InvalidSyntaxError,
    MissingDataFileError,
    RequestError,
    UnknownColumnError,
)
from ebbtide.spark_border.causes import find_spark_cause
from ebbtide.spark_border.names import without_helper_names

try:
    # Classic PySpark raises it for failures that have no class of their own in Python, such as a file that a task could
    # not read. Where only Connect is installed there is no such package.
    from py4j.protocol import Py4JJavaError as JvmError
except ImportError:

    class JvmError(Exception):  # type: ignore[no-redef]
        """Never raised: there is no JVM in reach."""


__all__ = ["condition_of", "failure", "failure_message", "spark_errors"]

# What a failing row says, so that it is found again in whatever Spark wraps around it.
_VIOLATIONS = frozenset(
    {
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    }
)
_FAILURE = re.compile(r"<ebbtide:([\w.]*)>(.*?)</ebbtide>", re.DOTALL)
# A column of another DataFrame, as classic Spark and as Connect call it.
_BOUND_ELSEWHERE = ("MISSING_ATTRIBUTES", "CANNOT_RESOLVE_DATAFRAME_COLUMN")
_QUOTED = re.compile(r'"([^"]+)"')
# The stable name of the error in a JVM exception that PySpark did not translate.
_JVM_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
# Where it has none: its class, after a line that names one of Py4J's objects. Its message may quote anything.
_JVM_CLASS = re.compile(r"^: (?:[\w$]+\.)*([\w$]+)", re.MULTILINE)


@contextmanager
def spark_errors(doing: str) -> Iterator[None]:
    """Translate what Spark raises while `doing` something (a verb phrase for the message) into our errors."""
    try:
        yield
    except DeltaError:
        raise
    except (PySparkException, JvmError) as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from error
        translated = _translate(error, doing)
        translated.message_parameters = _parameters_of(error)
        raise translated from error


def _translate(error: PySparkException | JvmError, doing: str) -> DeltaError:
    name = condition_of(error) if isinstance(error, PySparkException) else _condition_in(error)
    # The analyser quotes the plan, and our texts in it, though no row has failed.
    ours = None if isinstance(error, AnalysisException) else _FAILURE.search(str(error))
    if ours is not None:
        kind = ConstraintViolationError if ours[1] in _VIOLATIONS else RequestError
        return kind(ours[2], error_class=ours[1])
    if name.startswith(_BOUND_ELSEWHERE):
        return UnknownColumnError(f"While {doing}: {_explain_bound_column(error)}", error_class=name)
    # The analyser speaks of the request. Whatever else fails may have its cause far below.
    if not isinstance(error, AnalysisException) and (cause := find_spark_cause(error, name)) is not None:
        kind_of_cause, sentences = cause
        return kind_of_cause(f"While {doing}: {sentences}")
    message = f"While {doing}: {_first_line(error)}"
    if name.startswith(("PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST")):
        return MissingDataFileError(f"{message} The log names this file, but it is not in storage.")
    if name.startswith(("FAILED_READ_FILE", "CANNOT_READ_FILE", "PARQUET")):
        return CorruptTableError(message)
    if name.startswith(("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND", "AMBIGUOUS_REFERENCE")):
        return UnknownColumnError(message, error_class=name)
    if isinstance(error, ParseException):
        return InvalidSyntaxError(message, error_class=name or "PARSE_SYNTAX_ERROR")
    if isinstance(error, AnalysisException):
        return InvalidPredicateError(message, error_class=name)
    return RequestError(message, error_class=name)


def _parameters_of(error: PySparkException | JvmError) -> dict[str, str]:
    found = error.getMessageParameters() if isinstance(error, PySparkException) else None
    return {key: without_helper_names(value) for key, value in (found or {}).items()}


def _was_interrupted(error: BaseException) -> bool:
    """Whether the user pressed Ctrl-C. PySpark then cancels the jobs, and may raise their failure instead."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def _explain_bound_column(error: PySparkException | JvmError) -> str:
    found = _QUOTED.search(str(error))
    name = found[1] if found else "id"
    return (
        f"the column '{name}' belongs to another DataFrame, as in df['{name}'], which means nothing here. Nothing was "
        f"done. Write the column's name: F.col('{name}'), with the alias in front in a merge, or SQL text."
    )


def _condition_in(error: JvmError) -> str:
    found = _JVM_CONDITION.search(str(error))
    return found[1] if found else ""


def _first_line(error: PySparkException | JvmError) -> str:
    text = str(error)
    found = None if isinstance(error, PySparkException) else _JVM_CONDITION.search(text)
    if found is None and not isinstance(error, PySparkException) and (java := _JVM_CLASS.search(text)) is not None:
        return f"Spark failed with {java[1]}."
    lines = text[found.start() if found else 0 :].strip().splitlines()
    return without_helper_names(lines[0]) if lines else type(error).__name__


def condition_of(error: PySparkException) -> str:
    """Spark's stable name of the error; the method was renamed in Spark 4.0."""
    get: Any = getattr(error, "getCondition", None) or error.getErrorClass
    return get() or ""


def failure_message(error_class: str, message: Column) -> Column:
    """Text that `spark_errors` knows as ours when a row raises it."""
    return F.concat(F.lit(f"<ebbtide:{error_class}>"), message, F.lit("</ebbtide>"))


def failure(error_class: str, message: Column) -> Column:
    """A value that cannot be computed: the query fails, and `spark_errors` makes it an error of ours."""
    return F.raise_error(failure_message(error_class, message))
