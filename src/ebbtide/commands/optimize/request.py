"""What was asked of an OPTIMIZE?

The door has put everything into the request: which partitions, which order of rows, and the settings of the session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from pyspark.sql import Column

from ebbtide.commands.optimize.packing import Partition
from ebbtide.commands.requests import WriteOptions
from ebbtide.config import GIB
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.storage import ObjectStore

__all__ = ["DEFAULT_MAX_DELETED_SHARE", "DEFAULT_TARGET_BYTES", "OptimizeRequest", "OptimizeSettings", "Purpose"]

DEFAULT_TARGET_BYTES: Final = GIB
DEFAULT_MAX_DELETED_SHARE: Final = 0.05
# optimize: small files and files with many marked rows. auto: the same after another command's commit. purge: every
# file with a marked row, or with a column that the table does not have any more.
Purpose = Literal["optimize", "auto", "purge"]


@dataclass(frozen=True, slots=True)
class OptimizeSettings:
    """How large files shall be, and how much is done at once.

    `target_bytes`: files are put together up to this size; None: what the table says, or 1 GiB. `min_bytes`: smaller
    files are put together; None: those below the target. `max_deleted_share`: a file with a larger share of marked rows
    is rewritten even if it is large, or alone. `min_group_files`: fewer small files are not worth a rewrite.
    `threads`: groups of files that are written at the same time. `checks_statistics`: refuse to order by
    a column without statistics, which no reader could profit from.
    """

    target_bytes: int | None = None
    min_bytes: int | None = None
    max_deleted_share: float = DEFAULT_MAX_DELETED_SHARE
    threads: int = 15
    checks_statistics: bool = True
    min_group_files: int = 2

    def __post_init__(self) -> None:
        if self.target_bytes is not None and self.target_bytes < 1:
            raise RequestError(f"target_size={self.target_bytes}: a file needs a size of at least one byte.")
        if self.min_bytes is not None and self.min_bytes < 0:
            raise RequestError(f"min_size={self.min_bytes}: a size cannot be negative.")
        if not 0 <= self.max_deleted_share <= 1:
            raise RequestError(f"max_deleted_share={self.max_deleted_share}: a share is a number from 0 to 1.")
        if self.min_group_files < 2:
            raise RequestError(
                f"min_small_files={self.min_group_files}: at least two files are needed to put files together."
            )
        if self.threads < 1:
            raise RequestError(f"threads={self.threads}: at least one thread is needed.")


@dataclass(frozen=True, slots=True)
class OptimizeRequest:
    """Rewrite the files of the partitions that `where` chooses (all when it is None).

    With `zorder_by` the rows are sorted so that files hold small ranges of all these columns. With `commit_per_group`
    each group of files is a commit of its own: a long run that dies keeps what it did. `full` sorts all files of a
    clustered table again, even those that were sorted before, perhaps by other columns.
    """

    store: ObjectStore
    where: str | Column | None = None
    zorder_by: tuple[str, ...] = ()
    settings: OptimizeSettings = field(default_factory=OptimizeSettings)
    commit_per_group: bool = False
    full: bool = False
    purpose: Purpose = "optimize"
    # Only these, besides what `where` says.
    partitions: frozenset[Partition] | None = None
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None
