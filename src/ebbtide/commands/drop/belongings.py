"""What lies below the root of a table, and is all of it the table's?

A file is the table's if it is in its log, if a version names it, or if its name is one that writers of Delta tables
give: then it may also be what a writer that failed left behind. Anything else is somebody else's: another table, a
symbolic link, a file of another kind. Links are never followed (`storage.unlinked`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ebbtide.commands.vacuum.spool import PathSpool
from ebbtide.protocol.log_names import CHANGE_DATA_DIRECTORY, LOG_DIRECTORY
from ebbtide.storage import ObjectMeta, ObjectStore, is_local
from ebbtide.storage.unlinked import FoundDirectory, FoundLink, walk

__all__ = ["Belongings", "survey_belongings"]

_BATCH: Final = 1024
_LOG: Final = f"{LOG_DIRECTORY}/"
_OWN_DIRECTORIES: Final = (f"{CHANGE_DATA_DIRECTORY}/", "_delta_index/", "_symlink_format_manifest/")
_OWN_NAME: Final = re.compile(
    r".*\.parquet"
    r"|deletion_vector_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin"
    # What Hadoop and Ebbtide keep beside a file, and what Spark leaves in a directory that it wrote.
    r"|\..+\.crc|\..+\.[0-9a-f]{32}\.tmp|_SUCCESS|_metadata|_common_metadata|.+_\$folder\$",
    re.DOTALL,
)


@dataclass(slots=True)
class Belongings:
    """`files` are the data files, `log` those of the log; `odd` are files that only a version can vouch for."""

    files: PathSpool = field(default_factory=PathSpool)
    log: PathSpool = field(default_factory=PathSpool)
    odd: dict[str, int] = field(default_factory=dict)
    other_tables: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    # Those with something that is neither a file nor a link in them, or that has a name that is no text.
    obscure: list[str] = field(default_factory=list)
    # The deepest first.
    directories: list[str] = field(default_factory=list)

    def claim(self, names: Collection[str]) -> None:
        """The odd files among `names` are the table's after all."""
        claimed = [path for path in self.odd if path in names]
        self.files.extend((path, self.odd.pop(path)) for path in claimed)

    def strangers(self) -> list[str]:
        """What is not the table's."""
        return [
            *(f"{path}/ (another table)" for path in sorted(self.other_tables)),
            *(f"{path} (a symbolic link)" for path in sorted(self.links)),
            *(f"{path or '.'}/ (holds something that is no file)" for path in sorted(self.obscure)),
            *sorted(self.odd),
        ]


def survey_belongings(store: ObjectStore) -> Belongings:
    """Everything below the root, looked at by name alone."""
    found = Belongings()
    objects = _walk(store, found) if is_local(store) else store.list("", in_order=False)
    while batch := list(islice(objects, _BATCH)):
        _sort(batch, found)
    found.directories.sort(key=lambda path: (-path.count("/"), path))
    return found


def _walk(store: ObjectStore, found: Belongings) -> Iterator[ObjectMeta]:
    """The files of a local directory; everything else in it is noted."""
    num_files: dict[str, int] = {}

    def enters(path: str, beside: frozenset[str]) -> bool:
        above = path.rpartition("/")[0]
        if above and not path.startswith(_LOG) and LOG_DIRECTORY in beside:
            found.other_tables.add(above)
        return True

    for entry in walk(store, enters):
        if isinstance(entry, FoundDirectory):
            if num_files.pop(entry.path, 0) != entry.num_files:
                found.obscure.append(entry.path)
            found.directories += [entry.path] if entry.path else []
            continue
        directory = entry.path.rpartition("/")[0]
        num_files[directory] = num_files.get(directory, 0) + 1
        if isinstance(entry, FoundLink):
            found.links.append(entry.path)
        else:
            yield entry


def _sort(batch: list[ObjectMeta], found: Belongings) -> None:
    own, log = [], []
    for meta in batch:
        above, is_log, _ = f"/{meta.path}".partition(f"/{_LOG}")
        if is_log and above:
            found.other_tables.add(above.removeprefix("/"))
        elif is_log:
            log.append((meta.path, meta.size))
        elif meta.path.startswith(_OWN_DIRECTORIES) or _OWN_NAME.fullmatch(meta.path.rpartition("/")[2]):
            own.append((meta.path, meta.size))
        else:
            found.odd[meta.path] = meta.size
    found.files.extend(own)
    found.log.extend(log)
