"""Do other engines see the rows that Ebbtide sees, in every table that Ebbtide wrote below a directory?

`assert_peers_agree` asks every engine of `tests/support/peers.py` for the newest version of each such table and compares it
with what our own log, vectors and partition values say (`tests/support/table_rows.py`; no JVM). A table counts as ours when its
newest commit is; a test that then damages its table says so with a mark. An engine may refuse or err only where `FAULTS` of
`peers.py` says so.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from tests.support.comparison import difference
from tests.support.peers import FAULTS, PEERS, Asked, Peer
from tests.support.table_rows import rows_of, snapshot_of

__all__ = ["assert_peers_agree", "our_tables"]

ENGINE = "Ebbtide/"


def assert_peers_agree(directory: Path) -> int:
    """Fail if an engine sees other rows in a table below `directory`; the number of tables that were compared."""
    tables = list(our_tables(directory))
    objections = [objection for path in tables for objection in _objections(path)]
    assert not objections, "\n".join(objections)
    return len(tables)


def _objections(path: Path) -> Iterator[str]:
    """What each engine has to say against a table."""
    snapshot = snapshot_of(path)
    expected = rows_of(path, snapshot)
    with _plainly_named(path) as readable:
        for peer in PEERS.values():
            found = _objection(peer, Asked(readable, snapshot, expected.schema), expected)
            if found:
                yield f"{peer.name}, version {snapshot.version} of {path}: {found}"


def our_tables(directory: Path) -> Iterator[Path]:
    """The tables whose newest commit Ebbtide wrote."""
    for log in sorted(directory.rglob("_delta_log")):
        commits = [file for file in log.glob("*.json") if file.stem.isdigit()]
        if commits and _is_ours(max(commits)):
            yield log.parent


def _is_ours(commit: Path) -> bool:
    with commit.open("rb") as lines:
        first = lines.readline()
    if not first.startswith(b'{"commitInfo"'):
        return False
    return str(json.loads(first)["commitInfo"].get("engineInfo")).startswith(ENGINE)


@contextmanager
def _plainly_named(path: Path) -> Iterator[Path]:
    """The table, or the same files below a plain name: no peer opens a table whose own directory needs encoding."""
    if quote(str(path)) == str(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as directory:
        yield shutil.copytree(path, Path(directory, "t"), copy_function=os.link)


def _objection(peer: Peer, asked: Asked, expected: pa.Table) -> str:
    faults = [fault for fault in FAULTS if fault.peer == peer.name and fault.concerns(asked)]
    if any(fault.error is None for fault in faults):
        return ""
    try:
        found = peer.rows(asked.path, expected.schema)
    except Exception as error:
        is_known = any(fault.error in str(error) for fault in faults)
        return "" if is_known else f"{type(error).__name__}: {error}"
    return difference(found, expected)
