"""Which errors can Ebbtide raise, and what can the caller do about each?

Every exception the package raises on purpose lives here. They are grouped by what the caller can do next, not by where
they come from. Each carries `error_class`, the stable name Delta users already search for (empty where Delta has none),
and a message that says what happened, to which value, and what to try.

They are PySpark's exceptions too, where users of delta-spark catch those: `except AnalysisException` catches a
condition that names no column, and every error has `getCondition()` and its sisters. PySpark's exception classes are
the only part of Spark that this module, or anything below `spark_border`, imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pyspark.errors import (
    AnalysisException,
    ParseException,
    PySparkException,
    PySparkTypeError,
    PySparkValueError,
    QueryContext,
    UnsupportedOperationException,
)

from ebbtide.sql_states import sql_state

__all__ = [
    "ArgumentTypeError",
    "CommitOutcomeUnknownError",
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "ConstraintViolationError",
    "CorruptDeletionVectorError",
    "CorruptTableError",
    "DeltaConcurrentModificationException",
    "DeltaError",
    "InternalError",
    "InvalidPredicateError",
    "InvalidSyntaxError",
    "MetadataChangedException",
    "MissingDataFileError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "PermissionDeniedError",
    "ProtocolChangedException",
    "RequestError",
    "SchemaMismatchError",
    "StorageError",
    "TableAlreadyExistsError",
    "TableNotFoundError",
    "UnknownColumnError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
]


def _displayable(text: str) -> str:
    """The text with terminal control characters escaped; line breaks and tabs stay.

    Messages quote names and paths of tables that anybody may have written, and end up in logs and on terminals.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


class DeltaError(PySparkException):
    """Root of everything raised on purpose: `except ebbtide.DeltaError` catches all of it.

    `str(error)` begins with the error class, where there is one. The class and the message are kept apart, so that
    pickling or copying an error does not change it.
    """

    default_error_class: ClassVar[str] = ""

    def __init__(self, message: str, *, error_class: str | None = None) -> None:
        # PySpark's own initialiser looks the message up among PySpark's. Only the methods below read what it sets.
        Exception.__init__(self, _displayable(message))
        self.error_class = self.default_error_class if error_class is None else error_class
        self.message_parameters: Mapping[str, str] = {}

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else ""
        return f"[{self.error_class}] {message}" if self.error_class else message

    def getCondition(self) -> str | None:
        """The stable name of the error, as `error_class`; None where it has none."""
        return self.error_class or None

    def getErrorClass(self) -> str | None:
        return self.getCondition()

    def getMessage(self) -> str:
        return str(self)

    def getMessageParameters(self) -> dict[str, str]:
        """The parameters of Spark's message, if the error began as one of Spark's."""
        return dict(self.message_parameters)

    def getSqlState(self) -> str | None:
        return sql_state(self.error_class)

    def getQueryContext(self) -> list[QueryContext]:
        return []

    def getBreakingChangeInfo(self) -> dict[str, Any] | None:
        return None


# --- fix the call -----------------------------------------------------------------------------------------------------


class RequestError(DeltaError, PySparkValueError):
    """The call itself cannot be served: an argument, a path or a statement is wrong. Also a ValueError."""


class ArgumentTypeError(RequestError, PySparkTypeError):
    """An argument is of the wrong type. Also a TypeError."""


class InvalidPredicateError(RequestError, AnalysisException):
    """The condition cannot be used: not boolean, not deterministic, an aggregate, or not SQL."""


class InvalidSyntaxError(InvalidPredicateError, ParseException):
    """The text is not SQL that Spark can read."""


class SchemaMismatchError(RequestError, AnalysisException):
    """Columns or types do not fit the table's."""


class UnknownColumnError(RequestError, AnalysisException):
    """The condition or assignment names a column that the table does not have."""

    default_error_class = "UNRESOLVED_COLUMN"


class VersionNotFoundError(RequestError, AnalysisException):
    """The version or timestamp asked for does not exist, or its log was cleaned up."""

    default_error_class = "DELTA_VERSION_NOT_FOUND"


class ConstraintViolationError(RequestError):
    """A row about to be written breaks a NOT NULL, CHECK or generated-column rule of the table."""

    default_error_class = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"


class TableNotFoundError(DeltaError, AnalysisException):
    default_error_class = "DELTA_MISSING_DELTA_TABLE"


class TableAlreadyExistsError(DeltaError, AnalysisException):
    default_error_class = "DELTA_TABLE_ALREADY_EXISTS"


# --- this engine cannot serve this table ------------------------------------------------------------------------------


class UnsupportedFeatureError(DeltaError, UnsupportedOperationException):
    """The table needs a protocol feature that Ebbtide does not have. Raised at the gate, before any work."""

    default_error_class = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"


# --- the table's bytes break the protocol -----------------------------------------------------------------------------


class CorruptTableError(DeltaError):
    """A log file, checkpoint or data file is missing, cut short, or says what the protocol forbids."""


class MissingDataFileError(CorruptTableError):
    """A data or deletion-vector file that the log names is not in storage."""

    default_error_class = "DELTA_FILE_NOT_FOUND"


class CorruptDeletionVectorError(CorruptTableError):
    """A deletion vector does not pass its checks. No row of the file is returned."""


# --- another writer committed first -----------------------------------------------------------------------------------


class DeltaConcurrentModificationException(DeltaError):
    """Parent of every conflict: the table changed in a way that the operation cannot be rebased on."""


class ConcurrentWriteException(DeltaConcurrentModificationException):
    default_error_class = "DELTA_CONCURRENT_WRITE"


class ConcurrentAppendException(DeltaConcurrentModificationException):
    default_error_class = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    default_error_class = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    default_error_class = "DELTA_CONCURRENT_DELETE_DELETE"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    default_error_class = "DELTA_CONCURRENT_TRANSACTION"


class MetadataChangedException(DeltaConcurrentModificationException):
    default_error_class = "DELTA_METADATA_CHANGED"


class ProtocolChangedException(DeltaConcurrentModificationException):
    default_error_class = "DELTA_PROTOCOL_CHANGED"


class CommitOutcomeUnknownError(DeltaError):
    """The commit may have landed. Nothing was cleaned up; the message says how to find out."""


# --- storage ----------------------------------------------------------------------------------------------------------


class StorageError(DeltaError):
    """The object store failed or refused. Messages never carry credentials."""


class ObjectNotFoundError(StorageError, FileNotFoundError):
    pass


class ObjectExistsError(StorageError, FileExistsError):
    pass


class PermissionDeniedError(StorageError, PermissionError):
    pass


# --- our bug ----------------------------------------------------------------------------------------------------------


class InternalError(DeltaError):
    """An invariant of Ebbtide itself failed. Please report it with the message."""
