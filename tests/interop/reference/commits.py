"""What does a commit say, apart from what two engines cannot have in common?

`shape` reads one commit of a table by hand and leaves out times, random names and the sizes of files that each engine
encodes in its own way. Two engines that did the same have the same shape. Left out as well is what we know to differ and
can stand by (docs/decisions/005): each such place says so here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.support.log_reading import (
    Json,
    actions_of,
    commit_info,
    data_file,
    log_state,
    read_commit,
    stats_of,
)

__all__ = ["differences", "shape"]

# Sizes of new files and times differ from engine to engine and from run to run.
NOT_COMPARED_METRICS = frozenset({"executionTimeMs", "scanTimeMs", "rewriteTimeMs", "numAddedBytes", "numRemovedBytes"})
NOT_COMPARED_INFO = frozenset(
    {"timestamp", "engineInfo", "txnId", "operationMetrics", "operationParameters", "inCommitTimestamp"}
)


def shape(table: Path, version: int) -> Json:
    """A commit as plain values. Files that were live before are known by name, new ones only by what they hold."""
    known = {path for path, _ in log_state(table, version - 1).live}
    first = {path: add for (path, _), add in log_state(table, 0).live.items()}
    adds, removes = actions_of(table, version, "add"), actions_of(table, version, "remove")
    marked = [add for add in adds if add["path"] in known]
    written = [add for add in adds if add["path"] not in known]
    info = commit_info(table, version)
    is_rewrite = bool(written) or log_state(table).configuration.get("delta.enableDeletionVectors") != "true"
    return {
        "info": {name: value for name, value in info.items() if name not in NOT_COMPARED_INFO},
        "fields of info": sorted(info),
        "parameters": {name: type(value).__name__ for name, value in info["operationParameters"].items()},
        "metrics": _metrics(info, all(remove["path"] in first for remove in removes)),
        "marked": sorted((_marked(add, first) for add in marked), key=str),
        "removed": sorted((_removed(remove, first, is_rewrite=is_rewrite) for remove in removes), key=str),
        "written": _written(table, written),
        "changes": _changes(table, actions_of(table, version, "cdc")),
        "order": _order(table, version),
    }


def differences(ours: Json, theirs: Json) -> dict[str, tuple[Any, Any]]:
    """What is not the same in two shapes: name of the part, our value, theirs."""
    found = {}
    for name, value in ours.items():
        if isinstance(value, dict):
            keys = value.keys() | theirs[name].keys()
            found |= {
                f"{name}.{key}": (value.get(key), theirs[name].get(key))
                for key in sorted(keys)
                if value.get(key) != theirs[name].get(key)
            }
        elif value != theirs[name]:
            found[name] = (value, theirs[name])
    return found


def _metrics(info: Json, removed_are_original: bool) -> Json:
    metrics = {name: int(value) for name, value in info["operationMetrics"].items()}
    compared = {name: value for name, value in metrics.items() if name not in NOT_COMPARED_METRICS}
    if removed_are_original and "numRemovedBytes" in metrics:
        compared["numRemovedBytes"] = metrics["numRemovedBytes"]
    return compared | {f"has {name}": name in metrics for name in NOT_COMPARED_METRICS}


def _is_counted(path: str, first: dict[str, Json]) -> bool:
    return path not in first or "numRecords" in stats_of(first[path])


def _vector(action: Json) -> Json | None:
    """Without its name, and without its place and size: both engines put the vectors of a commit into one file, but in
    an order of their own, and the reference does not look for runs in a vector that it adds rows to.
    """
    vector = action.get("deletionVector")
    if vector is None:
        return None
    fields = {name: vector.get(name) for name in ("storageType", "cardinality")}
    return fields | {"length of path": len(vector["pathOrInlineDv"]), "has offset": "offset" in vector}


def _marked(add: Json, first: dict[str, Json]) -> Json:
    stats = stats_of(add)
    if not _is_counted(add["path"], first):
        # Where the log did not count a file, the reference takes bounds from its footer as well; we take the count.
        stats = {name: stats[name] for name in ("numRecords", "tightBounds")}
    if add["path"] in first:
        return {**add, "stats": stats, "deletionVector": _vector(add)}
    # Written by an earlier DELETE of the same engine: name, size and time are its own.
    stats["nullCount"] = {name: value for name, value in stats["nullCount"].items() if isinstance(value, int)}
    return {"stats": stats, "deletionVector": _vector(add), "partitionValues": add["partitionValues"]}


def _removed(remove: Json, first: dict[str, Json], *, is_rewrite: bool) -> Json:
    # The reference leaves null partition values out of a remove, and row counts too where it rewrites files.
    values = {name: value for name, value in remove["partitionValues"].items() if value is not None}
    kept = {**remove, "partitionValues": values, "deletionVector": _vector(remove)}
    del kept["deletionTimestamp"]
    if remove["path"] not in first:
        # Written by an earlier DELETE of the same engine: its name and size are its own.
        kept |= {"path": "rewritten", "size": 0}
    stats = kept.pop("stats", None)
    if not is_rewrite and remove["path"] in first and _is_counted(remove["path"], first):
        kept["stats"] = stats
    return kept


def _written(table: Path, adds: list[Json]) -> Json:
    """New files together: how rows are divided among files is up to Spark. Null counts of arrays are not ours to tell."""
    nulls: Counter[str] = Counter()
    bounds: dict[str, set[str]] = {"minValues": set(), "maxValues": set()}
    for add in adds:
        stats = stats_of(add)
        nulls.update({name: value for name, value in stats["nullCount"].items() if isinstance(value, int)})
        for kind, names in bounds.items():
            names.update(stats[kind])
    return {
        "rows": sum(stats_of(add)["numRecords"] for add in adds),
        "rows in footers": sum(pq.read_metadata(data_file(table, add)).num_rows for add in adds),
        "partitions": sorted({str(add["partitionValues"]) for add in adds}),
        "fields": sorted({field for add in adds for field in add}),
        "fields of statistics": sorted({field for add in adds for field in stats_of(add)}),
        "tight": sorted({str(stats_of(add).get("tightBounds")) for add in adds}),
        "nulls": dict(sorted(nulls.items())),
        "bounds": {kind: sorted(names) for kind, names in bounds.items()},
        "tags": sorted({str(add.get("tags")) for add in adds}),
    }


def _changes(table: Path, changes: list[Json]) -> Json:
    files = [pq.ParquetFile(data_file(table, change)).read(["_change_type"]) for change in changes]
    types = sorted(each for file in files for each in file["_change_type"].to_pylist())
    return {"types": types, "fields": sorted({field for change in changes for field in change})}


def _order(table: Path, version: int) -> list[str]:
    """Kinds of actions in the order of the file, runs of one kind shown once."""
    kinds = [next(iter(action)) for action in read_commit(table, version)]
    return [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind]
