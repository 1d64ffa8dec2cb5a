"""Which names may a table with a change data feed not have?"""

from __future__ import annotations

import pytest

from ebbtide.errors import RequestError
from ebbtide.protocol.change_columns import refuse_change_columns, refuse_change_feed


@pytest.mark.parametrize("name", ["_change_type", "_commit_version", "_COMMIT_TIMESTAMP"])
def test_what_came_first_decides_the_error_class(name):
    with pytest.raises(RequestError, match=name) as caught:
        refuse_change_columns(["id", name])
    assert caught.value.error_class == "RESERVED_CDC_COLUMNS_ON_WRITE"
    with pytest.raises(RequestError, match=f"It cannot be set: .*{name}") as caught:
        refuse_change_feed(["id", name], "It cannot be set")
    assert caught.value.error_class == "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS"


def test_other_names_are_free():
    refuse_change_columns(["_change", "change_type", "_commit_version_"])
    refuse_change_feed(["_change", "change_type"], "It cannot be set")
