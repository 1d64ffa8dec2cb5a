"""Does the log describe each file once, with partition values that mean something?

These questions need the log's entries and names alone; no file is opened. A path that is live twice makes the table
unreadable, so its snapshot is loaded in a way that only a repair may use (`load_snapshot(allow_repeats=True)`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.commands.fsck import findings
from ebbtide.commands.fsck.findings import Finding
from ebbtide.errors import CorruptTableError
from ebbtide.log import Snapshot, add_files
from ebbtide.log.identity import canonical_column, file_keys
from ebbtide.log.table_state import scan_log_files
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.features import column_mapping_mode, deletion_vectors_readable
from ebbtide.protocol.partition_values import to_arrow
from ebbtide.protocol.schema import StructField, partition_fields, physical_name
from ebbtide.storage.links import linked_paths, relative_through_links
from ebbtide.transaction.file_changes import live_files_at

__all__ = ["check_entries"]

# A canonical path holds this exactly when it is absolute.
_ABSOLUTE: Final = "://"


def check_entries(snapshot: Snapshot) -> Iterator[Finding]:
    yield from _find_files_live_twice(snapshot)
    yield from _find_objects_live_twice(snapshot)
    yield from _find_bad_partition_values(snapshot)
    vectors = snapshot.files.column("deletion_vector")
    has_vectors = vectors.null_count < len(vectors)
    if has_vectors and not deletion_vectors_readable(snapshot.protocol, snapshot.metadata):
        yield findings.vectors_without_feature(snapshot.version)


# --- files that are live twice ----------------------------------------------------------------------------------------


def _find_files_live_twice(snapshot: Snapshot) -> Iterator[Finding]:
    """One finding for each entry that is to go; the newest of each path stays."""
    paths = pa.chunked_array([part.canonical for part in snapshot.live.slices], pa.string())
    counts = pc.value_counts(paths)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist()
    if not repeated:
        return
    found = live_files_at(snapshot, set(repeated))
    added_in = _versions_of_adds(snapshot)
    entries: dict[str, list[tuple[tuple[int, int, int], AddFile]]] = defaultdict(list)
    for position, (path, key, add) in enumerate(zip(found.paths, found.keys, add_files(found.files), strict=True)):
        # What only a checkpoint knows is older than every commit after it. Two of those: no deleted row comes back.
        age = (added_in.get(key, -1), add.num_marked_rows, position)
        entries[path].append((age, add))
    for path, of_path in sorted(entries.items()):
        newest = max(of_path, key=lambda entry: entry[0])
        yield from (findings.live_twice(path, snapshot.version, entry[1]) for entry in of_path if entry is not newest)


def _versions_of_adds(snapshot: Snapshot) -> dict[str, int]:
    """The version of the newest add of each (path, vector), as far as the commits after the checkpoint tell."""
    adds, _ = scan_log_files(snapshot.store, snapshot.segment.log_files, snapshot.config).file_actions()
    keys = [
        key
        for batch in adds.batches
        for key in file_keys(
            canonical_column(batch.column("path"), snapshot.store.url), batch.column("deletion_vector")
        ).to_pylist()
    ]
    return dict(zip(keys, adds.versions, strict=True))


def _find_objects_live_twice(snapshot: Snapshot) -> Iterator[Finding]:
    """Two paths that lead to one object through a link. Only a local disk has links."""
    store = snapshot.store
    targets: dict[str, list[str]] = defaultdict(list)
    for part in snapshot.live.slices:
        paths = part.canonical.to_pylist()
        for path, target in linked_paths(store, (path for path in paths if _ABSOLUTE not in path)):
            targets[target].append(path)
        for path in paths:
            # The table may be known by another name, too.
            inside = relative_through_links(store, path) if _ABSOLUTE in path else None
            if inside is not None:
                targets[inside].append(path)
    if not targets:
        return
    concerned = {*targets, *(path for paths in targets.values() for path in paths)}
    found = live_files_at(snapshot, concerned)
    by_path = dict(zip(found.paths, add_files(found.files), strict=True))
    order = {path: position for position, path in enumerate(found.paths)}
    for target, links in sorted(targets.items()):
        same = sorted({*links, target} & by_path.keys(), key=order.__getitem__)
        for older in same[:-1]:
            yield findings.same_object_twice(older, same[-1], snapshot.version, by_path[older])


# --- partition values -------------------------------------------------------------------------------------------------


def _find_bad_partition_values(snapshot: Snapshot) -> Iterator[Finding]:
    fields = partition_fields(snapshot.schema, snapshot.metadata.partition_columns)
    is_mapped = column_mapping_mode(snapshot.protocol, snapshot.metadata) != "none"
    for part in snapshot.live.slices:
        for field in fields:
            name = physical_name(field) if is_mapped else field.name
            values = part.rows.column("partition_values")
            yield from _find_unnamed_values(snapshot, part.rows, values, name)
            texts = pc.map_lookup(values, name, "first")
            if not _is_sound(texts, field):
                yield from _unparsable(snapshot, part.rows, texts, field)


def _find_unnamed_values(snapshot: Snapshot, rows: pa.RecordBatch, values: pa.MapArray, name: str) -> Iterator[Finding]:
    entries = pc.list_value_length(pc.map_lookup(values, name, "all"))
    is_odd = pc.fill_null(pc.not_equal(entries, 1), True)
    if not pc.any(is_odd).as_py():
        return
    for path in rows.column("path").filter(is_odd).to_pylist():
        problem = f"the column '{name}' is not named exactly once"
        yield findings.bad_partition_value(unquote(path), snapshot.version, problem)


def _is_sound(texts: pa.StringArray, field: StructField) -> bool:
    try:
        to_arrow(texts, field.type, column=field.name)
    except CorruptTableError:
        return False
    return True


def _unparsable(
    snapshot: Snapshot, rows: pa.RecordBatch, texts: pa.StringArray, field: StructField
) -> Iterator[Finding]:
    # Each distinct text is tried once.
    problems: dict[str | None, CorruptTableError | None] = {}
    for path, text in zip(rows.column("path").to_pylist(), texts.to_pylist(), strict=True):
        if text not in problems:
            problems[text] = _problem(text, field)
        problem = problems[text]
        if problem is not None:
            yield findings.bad_partition_value(unquote(path), snapshot.version, problem)


def _problem(text: str | None, field: StructField) -> CorruptTableError | None:
    try:
        to_arrow(pa.array([text], pa.string()), field.type, column=field.name)
    except CorruptTableError as error:
        return error
    return None
