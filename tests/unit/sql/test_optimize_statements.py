"""Are OPTIMIZE and REORG understood as they were meant?"""

from __future__ import annotations

import pytest

from ebbtide.errors import RequestError
from ebbtide.sql.maintenance_statements import Optimize, Reorg
from ebbtide.sql.parse import parse_statement
from ebbtide.sql.table_names import ViewName


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPTIMIZE delta.`/t`", Optimize("/t")),
        ("optimize delta.`/t`;", Optimize("/t")),
        ("OPTIMIZE delta.`/t` FULL", Optimize("/t", full=True)),
        ("OPTIMIZE a_view full", Optimize(ViewName("a_view"), full=True)),
        ("OPTIMIZE '/a b/t' WHERE p = 1", Optimize("/a b/t", "p = 1")),
        ("OPTIMIZE a_view", Optimize(ViewName("a_view"))),
        ("OPTIMIZE delta.`/t` WHERE p = 'zorder by' AND q > 1", Optimize("/t", "p = 'zorder by' AND q > 1")),
        ("OPTIMIZE delta.`/t` ZORDER BY (a, `b c`.d)", Optimize("/t", None, ("a", "`b c`.d"))),
        ("OPTIMIZE delta.`/t` WHERE p = 1 ZORDER BY a, b", Optimize("/t", "p = 1", ("a", "b"))),
        ("REORG TABLE delta.`/t` APPLY (PURGE)", Reorg("/t")),
        ("reorg table delta.`/t` where p in ('a', 'b') apply (purge)", Reorg("/t", "p in ('a', 'b')")),
    ],
)
def test_statement_is_understood(text, expected):
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "OPTIMIZE",
        "OPTIMIZE delta.`/t` WHERE",
        "OPTIMIZE delta.`/t` ZORDER BY",
        "OPTIMIZE delta.`/t` ZORDER BY ()",
        "OPTIMIZE delta.`/t` ZORDER BY (a",
        "OPTIMIZE delta.`/t` ZORDER BY (a) WHERE p = 1",
        "OPTIMIZE delta.`/t` WHERE p = 1 ZORDER BY a FULL",
        "REORG delta.`/t` APPLY (PURGE)",
        "REORG TABLE delta.`/t`",
        "REORG TABLE delta.`/t` APPLY PURGE",
        "REORG TABLE delta.`/t` APPLY (UPGRADE UNIFORM)",
        "REORG TABLE delta.`/t` APPLY (PURGE) more",
    ],
)
def test_unfinished_or_unknown_statement_is_refused(text):
    with pytest.raises(RequestError):
        parse_statement(text)
