"""What happens after a commit has landed?

A version checksum is written, a checkpoint when one is due, and after a new checkpoint the expired part of the log is
deleted. All of it only makes the table faster to read. The commit has landed whatever happens here, so a failed step is
logged and never raised: the caller would take it for a failed commit and do the work twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from ebbtide.config import EngineConfig
from ebbtide.errors import DeltaError
from ebbtide.log.checkpoint_writer import is_checkpoint_due, write_checkpoint
from ebbtide.log.checksum import write_checksum
from ebbtide.log.cleanup import clean_up_log
from ebbtide.log.snapshot import Snapshot

__all__ = ["run_post_commit"]

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

# Whatever a table, a store or our own mistake can raise; an interrupt still ends the program.
_Failure = (
    DeltaError,
    pa.ArrowException,
    OSError,
    MemoryError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    AssertionError,
)


def run_post_commit(snapshot: Snapshot, *, config: EngineConfig) -> None:
    """Do what is due after the commit that made this snapshot. Never raises for a failure of its own."""
    _run_step("version checksum", snapshot, lambda: write_checksum(snapshot, config=config))
    if _run_step("checkpoint", snapshot, lambda: _write_due_checkpoint(snapshot)):
        deleted = _run_step("log cleanup", snapshot, lambda: clean_up_log(snapshot, config=config))
        if deleted:
            logger.info("deleted %d expired log files of %s", len(deleted), snapshot.store.url)


def _write_due_checkpoint(snapshot: Snapshot) -> bool:
    """Whether a checkpoint was due and is new."""
    return is_checkpoint_due(snapshot) and write_checkpoint(snapshot).is_new


def _run_step(step: str, snapshot: Snapshot, run: Callable[[], _T]) -> _T | None:
    try:
        return run()
    except _Failure:
        logger.warning(
            "version %d of %s was committed, but its %s failed; the table is fine without it",
            snapshot.version,
            snapshot.store.url,
            step,
            exc_info=True,
        )
        return None
