"""How does a row of a scan say which file it came from, in 64 bits?

By the file's size, if the sizes were checked against the objects and no two are equal: the reader knows it for every
row, and it is already an integer. Otherwise by a hash of the file's path. Numbers are compared on the driver before
the scan, so two files can never share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import xxhash
from pyspark.sql import DataFrame

from ebbtide import spark_border as border
from ebbtide.errors import InternalError
from ebbtide.scan.files import ScanFile

__all__ = ["FileNumbers", "path_hash", "sizes_tell_files", "sizes_as_numbers", "hashes_as_numbers"]

# Spark's xxhash64() starts from this seed.
_SPARK_SEED = 42


@dataclass(frozen=True, slots=True)
class FileNumbers:
    """The number of each file, and the same number as SQL over the fresh scan of these files."""

    values: tuple[int, ...]
    text: str


def sizes_tell_files(files: Sequence[ScanFile]) -> bool:
    return all(file.size_is_checked for file in files) and len({file.add.size for file in files}) == len(files)


def sizes_as_numbers(files: Sequence[ScanFile], file_size: str) -> FileNumbers:
    """`file_size` is SQL for the size of the file that a row is in."""
    return FileNumbers(tuple(file.add.size for file in files), file_size)


def hashes_as_numbers(raw: DataFrame, files: Sequence[ScanFile], file_path: str) -> FileNumbers:
    """Hashes of the file names that rows of this scan will carry. Every file must be found.

    `file_path` is SQL for the name of the file that a row is in.
    """
    with border.spark_errors("listing the data files"):
        reader_names = {border.file_path_of(name): name for name in border.input_files(raw)}
    values = _hashes(reader_names, files)
    if len(reader_names) != len(files) or len(set(values)) != len(files):
        raise InternalError("Spark lists other data files than it was asked to read, or two names hash alike.")
    return FileNumbers(values, f"xxhash64({file_path})")


def path_hash(reader_name: str) -> int:
    """What Spark's `xxhash64(_metadata.file_path)` gives for the file of this name."""
    value = xxhash.xxh64_intdigest(reader_name.encode(), seed=_SPARK_SEED)
    return value - (1 << 64) if value >= 1 << 63 else value


def _hashes(reader_names: Mapping[str, str], files: Sequence[ScanFile]) -> tuple[int, ...]:
    try:
        return tuple(path_hash(reader_names[file.spark_path]) for file in files)
    except KeyError as error:
        raise InternalError(f"Spark does not list the data file {error} under a name we know.") from error
