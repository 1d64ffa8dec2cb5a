"""When do two actions mean the same logical file?

A logical file is the pair (path, deletion-vector id). Paths may be spelled in several ways, so they are compared in the
canonical form of `ebbtide.protocol.paths`; the id is text as the protocol defines it. Both work on whole columns.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.log.file_tables import deletion_vector_ids
from ebbtide.protocol.paths import canonical_path, canonical_paths

__all__ = ["canonical_column", "file_keys", "path_of_key"]

# A file name that is its own canonical form in every kind of path.
_PLAIN_NAME = r"(?s)^(?P<directory>.*/)(?P<name>[A-Za-z0-9_][A-Za-z0-9_.=+,@-]*)$"


def canonical_column(paths: pa.StringArray, table_url: str) -> pa.StringArray:
    """`canonical_path` of every path. Nearly all escapes are in directories, and there are few of those."""
    if not pc.any(pc.match_substring_regex(paths, "[%:]")).as_py():
        return canonical_paths(paths, table_url)
    parts = pc.extract_regex(paths, _PLAIN_NAME)
    if parts.null_count:
        return canonical_paths(paths, table_url)
    directories, names = parts.flatten()
    encoded = directories.dictionary_encode()
    # Without a name behind it, the directory itself would be taken for the file.
    canonical = [canonical_path(directory + "x", table_url)[:-1] for directory in encoded.dictionary.to_pylist()]
    return pc.binary_join_element_wise(pa.array(canonical, pa.string()).take(encoded.indices), names, "")


def file_keys(canonical: pa.StringArray, vectors: pa.StructArray) -> pa.StringArray:
    """One text per (path, vector id). A canonical path holds no NUL, so no two pairs share a text."""
    if vectors.null_count == len(vectors):
        return canonical
    with_vector = pc.binary_join_element_wise(canonical, deletion_vector_ids(vectors), "\x00")
    return pc.coalesce(with_vector, canonical)


def path_of_key(key: str) -> str:
    return key.partition("\x00")[0]
