"""How does a test check a table, and see in a word what was found?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ebbtide.commands.fsck.command import FsckCommand
from ebbtide.commands.fsck.request import FsckRequest
from ebbtide.commands.fsck.results import FsckResult
from ebbtide.commands.requests import WriteOptions
from ebbtide.config import EngineConfig
from ebbtide.storage import ObjectStore, open_store

__all__ = ["damage", "fsck", "repair"]


def fsck(table: Path | ObjectStore, *, repair: bool = False, **config: Any) -> FsckResult:
    store = open_store(str(table)) if isinstance(table, Path) else table
    options = WriteOptions(config=EngineConfig(**config))
    return FsckCommand(FsckRequest(store, repair, options)).run()


def damage(table: Path | ObjectStore) -> list[str]:
    """The kinds of everything that is wrong; notes are left out."""
    return [found.kind for found in fsck(table).findings if found.severity != "note"]


def repair(table: Path | ObjectStore) -> FsckResult:
    """Repair the table, and see that nothing repairable is left."""
    result = fsck(table, repair=True)
    assert not [found for found in fsck(table).findings if found.is_repairable]
    return result
