"""Which statements does the SQL door understand, and what does each say?

A statement is read token by token with Spark's own lexical rules (`ebbtide.pruning.lexer`). Only its frame is
understood: the text behind WHERE is handed on exactly as the user wrote it, because Spark, and nobody else, says what
a condition means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from ebbtide.errors import RequestError
from ebbtide.pruning.lexer import Token, tokenize
from ebbtide.sql.boundaries import single_statement

__all__ = [
    "CreateView",
    "Delete",
    "DescribeDetail",
    "DescribeHistory",
    "Explain",
    "SetProperties",
    "Statement",
    "UnsetProperties",
    "ViewName",
    "parse_statement",
]

KNOWN_STATEMENTS: Final = (
    "DELETE FROM delta.`path` [[AS] alias] [WHERE condition]",
    "EXPLAIN DELETE FROM ...",
    "CREATE [OR REPLACE] TEMP VIEW name AS SELECT * FROM delta.`path`",
    "ALTER TABLE delta.`path` SET TBLPROPERTIES ('key' = 'value', ...)",
    "ALTER TABLE delta.`path` UNSET TBLPROPERTIES [IF EXISTS] ('key', ...)",
    "DESCRIBE HISTORY delta.`path` [LIMIT n]",
    "DESCRIBE DETAIL delta.`path`",
)
_SYNTAX: Final = "PARSE_SYNTAX_ERROR"
_SHOWN_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class ViewName:
    """A temporary view, in the place of a table."""

    name: str


@dataclass(frozen=True, slots=True)
class Delete:
    """`condition` is the user's text; without WHERE it is the literal `true`, as Spark's own parser has it."""

    path: str | ViewName
    condition: str
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    statement: Delete


@dataclass(frozen=True, slots=True)
class CreateView:
    """A view of a whole table, however many times SELECT * is wrapped around it."""

    name: str
    path: str | ViewName
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class SetProperties:
    path: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    path: str
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    path: str
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class DescribeDetail:
    path: str


_S = TypeVar("_S")
Statement: TypeAlias = (
    Delete | Explain | CreateView | SetProperties | UnsetProperties | DescribeHistory | DescribeDetail
)
_EXPLAIN_MODES: Final = ("extended", "codegen", "cost", "formatted")


def parse_statement(text: str) -> Statement:
    """The statement a text holds; RequestError says what was expected, or which statements there are."""
    source = single_statement(text)
    tokens = tokenize(source)
    if tokens is None:
        raise RequestError(
            f"The statement {_shown(source)} holds text that is no Spark SQL: a string, name or comment that is not "
            "closed, a hint, or a character that SQL does not use.",
            error_class=_SYNTAX,
        )
    return _Reader(source, tokens).statement()


class _Reader:
    """Walks through the tokens of one statement."""

    def __init__(self, source: str, tokens: tuple[Token, ...]) -> None:
        self.source = source
        self.tokens = tokens
        self.at = 0

    def statement(self) -> Statement:
        if self.accept("delete", "from"):
            return self.delete()
        if self.accept("alter", "table"):
            return self.alter()
        if self.accept("describe") or self.accept("desc"):
            return self.describe()
        if self.accept("explain"):
            return self.explain()
        if self.accept("create"):
            return self.create_view()
        raise self.unknown_statement()

    # --- statements ---------------------------------------------------------------------------------------------------

    def delete(self) -> Delete:
        path, alias = self.table_or_view(), self.alias()
        if self.is_done():
            return Delete(path, "true", alias)
        self.expect("where")
        if self.is_done():
            raise self.unexpected("a condition after WHERE")
        condition = self.source[self.tokens[self.at].start : self.tokens[-1].end]
        return Delete(path, condition, alias)

    def alter(self) -> SetProperties | UnsetProperties:
        path = self.table()
        if self.accept("set", "tblproperties"):
            return self.end(SetProperties(path, self.properties()))
        if self.accept("unset", "tblproperties"):
            if_exists = self.accept("if", "exists")
            return self.end(UnsetProperties(path, tuple(self.keys()), if_exists))
        raise self.unknown_statement()

    def describe(self) -> DescribeHistory | DescribeDetail:
        if self.accept("detail"):
            return self.end(DescribeDetail(self.table()))
        if not self.accept("history"):
            raise self.unknown_statement()
        path = self.table()
        return self.end(DescribeHistory(path, self.number() if self.accept("limit") else None))

    def explain(self) -> Explain:
        # Spark's modes say how much of a plan to print; ours has one form.
        any(self.accept(mode) for mode in _EXPLAIN_MODES)
        self.expect("delete")
        self.expect("from")
        return Explain(self.delete())

    def create_view(self) -> CreateView:
        or_replace = self.accept("or", "replace")
        if not ((self.accept("temp") or self.accept("temporary")) and self.accept("view")):
            raise self.unknown_statement()
        token = self.take("the name of the view")
        if token.kind not in {"word", "quoted_name"} or not token.value:
            self.at -= 1
            raise self.unexpected("the name of the view")
        self.expect("as")
        return self.end(CreateView(token.value, self.whole_table(), or_replace))

    def whole_table(self) -> str | ViewName:
        """The table in SELECT * FROM table, which may be wrapped in further ones."""
        if not (self.accept("select") and self.accept_sign("*") and self.accept("from")):
            raise self.unexpected("SELECT * FROM a table: a view that can be changed shows all of one table")
        if self.accept_sign("("):
            table = self.whole_table()
            self.expect_sign(")")
        else:
            table = self.table_or_view()
        self.alias()
        return table

    # --- parts --------------------------------------------------------------------------------------------------------

    def table(self) -> str:
        """The path in delta.`path`."""
        first = self.at
        catalog, dot, name = (self.peek(offset) for offset in range(3))
        is_delta = catalog is not None and (catalog.value or "").lower() == "delta" and catalog.kind != "string"
        if is_delta and dot is not None and dot.text == "." and name is not None and name.kind == "quoted_name":
            self.at += 3
            if name.value and not self.is_next("."):
                return name.value
        found = "nothing" if first >= len(self.tokens) else _shown(self.source[self.tokens[first].start :])
        raise RequestError(
            f"Expected a table written as delta.`/path/to/table`, found {found}. There is no catalog here that knows "
            "tables by name: give the path, in backquotes.",
            error_class="DELTA_UNSUPPORTED_SOURCE",
        )

    def table_or_view(self) -> str | ViewName:
        """The path in delta.`path`, or a name without dots, which can only be a view's."""
        token, following = self.peek(), self.peek(1)
        is_name = token is not None and token.kind in {"word", "quoted_name"} and token.text != "where" and token.value
        if token is None or not is_name or (following is not None and following.text == "."):
            return self.table()
        self.at += 1
        return ViewName(token.value or "")

    def alias(self) -> str | None:
        explicit = self.accept("as")
        token = self.peek()
        is_name = token is not None and token.kind in {"word", "quoted_name"} and token.text != "where"
        if token is None or not is_name:
            if explicit:
                raise self.unexpected("a name after AS")
            return None
        self.at += 1
        return token.value

    def properties(self) -> dict[str, str]:
        properties: dict[str, str] = {}
        for key in self.items():
            # The sign is optional in Spark's grammar.
            self.accept_sign("=")
            if key in properties:
                raise RequestError(f"The property {key!r} is given twice.", error_class=_SYNTAX)
            properties[key] = self.value(key)
        return properties

    def keys(self) -> list[str]:
        return list(self.items())

    def items(self) -> Iterator[str]:
        """The keys of a list in parentheses; whoever asks takes what belongs to a key before the next one."""
        self.expect_sign("(")
        while True:
            yield self.key()
            if not self.accept_sign(","):
                break
        self.expect_sign(")")

    def key(self) -> str:
        """A string, or names with dots between them."""
        token = self.take("the name of a property")
        if token.kind == "string":
            return self.text_of(token)
        parts = [token]
        while self.accept_sign("."):
            parts.append(self.take("the rest of a property's name"))
        if any(part.kind not in {"word", "quoted_name"} for part in parts):
            raise self.unexpected("the name of a property")
        return ".".join(part.value or "" for part in parts)

    def value(self, key: str) -> str:
        sign = "-" if self.accept_sign("-") else ""
        token = self.take(f"a value for {key!r}")
        if token.kind == "string" and not sign:
            return self.text_of(token)
        if token.kind == "number":
            return sign + token.text
        if not sign and token.kind == "word" and token.text in {"true", "false"}:
            return token.text
        self.at -= 1
        raise self.unexpected(f"a value for {key!r}: a string, a number, true or false")

    def text_of(self, token: Token) -> str:
        if token.value is None:
            raise RequestError(
                f"What the string {token.text[:_SHOWN_CHARACTERS]} means depends on settings of the session, because "
                "of its backslash or doubled quote. Write it as a raw string: r'...' or r\"...\".",
                error_class=_SYNTAX,
            )
        return token.value

    def number(self) -> int:
        token = self.take("a number after LIMIT")
        if token.kind != "number" or not token.text.isdecimal():
            self.at -= 1
            raise self.unexpected("a number after LIMIT")
        return int(token.text)

    # --- tokens -------------------------------------------------------------------------------------------------------

    def peek(self, offset: int = 0) -> Token | None:
        at = self.at + offset
        return self.tokens[at] if at < len(self.tokens) else None

    def is_next(self, sign: str) -> bool:
        token = self.peek()
        return token is not None and token.kind == "operator" and token.text == sign

    def accept(self, *words: str) -> bool:
        """Step over the words if they all come next."""
        found = [self.peek(offset) for offset in range(len(words))]
        if any(token is None or token.kind != "word" for token in found):
            return False
        if [token.text for token in found if token is not None] != list(words):
            return False
        self.at += len(words)
        return True

    def accept_sign(self, sign: str) -> bool:
        if not self.is_next(sign):
            return False
        self.at += 1
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.unexpected(word.upper())

    def expect_sign(self, sign: str) -> None:
        if not self.accept_sign(sign):
            raise self.unexpected(f"'{sign}'")

    def take(self, what: str) -> Token:
        token = self.peek()
        if token is None:
            raise self.unexpected(what)
        self.at += 1
        return token

    def is_done(self) -> bool:
        return self.at >= len(self.tokens)

    def end(self, statement: _S) -> _S:
        if not self.is_done():
            raise self.unexpected("the end of the statement")
        return statement

    def unexpected(self, expected: str) -> RequestError:
        token = self.peek()
        found = "the statement ends" if token is None else f"found {_shown(self.source[token.start :])}"
        return RequestError(f"Expected {expected}, but {found}.", error_class=_SYNTAX)

    def unknown_statement(self) -> RequestError:
        known = "; ".join(KNOWN_STATEMENTS)
        return RequestError(
            f"ebbtide.sql does not know the statement {_shown(self.source.strip())}. It knows: {known}. Queries go to "
            "spark.sql over a view of ebbtide.read(spark, path); everything else to spark.sql."
        )


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "...")
