"""Which names below the root are none of VACUUM's business?

Those that begin with `_` or `.`, at any level: the log, files that other programs work on. The exceptions are change
data, indexes, and the directories of a partition column whose name begins that way. Where another engine keeps Iceberg
metadata beside the table, its directory is hidden too. One kind of hidden file is ours to clean up: a deletion vector
that a writer had not finished when it died.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ebbtide.log import Snapshot
from ebbtide.protocol.log_names import CHANGE_DATA_DIRECTORY
from ebbtide.protocol.schema import partition_fields, physical_name

__all__ = ["HiddenNames", "hidden_names_of"]

_INDEX: Final = "_delta_index"
_ICEBERG_METADATA: Final = "metadata"
_UNFINISHED_VECTOR = re.compile(r"\.deletion_vector_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin\.[0-9a-f]{32}\.tmp")


@dataclass(frozen=True, slots=True)
class HiddenNames:
    shown_prefixes: tuple[str, ...]
    has_iceberg_metadata: bool = False

    def hides(self, name: str) -> bool:
        """Whether a file or directory of this name, and everything in it, is left alone."""
        if name[:1] not in {"_", "."}:
            return self.has_iceberg_metadata and name == _ICEBERG_METADATA
        return not name.startswith(self.shown_prefixes) and _UNFINISHED_VECTOR.fullmatch(name) is None

    def hides_directory(self, path: str) -> bool:
        """Whether any level of the path is hidden; "" is the root."""
        return any(self.hides(name) for name in path.split("/") if name)


def hidden_names_of(snapshot: Snapshot) -> HiddenNames:
    columns = snapshot.metadata.partition_columns
    fields = partition_fields(snapshot.schema, columns)
    # Directories carry the name that a column has in files, which a renamed column keeps.
    names = {*columns, *(physical_name(column) for column in fields)}
    prefixes = (CHANGE_DATA_DIRECTORY, _INDEX, *sorted(f"{name}=" for name in names))
    return HiddenNames(prefixes, "iceberg" in snapshot.properties.universal_formats)
