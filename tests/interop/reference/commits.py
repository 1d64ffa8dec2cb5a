"""What does a commit say, apart from what two engines cannot have in common?

`shape` reads one commit of a table by hand and leaves out times, random names and the sizes of files that each engine
encodes in its own way. Two engines that did the same have the same shape.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.support.log_reading import Json, actions_of, commit_info, data_file, log_state, read_commit, stats_of

__all__ = ["differences", "shape"]

# Sizes of new files and times differ from engine to engine and from run to run.
NOT_COMPARED_METRICS = frozenset({"executionTimeMs", "scanTimeMs", "rewriteTimeMs", "numAddedBytes", "numRemovedBytes"})
NOT_COMPARED_INFO = frozenset(
    {"timestamp", "engineInfo", "txnId", "operationMetrics", "operationParameters", "inCommitTimestamp"}
)
EXPRESSION_ID = re.compile(r"#\d+L?")


def shape(table: Path, version: int) -> Json:
    """A commit as plain values. Files that were live before are known by name, new ones only by what they hold."""
    known = {path for path, _ in log_state(table, version - 1).live}
    adds, removes = actions_of(table, version, "add"), actions_of(table, version, "remove")
    info = commit_info(table, version)
    original = {path for path, _ in log_state(table, 0).live}
    return {
        "info": {name: value for name, value in info.items() if name not in NOT_COMPARED_INFO},
        "fields of info": sorted(info),
        "parameters": {name: type(value).__name__ for name, value in info["operationParameters"].items()},
        "metrics": _metrics(info, all(remove["path"] in original for remove in removes)),
        "marked": sorted((_marked(add) for add in adds if add["path"] in known), key=str),
        "removed": sorted((_removed(remove, original) for remove in removes), key=str),
        "written": _written(table, [add for add in adds if add["path"] not in known]),
        "changes": _changes(table, actions_of(table, version, "cdc")),
        "other actions": _others(table, version),
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


def _vector(action: Json) -> Json | None:
    vector = action.get("deletionVector")
    if vector is None:
        return None
    # Random names aside: where it lies in its file, how long it is, how many rows it marks.
    fields = {name: vector.get(name) for name in ("storageType", "offset", "sizeInBytes", "cardinality")}
    return fields | {"length of path": len(vector["pathOrInlineDv"])}


def _marked(add: Json) -> Json:
    return {**add, "stats": stats_of(add), "deletionVector": _vector(add)}


def _removed(remove: Json, original: set[str]) -> Json:
    stats = stats_of(remove) if "stats" in remove else None
    kept = {**remove, "stats": stats, "deletionVector": _vector(remove)}
    del kept["deletionTimestamp"]
    if remove["path"] not in original:
        # Written by an earlier DELETE of the same engine: name, size and which rows went where are its own.
        kept |= {"path": "rewritten", "size": 0, "stats": None if stats is None else sorted(stats)}
    return kept


def _written(table: Path, adds: list[Json]) -> Json:
    """New files together: how rows are divided among files is up to Spark."""
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


def _others(table: Path, version: int) -> list[str]:
    kinds = [next(iter(action)) for action in read_commit(table, version)]
    return sorted(kind for kind in kinds if kind not in ("add", "remove", "cdc"))


def _order(table: Path, version: int) -> list[str]:
    """Kinds of actions in the order of the file, runs of one kind shown once."""
    kinds = [next(iter(action)) for action in read_commit(table, version)]
    return [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind]
