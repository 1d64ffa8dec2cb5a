"""How does ALTER TABLE take the column mapping from a table? By rewriting its files, which no other property does."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ebbtide.commands.drop_feature.unmapping import UnmapPass, unmapping_request
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.session_settings import optimize_settings
from ebbtide.sql.alter_statements import SetProperties, UnsetProperties
from ebbtide.sql.session import SqlSession

__all__ = ["takes_mapping", "without_mapping"]

_MODE: Final = "delta.columnmapping.mode"


def takes_mapping(statement: SetProperties | UnsetProperties, snapshot: Snapshot) -> bool:
    """Whether the table has a column mapping and would lose it."""
    if isinstance(statement, SetProperties):
        values = [value for key, value in statement.properties.items() if key.lower() == _MODE]
        takes_away = [value.strip().lower() for value in values] == ["none"]
    else:
        takes_away = _MODE in {key.lower() for key in statement.keys}
    return takes_away and snapshot.properties.column_mapping_mode != "none"


def without_mapping(
    session: SqlSession, statement: SetProperties | UnsetProperties
) -> SetProperties | UnsetProperties | None:
    """What is left of the statement when the mapping is gone, if it takes it away; None when nothing is."""
    store = session.store(statement.path)
    if not takes_mapping(statement, load_snapshot(store, config=session.config)):
        return statement
    options = session.options(statement.path, in_transaction=False)
    request = unmapping_request(store, settings=optimize_settings(session.spark), options=options)
    UnmapPass(session.spark, request, keeps_mode=isinstance(statement, SetProperties)).run()
    if isinstance(statement, SetProperties):
        rest = {key: value for key, value in statement.properties.items() if key.lower() != _MODE}
        return replace(statement, properties=rest) if rest else None
    keys = tuple(key for key in statement.keys if key.lower() != _MODE)
    return replace(statement, keys=keys) if keys else None
