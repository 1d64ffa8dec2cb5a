"""How are the tokens of a statement read?

`StatementReader` knows words, signs, names and tables, and how to step over an expression without understanding it: the
text of conditions, values and queries is passed on exactly as the user wrote it, because only Spark decides what it
means. The `parse_*` modules know the grammar of each statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from ebbtide.errors import InvalidSyntaxError, RequestError
from ebbtide.sql.statements import KNOWN_STATEMENTS, TableName, ViewName
from ebbtide.sql_text import Token, delta_path_at, is_sign, match_brackets, name_at

__all__ = ["SYNTAX", "StatementReader", "excerpt"]

SYNTAX: Final = "PARSE_SYNTAX_ERROR"
_SHOWN_CHARACTERS: Final = 60
_S = TypeVar("_S")


class StatementReader:
    """Walks through the tokens of one statement."""

    def __init__(self, source: str, tokens: tuple[Token, ...]) -> None:
        self.source = source
        self.tokens = tokens
        self.brackets = match_brackets(tokens)
        self.at = 0

    # --- tables and names ---------------------------------------------------------------------------------------------

    def table(self) -> str:
        """The path in delta.`path`."""
        path = delta_path_at(self.tokens, self.at)
        if path is not None:
            self.at += 3
            return path
        found = "nothing" if self.is_done() else excerpt(self.source[self.tokens[self.at].start :])
        raise RequestError(
            f"Expected a table written as delta.`/path/to/table`, found {found}. There is no catalog here that knows "
            "tables by name: give the path, in backquotes.",
            error_class="DELTA_UNSUPPORTED_SOURCE",
        )

    def table_or_path(self) -> str:
        """The path in delta.`path`, or in quotes, as some of Delta's own statements allow."""
        token = self.peek()
        return self.string("a table") if token is not None and token.kind == "string" else self.table()

    def table_or_view(self, *, not_a_name: frozenset[str] = frozenset({"where"})) -> TableName:
        """The path in delta.`path`, or a name without dots, which can only be a view's."""
        following = self.peek(1)
        if not self.is_name(not_a_name=not_a_name) or (following is not None and following.text == "."):
            return self.table()
        return ViewName(self.name("a table"))

    def alias(self, *, not_a_name: frozenset[str] = frozenset({"where"})) -> str | None:
        explicit = self.accept("as")
        if not self.is_name(not_a_name=not_a_name):
            if explicit:
                raise self.syntax_error("a name after AS")
            return None
        return self.name("a name")

    def is_name(self, *, not_a_name: frozenset[str] = frozenset()) -> bool:
        """Whether a name comes next: quoted, or a word that is none of these."""
        token = self.peek()
        if token is None or not token.value:
            return False
        return token.kind == "quoted_name" or (token.kind == "word" and token.text not in not_a_name)

    def name(self, what: str) -> str:
        token = self.peek()
        if token is None or not self.is_name():
            raise self.syntax_error(what)
        self.at += 1
        return token.value or ""

    def dotted_name(self, what: str) -> str:
        """Names with dots between them, as they are written."""
        found = name_at(self.tokens, self.at)
        if found is None or not all(found.parts):
            raise self.syntax_error(what)
        first, self.at = self.at, found.end
        if is_sign(self.tokens, self.at, "."):
            self.at += 1
            raise self.syntax_error(f"the rest of {what}")
        return self.text(first, self.at)

    def path(self, what: str) -> tuple[str, ...]:
        """The decoded parts of names with dots between them."""
        found = name_at(self.tokens, self.at)
        self.dotted_name(what)
        return () if found is None else found.parts

    def names(self, what: str) -> tuple[str, ...]:
        """Names in parentheses."""
        self.expect_sign("(")
        found = [self.name(what)]
        while self.accept_sign(","):
            found.append(self.name(what))
        self.expect_sign(")")
        return tuple(found)

    # --- text that is handed on ---------------------------------------------------------------------------------------

    def text(self, first: int, end: int) -> str:
        """The source from the token at `first` up to the one before `end`."""
        return self.source[self.tokens[first].start : self.tokens[end - 1].end]

    def rest(self, what: str) -> str:
        """Everything that is left, even an extra closing parenthesis: Spark must see and refuse it."""
        if self.is_done():
            raise self.syntax_error(what)
        first, self.at = self.at, len(self.tokens)
        return self.text(first, self.at)

    def expression(
        self, what: str, *, words: tuple[tuple[str, ...], ...] = (), signs: frozenset[str] = frozenset()
    ) -> str:
        """The text up to the first of these runs of words, or signs, that is not in parentheses or in CASE ... END."""
        first = self.at
        while (token := self.peek()) is not None:
            if is_sign(self.tokens, self.at, ")", "]") or self._stops(token, words, signs):
                break
            self.at = self.brackets.after(self.at)
        if self.at == first:
            raise self.syntax_error(what)
        return self.text(first, self.at)

    def _stops(self, token: Token, words: tuple[tuple[str, ...], ...], signs: frozenset[str]) -> bool:
        if token.kind == "operator":
            return token.text in signs
        # t.when is a column, whatever its name.
        return not is_sign(self.tokens, self.at - 1, ".") and any(self.comes(*run) for run in words)

    def in_parentheses(self, what: str) -> str:
        """The text in parentheses that come next, without them."""
        self.expect_sign("(")
        inside = self.expression(what)
        self.expect_sign(")")
        return inside

    def step_over_parentheses(self, what: str) -> None:
        """Arguments of a call; there may be none."""
        if self.is_next("(") and (following := self.peek(1)) is not None and following.text == ")":
            self.at += 2
        else:
            self.in_parentheses(what)

    # --- properties ---------------------------------------------------------------------------------------------------

    def properties(self) -> dict[str, str]:
        properties: dict[str, str] = {}
        for key in self.items():
            # The sign is optional in Spark's grammar.
            self.accept_sign("=")
            if key in properties:
                raise InvalidSyntaxError(f"The property {key!r} is given twice.", error_class=SYNTAX)
            properties[key] = self.value(key)
        return properties

    def items(self) -> Iterator[str]:
        """The keys of a list in parentheses; the caller reads a key's value before it asks for the next key."""
        self.expect_sign("(")
        while True:
            yield self.key()
            if not self.accept_sign(","):
                break
        self.expect_sign(")")

    def key(self, what: str = "the name of a property") -> str:
        """A string, or names with dots between them."""
        token = self.peek()
        if token is not None and token.kind == "string":
            return self.string(what)
        found = name_at(self.tokens, self.at)
        if found is None:
            raise self.syntax_error(what)
        self.at = found.end
        return ".".join(found.parts)

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
        raise self.syntax_error(f"a value for {key!r}: a string, a number, true or false")

    def string(self, what: str) -> str:
        token = self.take(what)
        if token.kind != "string":
            self.at -= 1
            raise self.syntax_error(what)
        return self.text_of(token)

    def text_of(self, token: Token) -> str:
        if token.is_raw:
            # Outside expressions, no setting changes what r'...' means.
            return token.text[2:-1]
        if token.value is None:
            raise InvalidSyntaxError(
                f"What the string {token.text[:_SHOWN_CHARACTERS]} means depends on settings of the session, because "
                "of its backslash or doubled quote. Write it as a raw string: r'...' or r\"...\".",
                error_class=SYNTAX,
            )
        return token.value

    def number(self, what: str) -> int:
        token = self.take(what)
        if token.kind != "number" or not token.text.isdecimal():
            self.at -= 1
            raise self.syntax_error(what)
        return int(token.text)

    def integer(self, what: str) -> int:
        """A whole number of 64 bits, with its sign; L may follow, as in Spark."""
        first = self.at
        sign = -1 if self.accept_sign("-") else 1
        token = self.take(what)
        digits = token.text.removesuffix("l").removesuffix("L")
        if token.kind == "number" and digits.isdecimal() and -(2**63) <= sign * int(digits) < 2**63:
            return sign * int(digits)
        self.at = first
        raise self.syntax_error(what)

    # --- tokens -------------------------------------------------------------------------------------------------------

    def peek(self, offset: int = 0) -> Token | None:
        at = self.at + offset
        return self.tokens[at] if at < len(self.tokens) else None

    def is_next(self, sign: str) -> bool:
        token = self.peek()
        return token is not None and token.kind == "operator" and token.text == sign

    def comes(self, *words: str) -> bool:
        """Whether these words come next."""
        found = [self.peek(offset) for offset in range(len(words))]
        return all(token is not None and token.kind == "word" for token in found) and [
            token.text for token in found if token is not None
        ] == list(words)

    def accept(self, *words: str) -> bool:
        """Step over the words if they all come next."""
        if not self.comes(*words):
            return False
        self.at += len(words)
        return True

    def accept_sign(self, sign: str) -> bool:
        if not self.is_next(sign):
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.syntax_error(" ".join(words).upper())

    def expect_sign(self, sign: str) -> None:
        if not self.accept_sign(sign):
            raise self.syntax_error(f"'{sign}'")

    def take(self, what: str) -> Token:
        token = self.peek()
        if token is None:
            raise self.syntax_error(what)
        self.at += 1
        return token

    def is_done(self) -> bool:
        return self.at >= len(self.tokens)

    def end(self, statement: _S) -> _S:
        if not self.is_done():
            raise self.syntax_error("the end of the statement")
        return statement

    def syntax_error(self, expected: str) -> RequestError:
        token = self.peek()
        found = "the statement ends" if token is None else f"found {excerpt(self.source[token.start :])}"
        return InvalidSyntaxError(f"Expected {expected}, but {found}.", error_class=SYNTAX)

    def unknown_statement(self) -> RequestError:
        known = "; ".join(KNOWN_STATEMENTS)
        return RequestError(
            f"ebbtide.sql does not know the statement {excerpt(self.source.strip())}. It knows: {known}. Everything "
            "else goes to spark.sql, where ebbtide.read(spark, path) can be a view."
        )


def excerpt(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "...")
