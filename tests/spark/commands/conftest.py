"""How do the tests of the commands run a DELETE or an UPDATE, so that the table is checked after every one of them?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.invariants import check_invariants

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest, UpdateRequest, WriteOptions
from ebbtide.commands.update.command import UpdateCommand
from ebbtide.config import DEFAULT_CONFIG
from ebbtide.storage import open_store


@pytest.fixture
def checked_delete(spark):
    """`checked_delete(table, condition)` gives the `DeleteResult`; further names are those of `WriteOptions`."""

    def delete(table, condition=None, *, alias=None, again=True, config=DEFAULT_CONFIG, **options):
        path = table if isinstance(table, Path) else table.path
        request = DeleteRequest(open_store(str(path)), condition, alias, WriteOptions(config=config, **options))
        return check_invariants(spark, path, lambda: DeleteCommand(spark, request).run(), again=again, config=config)

    return delete


@pytest.fixture
def checked_update(spark):
    """`checked_update(table, {column: value}, condition)` gives the `UpdateResult`."""

    def update(table, assignments, condition=None, *, alias=None, config=DEFAULT_CONFIG, **options):
        path = table if isinstance(table, Path) else table.path
        request = UpdateRequest(
            open_store(str(path)),
            condition,
            tuple(assignments.items()),
            alias,
            WriteOptions(config=config, **options),
        )
        return check_invariants(spark, path, lambda: UpdateCommand(spark, request).run(), again=False, config=config)

    return update
