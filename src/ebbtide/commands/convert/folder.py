"""Which files of a folder are data, and which partition does each lie in?

Names that begin with `_` or `.` are hidden, as for Spark; so are directories, unless they name a partition (`_p=1`).
Everything else must be Parquet. A file's partition values are in the names of its directories, `p=a%2Fb`, escaped as
Hive escapes them; `__HIVE_DEFAULT_PARTITION__` is null. The values stay text: the log keeps them as text too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ebbtide.errors import CorruptTableError, RequestError, UnsupportedFeatureError
from ebbtide.protocol.partition_values import HIVE_DEFAULT_PARTITION, parse_partition_value
from ebbtide.protocol.schema import StructField
from ebbtide.storage import ObjectMeta, ObjectStore

__all__ = ["FolderFile", "list_folder"]

_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
# Hadoop escapes these in a name and then takes what stands before a colon for the scheme of a URL.
_GLOB_SIGNS: Final = frozenset("{}[]*?\\")
_LOG: Final = "_delta_log"
_STREAM_LOG: Final = "_spark_metadata"


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A data file and the values of its partition columns, in the order of the columns."""

    meta: ObjectMeta
    values: tuple[str | None, ...]


def list_folder(store: ObjectStore, partition_fields: Sequence[StructField], *, is_exact: bool) -> list[FolderFile]:
    """The data files below the store's root. `is_exact`: letter case counts in the names of partition columns."""
    files = []
    for meta in _data_files(store):
        _check_can_be_opened(meta.path)
        found = _partition_values(meta.path)
        _check_columns(meta.path, [name for name, _ in found], partition_fields, is_exact=is_exact)
        for (_, text), field in zip(found, partition_fields, strict=True):
            _check_value(meta.path, text, field)
        files.append(FolderFile(meta, tuple(text for _, text in found)))
    if not files:
        raise RequestError(
            f"There is no data file in {store.url}, so there is nothing to convert. Check the path; an empty table is "
            "made by CREATE TABLE.",
            error_class="DELTA_EMPTY_DIRECTORY",
        )
    return files


def _data_files(store: ObjectStore) -> Iterator[ObjectMeta]:
    for meta in store.list(""):
        *directories, name = meta.path.split("/")
        if directories and directories[0] == _STREAM_LOG:
            raise UnsupportedFeatureError(
                f"The folder {store.url} was written by a stream: {_STREAM_LOG} says which of its files count, and "
                "CONVERT does not read it. Read the folder with Spark and write the rows with ebbtide.write.",
                error_class="",
            )
        if _LOG in directories:
            raise RequestError(
                f"There is a Delta table inside the folder {store.url}, at '{meta.path.partition(_LOG)[0]}'; its files "
                "cannot belong to two tables. Move it, or convert a folder without it."
            )
        if not _is_hidden_file(name) and not any(_is_hidden_directory(directory) for directory in directories):
            yield meta


def _is_hidden_file(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


def _is_hidden_directory(name: str) -> bool:
    return name.startswith(("_", ".")) and "=" not in name


def _check_can_be_opened(path: str) -> None:
    """Nothing becomes part of a table that Spark could not open again."""
    name = next((part for part in path.split("/") if ":" in part and not _GLOB_SIGNS.isdisjoint(part)), None)
    if name is not None:
        raise RequestError(
            f"Spark cannot open files below the name '{name}' ('{path}'): it has a colon beside one of "
            f"{' '.join(sorted(_GLOB_SIGNS))}. Rename it; in the directory of a partition, write the colon as %3A."
        )


def _partition_values(path: str) -> list[tuple[str, str | None]]:
    """Names and texts in the directories of a file. Directories below them, and above them, may have plain names."""
    found: list[tuple[str, str | None]] = []
    for directory in reversed(path.split("/")[:-1]):
        name, equals, text = directory.partition("=")
        if not equals or not name:
            if found:
                break
            continue
        if not text:
            raise RequestError(
                f"The directory '{directory}' of the file '{path}' has no partition value. A null is written as "
                f"{name}={HIVE_DEFAULT_PARTITION}."
            )
        found.append((_unescape(name), None if text == HIVE_DEFAULT_PARTITION else _unescape(text)))
    return found[::-1]


def _unescape(text: str) -> str:
    """Hive escapes single characters, not the bytes of UTF-8; what is no escape stays as it is."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def _check_columns(path: str, names: list[str], fields: Sequence[StructField], *, is_exact: bool) -> None:
    wanted = [field.name for field in fields]
    if len(names) != len(wanted):
        raise RequestError(
            f"The file '{path}' lies in directories for {len(names)} partition columns [{', '.join(names)}], but "
            f"{len(wanted)} are given [{', '.join(wanted)}]. Name them all with their types: PARTITIONED BY "
            f"({', '.join(f'{name} STRING' for name in names) or '...'}).",
            error_class="DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
        )
    for name, expected in zip(names, wanted, strict=True):
        if name != expected if is_exact else name.lower() != expected.lower():
            raise RequestError(
                f"The file '{path}' lies in a directory for the partition column '{name}', where '{expected}' was "
                "expected. Give the partition columns in the order of the directories.",
                error_class="DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME",
            )


def _check_value(path: str, text: str | None, field: StructField) -> None:
    try:
        parse_partition_value(text, field.type, column=field.name)
    except CorruptTableError as error:
        raise RequestError(
            f"The partition value '{text}' of the file '{path}' is not of the type of the column '{field.name}', "
            f"{field.type.to_json()}. Give the column another type, such as STRING.",
            error_class="DELTA_FAILED_CAST_PARTITION_VALUE",
        ) from error
