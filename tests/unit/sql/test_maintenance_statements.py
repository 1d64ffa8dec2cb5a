"""Are the statements of maintenance taken apart at the right places?"""

from __future__ import annotations

import pytest

from ebbtide.errors import InvalidSyntaxError, RequestError
from ebbtide.sql.maintenance_statements import Vacuum
from ebbtide.sql.parse import parse_statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("VACUUM delta.`/t`", Vacuum("/t")),
        ("vacuum delta.`/t`;", Vacuum("/t")),
        ("VACUUM '/a path/t'", Vacuum("/a path/t")),
        ("VACUUM delta.`/t` LITE", Vacuum("/t", lite=True)),
        ("VACUUM delta.`/t` FULL", Vacuum("/t", lite=False)),
        ("VACUUM delta.`/t` RETAIN 0 HOURS", Vacuum("/t", retain_hours=0)),
        ("VACUUM delta.`/t` RETAIN 1.5 HOURS", Vacuum("/t", retain_hours=1.5)),
        ("VACUUM delta.`/t` RETAIN -1 HOURS", Vacuum("/t", retain_hours=-1)),
        ("VACUUM delta.`/t` DRY RUN", Vacuum("/t", dry_run=True)),
        ("VACUUM delta.`/t` FULL RETAIN 168 HOURS DRY RUN", Vacuum("/t", False, 168, True)),
        ("VACUUM delta.`/t` DRY RUN RETAIN 168 HOURS LITE", Vacuum("/t", True, 168, True)),
    ],
)
def test_vacuum_is_understood_with_its_clauses_in_any_order(text, expected):
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("VACUUM people", "delta.`/path/to/table`"),
        ("VACUUM", "delta.`/path/to/table`"),
        ("VACUUM delta.`/t` RETAIN HOURS", "a number of hours"),
        ("VACUUM delta.`/t` RETAIN '1' HOURS", "a number of hours"),
        ("VACUUM delta.`/t` RETAIN 1e3 HOURS", "a number of hours"),
        ("VACUUM delta.`/t` RETAIN 1 DAYS", "HOURS"),
        ("VACUUM delta.`/t` RETAIN 1", "HOURS"),
        ("VACUUM delta.`/t` DRY", "DRY RUN"),
        ("VACUUM delta.`/t` WHERE id = 1", "LITE, FULL, RETAIN n HOURS, DRY RUN"),
        ("VACUUM delta.`/t` USING INVENTORY delta.`/i`", "USING INVENTORY is not supported"),
    ],
)
def test_what_is_no_vacuum_says_what_was_expected(text, said):
    with pytest.raises(RequestError) as refused:
        parse_statement(text)
    assert said in str(refused.value)


@pytest.mark.parametrize("clauses", ["LITE FULL", "FULL FULL", "RETAIN 1 HOURS RETAIN 2 HOURS", "DRY RUN DRY RUN"])
def test_clause_that_is_given_twice_is_refused(clauses):
    with pytest.raises(InvalidSyntaxError, match="given twice") as refused:
        parse_statement(f"VACUUM delta.`/t` {clauses}")
    assert refused.value.getCondition() == "DUPLICATE_CLAUSES"
    assert refused.value.getSqlState() == "42614"
