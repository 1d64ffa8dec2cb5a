"""How does the log name the data files of a folder?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ebbtide.commands.convert.folder import FolderFile
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.paths import encode_path
from ebbtide.storage.prefetch import prefetch
from ebbtide.write import WriteTarget
from ebbtide.write.footers import read_footer
from ebbtide.write.foreign_footers import foreign_statistics

__all__ = ["converted_files"]

# Reading footers is mostly waiting.
_FOOTERS_AT_ONCE = 16


def converted_files(
    target: WriteTarget, files: Sequence[FolderFile], *, collects_statistics: bool
) -> tuple[AddFile, ...]:
    """The files as parts of the table, with row counts and statistics from their footers."""
    names = target.physical_partition_names
    texts = (
        prefetch(partial(_statistics, target), files, ahead=_FOOTERS_AT_ONCE)
        if collects_statistics
        else (None for _ in files)
    )
    return tuple(
        AddFile(
            path=encode_path(file.meta.path),
            partition_values=dict(zip(names, file.values, strict=True)),
            size=file.meta.size,
            modification_time=file.meta.last_modified_ms,
            data_change=True,
            stats=stats,
        )
        for file, stats in zip(files, texts, strict=True)
    )


def _statistics(target: WriteTarget, file: FolderFile) -> str:
    return foreign_statistics(read_footer(target.store, file.meta), target).to_json()
