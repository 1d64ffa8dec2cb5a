"""What happens after a commit has landed?

A version checksum is written, a checkpoint when one is due, and after a new checkpoint the expired part of the log is
deleted. Where the table's properties ask for it, the manifests of the partitions that changed are written. The commit
has landed whatever happens here, so a failed step is logged and never raised: the caller would take it for a failed
commit and do the work twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from ebbtide.config import EngineConfig
from ebbtide.errors import DeltaError
from ebbtide.log.checkpoint_writer import is_checkpoint_due, write_checkpoint
from ebbtide.log.checksum import write_checksum
from ebbtide.log.cleanup import clean_up_log
from ebbtide.log.manifests import manifests_of, write_manifests
from ebbtide.log.snapshot import Snapshot
from ebbtide.protocol.actions import Action, AddFile, Metadata, RemoveFile

__all__ = ["FAILURES", "run_post_commit"]

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

_FINE = "the table is fine without it"
_STALE = "readers of manifests see an older version until GENERATE symlink_format_manifest has run"

# Whatever a table, a store or our own mistake can raise; an interrupt still ends the program.
FAILURES = (
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


def run_post_commit(snapshot: Snapshot, *, config: EngineConfig, actions: Sequence[Action] = ()) -> None:
    """Do what is due after the commit of `actions` that made this snapshot. Never raises for a failure of its own."""
    if snapshot.properties.symlink_format_manifest:
        _run_step("symlink manifests", snapshot, lambda: _update_manifests(snapshot, actions), _STALE)
    _run_step("version checksum", snapshot, lambda: write_checksum(snapshot, config=config))
    if _run_step("checkpoint", snapshot, lambda: _write_due_checkpoint(snapshot)):
        deleted = _run_step("log cleanup", snapshot, lambda: clean_up_log(snapshot, config=config))
        if deleted:
            logger.info("deleted %d expired log files of %s", len(deleted), snapshot.store.url)


def _write_due_checkpoint(snapshot: Snapshot) -> bool:
    """Whether a checkpoint was due and is new."""
    return is_checkpoint_due(snapshot) and write_checkpoint(snapshot).is_new


def _update_manifests(snapshot: Snapshot, actions: Sequence[Action]) -> None:
    """Those of the changed partitions; all, if the table itself changed, or a remove does not say where it was."""
    files = [action for action in actions if isinstance(action, AddFile | RemoveFile)]
    is_partial = not any(isinstance(action, Metadata) for action in actions)
    changed = [file.partition_values for file in files if file.partition_values is not None]
    if is_partial and not files:
        return
    only = changed if is_partial and len(changed) == len(files) else None
    write_manifests(snapshot, manifests_of(snapshot, only))


def _run_step(step: str, snapshot: Snapshot, run: Callable[[], _T], meaning: str = _FINE) -> _T | None:
    try:
        return run()
    except FAILURES:
        logger.warning(
            "version %d of %s was committed, but its %s failed; %s",
            snapshot.version,
            snapshot.store.url,
            step,
            meaning,
            exc_info=True,
        )
        return None
