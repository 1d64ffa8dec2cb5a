"""What do DELETE, UPDATE, MERGE and INSERT say?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from ebbtide.commands.merge.request import check_last
from ebbtide.errors import InvalidSyntaxError, RequestError
from ebbtide.sql.reader import SYNTAX, StatementReader
from ebbtide.sql.statements import Assignment, Delete, Insert, Merge, MergeAction, MergeClause, Update
from ebbtide.sql_text import time_travel_at

__all__ = ["parse_delete", "parse_insert", "parse_merge", "parse_update"]

_COMMA: Final = frozenset({","})
# What begins the next clause of a MERGE; WHEN alone may belong to a CASE.
_NEXT_CLAUSE: Final = (("when", "matched"), ("when", "not", "matched"))
# What begins the query of an INSERT ... REPLACE WHERE.
_QUERY: Final = (("select",), ("values",), ("with",), ("table",), ("from",))


def parse_delete(reader: StatementReader) -> Delete:
    path, alias = reader.table_or_view(), reader.alias()
    if reader.is_done():
        return Delete(path, "true", alias)
    reader.expect("where")
    return Delete(path, reader.rest("a condition after WHERE"), alias)


def parse_update(reader: StatementReader) -> Update:
    words = frozenset({"set", "where"})
    path, alias = reader.table_or_view(not_a_name=words), reader.alias(not_a_name=words)
    reader.expect("set")
    assignments = _assignments(reader, (("where",),))
    if reader.is_done():
        return Update(path, assignments, None, alias)
    reader.expect("where")
    return Update(path, assignments, reader.rest("a condition after WHERE"), alias)


def _assignments(reader: StatementReader, stops: tuple[tuple[str, ...], ...]) -> tuple[Assignment, ...]:
    found = []
    while True:
        target = reader.dotted_name("the name of a column")
        if not (reader.accept_sign("=") or reader.accept_sign("==")):
            raise reader.syntax_error(f"'=' after {target}")
        found.append(Assignment(target, reader.expression(f"a value for {target}", words=stops, signs=_COMMA)))
        if not reader.accept_sign(","):
            return tuple(found)


# --- MERGE ------------------------------------------------------------------------------------------------------------


def parse_merge(reader: StatementReader, ctes: str) -> Merge:
    reader.expect("merge")
    evolution = reader.accept("with", "schema", "evolution")
    reader.expect("into")
    words = frozenset({"using"})
    path, alias = reader.table_or_view(not_a_name=words), reader.alias(not_a_name=words)
    reader.expect("using")
    source, source_alias = _source(reader)
    reader.expect("on")
    condition = reader.expression("a condition after ON", words=_NEXT_CLAUSE)
    clauses = []
    while not reader.is_done():
        clauses.append(_clause(reader))
    if not clauses:
        raise RequestError(
            "A MERGE needs at least one WHEN clause that says what to do.", error_class="DELTA_MERGE_MISSING_WHEN"
        )
    for when in dict.fromkeys(clause.when for clause in clauses):
        check_last(when.upper(), [clause.condition for clause in clauses if clause.when == when], prefix="")
    query = f"{ctes} SELECT * FROM {source}".lstrip()  # noqa: S608 (the user's own text)
    return Merge(path, query, condition, tuple(clauses), alias, source_alias, evolution)


def _source(reader: StatementReader) -> tuple[str, str | None]:
    """The source as text for FROM, and its name."""
    first = reader.at
    name = None
    if reader.is_next("("):
        reader.in_parentheses("a query after USING")
    else:
        reader.dotted_name("a source after USING")
        last = reader.tokens[reader.at - 1]
        # A path cannot qualify columns.
        name = last.value if reader.tokens[first].text != "delta" else None
        if reader.is_next("("):
            reader.step_over_parentheses("the arguments of a function")
    # `ebbtide.sql.queries` interprets it when it reads the source as a query.
    travel = time_travel_at(reader.source, reader.tokens, reader.brackets, reader.at)
    reader.at = reader.at if travel is None else travel.end
    end = reader.at
    name = reader.alias(not_a_name=frozenset({"on"})) or name
    if reader.is_next("("):
        reader.names("the name of a column")
        end = reader.at
    return reader.text(first, end), name


def _clause(reader: StatementReader) -> MergeClause:
    reader.expect("when")
    when = _when(reader)
    condition = reader.expression("a condition after AND", words=(("then",),)) if reader.accept("and") else None
    reader.expect("then")
    action, assignments = _ACTIONS[when](reader)
    return MergeClause(when, action, condition, assignments)


def _when(reader: StatementReader) -> Literal["matched", "not matched", "not matched by source"]:
    if reader.accept("matched"):
        return "matched"
    reader.expect("not", "matched")
    if reader.accept("by", "source"):
        return "not matched by source"
    reader.accept("by", "target")
    return "not matched"


def _change(reader: StatementReader, *, all_columns: bool) -> tuple[MergeAction, tuple[Assignment, ...]]:
    if reader.accept("delete"):
        return "delete", ()
    if not reader.accept("update"):
        raise reader.syntax_error("UPDATE or DELETE")
    reader.expect("set")
    if all_columns and reader.accept_sign("*"):
        return "update all", ()
    return "update", _assignments(reader, _NEXT_CLAUSE)


def _insertion(reader: StatementReader) -> tuple[MergeAction, tuple[Assignment, ...]]:
    reader.expect("insert")
    if reader.accept_sign("*"):
        return "insert all", ()
    targets = _targets(reader)
    reader.expect("values")
    values = _values(reader)
    if len(targets) != len(values):
        raise InvalidSyntaxError(
            f"INSERT names {len(targets)} columns ({', '.join(targets)}) and gives {len(values)} values.",
            error_class=SYNTAX,
        )
    return "insert", tuple(Assignment(target, value) for target, value in zip(targets, values, strict=True))


def _targets(reader: StatementReader) -> Sequence[str]:
    reader.expect_sign("(")
    targets = [reader.dotted_name("the name of a column")]
    while reader.accept_sign(","):
        targets.append(reader.dotted_name("the name of a column"))
    reader.expect_sign(")")
    return targets


def _values(reader: StatementReader) -> Sequence[str]:
    reader.expect_sign("(")
    values = [reader.expression("a value", signs=_COMMA)]
    while reader.accept_sign(","):
        values.append(reader.expression("a value", signs=_COMMA))
    reader.expect_sign(")")
    return values


_ACTIONS: Final = {
    "matched": lambda reader: _change(reader, all_columns=True),
    "not matched by source": lambda reader: _change(reader, all_columns=False),
    "not matched": _insertion,
}


# --- INSERT -----------------------------------------------------------------------------------------------------------


def parse_insert(reader: StatementReader, ctes: str) -> Insert:
    reader.expect("insert")
    overwrite = reader.accept("overwrite")
    if not overwrite:
        reader.expect("into")
    reader.accept("table")
    words = frozenset({"replace", "partition", "by", "select", "values", "with", "from"})
    path = reader.table_or_view(not_a_name=words)
    if reader.comes("partition"):
        raise reader.syntax_error("columns, a query or VALUES: partitions are found by the values of the rows")
    by_name = reader.accept("by", "name")
    columns = _columns(reader) if not by_name else ()
    replace_where = None
    if not overwrite and reader.accept("replace", "where"):
        replace_where = reader.expression("a condition after WHERE", words=_QUERY)
    query = reader.rest("a query or VALUES")
    return Insert(path, f"{ctes} {query}".lstrip(), columns, by_name, overwrite, replace_where)


def _columns(reader: StatementReader) -> tuple[str, ...]:
    """The named columns; none if the parenthesis opens a query."""
    following = reader.peek(1)
    is_query = following is not None and following.text in {"select", "with", "values", "from", "table", "("}
    return reader.names("the name of a column") if reader.is_next("(") and not is_query else ()
