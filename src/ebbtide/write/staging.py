"""Where does Spark write, and where do the files end up?

Spark gets a fresh directory below the table's root: two jobs in one directory would delete each other's temporary
files. The directory's name is not hidden, so that any VACUUM finds what a crash leaves in it.

    local disk      the finished files are moved out, synced, to the places that other engines would choose:
                    [partition directories/]part-<number>-<uuid>.c000.snappy.parquet, change data below _change_data/
    object stores   a move would be a copy, so files stay where they are: the log may name any path below the root.
                    That includes change data, which readers find by the path in its action.

Nothing here touches a file outside the directory, whatever happens.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import string
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from ebbtide.errors import StorageError
from ebbtide.protocol.partition_values import partition_directory
from ebbtide.storage import ObjectMeta, ObjectStore
from ebbtide.storage.adoption import local_directory
from ebbtide.write.target import WriteTarget

__all__ = ["StagedFile", "Staging", "open_staging"]

logger = logging.getLogger(__name__)

_CHANGE_DATA = "_change_data"
# What Spark calls a finished file: task number, job, number of the file in its task, codec.
_SPARK_NAME = re.compile(
    r"part-(?P<task>[0-9]+)-[0-9a-f-]+[.-]c(?P<number>[0-9]+)(?P<suffix>(?:\.\w+)*\.parquet)", re.ASCII
)
_MAX_NAME_BYTES = 255
_PREFIX_CHARACTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file of our directory; `label` is the helper column's value, "" where there is no helper column."""

    meta: ObjectMeta
    label: str


@dataclass(frozen=True, slots=True)
class Staging:
    store: ObjectStore
    directory: str

    @property
    def spark_path(self) -> str:
        return f"{self.store.spark_path.rstrip('/')}/{self.directory}"

    def files(self, label_name: str | None) -> list[StagedFile]:
        """The files that Spark finished, without what its committer left behind, in the order of its tasks."""
        found = []
        for meta in self.store.list(self.directory):
            folder, _, name = meta.path[len(self.directory) + 1 :].rpartition("/")
            label = folder.removeprefix(f"{label_name}=") if label_name else ""
            expected = f"{label_name}={label}" if label_name else ""
            matched = _SPARK_NAME.fullmatch(name)
            if matched and folder == expected and "/" not in label:
                found.append((int(matched["task"]), int(matched["number"]), StagedFile(meta, label)))
        return [file for _, _, file in sorted(found, key=lambda item: item[:2])]

    def publish(self, target: WriteTarget, files: Sequence[tuple[StagedFile, bool, Sequence[str | None]]]) -> list[str]:
        """Move (file, is change data, partition texts) to their final places, durably. Returns the paths, in order.

        Everything else in the directory is deleted.
        """
        local = local_directory(self.store)
        if local is None:
            paths = [file.meta.path for file, _, _ in files]
            self._delete(keep=frozenset(paths))
            return paths
        paths = [
            _final_path(target, file, is_change, texts, number) for number, (file, is_change, texts) in enumerate(files)
        ]
        local.adopt({file.meta.path: path for (file, _, _), path in zip(files, paths, strict=True)})
        local.remove_tree(self.directory)
        return paths

    def discard(self) -> None:
        """Delete the directory, as far as that is possible."""
        local = local_directory(self.store)
        if local is not None:
            local.remove_tree(self.directory)
        else:
            self._delete(keep=frozenset())

    def _delete(self, *, keep: frozenset[str]) -> None:
        try:
            for meta in self.store.list(self.directory):
                if meta.path not in keep:
                    self.store.delete(meta.path)
        except StorageError as error:
            logger.warning("Some files below %s/%s could not be deleted: %s", self.store.url, self.directory, error)


@contextmanager
def open_staging(store: ObjectStore) -> Iterator[Staging]:
    """A directory for one write. When the block fails the directory is deleted; no commit can have named its files."""
    staging = Staging(store, f"{uuid4().hex}-ebbtide")
    local = local_directory(store)
    if local is not None:
        local.create()
    try:
        yield staging
    except BaseException:
        with contextlib.suppress(StorageError):
            staging.discard()
        raise


def _final_path(
    target: WriteTarget, file: StagedFile, is_change: bool, texts: Sequence[str | None], number: int
) -> str:
    match = _SPARK_NAME.fullmatch(file.meta.path.rpartition("/")[2])
    suffix = match["suffix"] if match else ".parquet"
    kind = "cdc" if is_change else "part"
    name = f"{kind}-{number:05d}-{uuid4()}.c000{suffix}"
    folders = [_CHANGE_DATA] if is_change else []
    return "/".join([*folders, *_partition_folders(target, texts), name])


def _partition_folders(target: WriteTarget, texts: Sequence[str | None]) -> list[str]:
    if target.properties.randomize_file_prefixes:
        return ["".join(random.choices(_PREFIX_CHARACTERS, k=target.properties.random_prefix_length))]
    if not texts:
        return []
    folders = partition_directory(list(zip(target.physical_partition_names, texts, strict=True))).split("/")
    # A value too long for a directory name is still in the log, which is where readers look for it.
    return folders if all(len(folder.encode()) <= _MAX_NAME_BYTES for folder in folders) else []
