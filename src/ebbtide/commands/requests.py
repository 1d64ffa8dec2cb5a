"""What was asked for?

One request type per verb, whichever door it came through. Every session setting that a command needs is read at the
door and put into the request; nothing below reads our own settings from `spark.conf`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.sql import Column, DataFrame

from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Committed

__all__ = ["AfterCommit", "Conflicts", "DeleteRequest", "MatchingKeys", "UpdateRequest", "VectorMode", "WriteOptions"]

# on: mark rows in deletion vectors where the table allows it; off: rewrite files; auto: mark, but rewrite a file that
# would end up mostly deleted.
VectorMode = Literal["on", "off", "auto"]
# rebase: follow a concurrent writer; abort: raise where the reference raises.
Conflicts = Literal["rebase", "abort"]


# What a door wants done once a command has landed.
AfterCommit = Callable[[Committed, "WriteOptions"], None]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of every command that commits."""

    deletion_vectors: VectorMode = "on"
    conflicts: Conflicts = "rebase"
    txn_app_id: str | None = None
    txn_version: int | None = None
    user_metadata: str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)  # secrets
    config: EngineConfig = DEFAULT_CONFIG
    # Whether letter case counts where a command names a column (spark.sql.caseSensitive).
    is_case_sensitive: bool = False
    # Called after a commit that changed rows; it must not raise.
    after_commit: AfterCommit | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _one_of("deletion_vectors", self.deletion_vectors, ("on", "off", "auto"))
        _one_of("conflicts", self.conflicts, ("rebase", "abort"))
        if (self.txn_app_id is None) != (self.txn_version is None):
            raise RequestError(
                "An application transaction needs both txnAppId and txnVersion, or neither.",
                error_class="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
            )

    def without_transaction(self) -> WriteOptions:
        """The same for a command that changes no row: it is not part of what an application sends."""
        return replace(self, txn_app_id=None, txn_version=None)


@dataclass(frozen=True, slots=True)
class MatchingKeys:
    """Rows of a table whose `on` columns equal those of some row of `source`."""

    source: DataFrame
    on: Sequence[str]


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Delete the rows that `condition` chooses; all rows when it is None. `alias` is a name for the table in it.

    `display_text` is what the commit records when that is not `condition` itself: the user's text, before tables in
    subqueries were replaced by views.
    """

    store: ObjectStore
    condition: str | Column | MatchingKeys | None
    alias: str | None = None
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None
    display_text: str | None = None
    # TRUNCATE is a DELETE of everything under a name of its own.
    operation: Literal["DELETE", "TRUNCATE"] = "DELETE"


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """Give columns new values in the rows that `condition` chooses; in all rows when it is None.

    `assignments` are (column, value) in the order of the request: a column as in SQL (`a`, `a.b`, "`odd name`.c"), and
    a value as SQL text or a Column over the old row. `alias` and `display_text` are as in `DeleteRequest`.
    """

    store: ObjectStore
    condition: str | Column | None
    assignments: Sequence[tuple[str, str | Column]]
    alias: str | None = None
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None
    display_text: str | None = None

    def __post_init__(self) -> None:
        if not self.assignments:
            raise RequestError("An update needs at least one column and its new value: set={'price': 'price * 2'}.")
        for name, value in self.assignments:
            if not isinstance(name, str) or not isinstance(value, str | Column):
                raise RequestError(
                    f"set has {name!r}: {value!r}. A column is named by a string, and its new value is SQL text or a "
                    "Column; for a plain value write pyspark.sql.functions.lit(...)."
                )


def _one_of(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise RequestError(f"{name}={value!r} is not known; expected one of {', '.join(choices)}.")
