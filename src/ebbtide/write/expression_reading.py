"""What does an expression of a table call, and which names does it use?

`read_expression` walks once through the tokens of an expression and accepts only what it knows: operators, literals,
CASE, CAST, IN, LIKE, BETWEEN, lambdas, and calls, including SQL's special forms (`EXTRACT(year FROM d)`). It is a
recogniser, not a parser: it keeps no tree, and it accepts some text that Spark's parser will refuse. What matters is
the opposite direction: everything that Spark could take for a call, a name or a query is in the result, or the text is
refused. For instance, two values side by side are refused, and that is what a query looks like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ebbtide.sql_text.tokens import Token, tokenize

__all__ = ["ExpressionReading", "UnknownSyntaxError", "read_expression"]

_MAX_CHARACTERS: Final = 100_000
_MAX_DEPTH: Final = 100
_QUERY_WORDS: Final = frozenset({"select", "with", "from", "table", "values", "map", "reduce"})
_UNARY: Final = frozenset({"+", "-", "~", "!"})
_BINARY: Final = frozenset(
    {"+", "-", "*", "/", "%", "&", "|", "^", "||", "=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "!<", "!>"}
)
_BINARY_WORDS: Final = frozenset({"and", "or", "div", "between"})
_COMPARISONS: Final = frozenset({"in", "like", "ilike", "rlike", "regexp", "between"})
_LITERAL_WORDS: Final = frozenset({"null", "true", "false"})
_LITERAL_TYPES: Final = frozenset({"date", "timestamp", "timestamp_ntz", "timestamp_ltz", "x"})
_CASTS: Final = frozenset({"cast", "try_cast"})
# Words that separate arguments in calls with a special form.
_SEPARATORS: Final[Mapping[str, frozenset[str]]] = {
    "trim": frozenset({"from"}),
    "substring": frozenset({"from", "for"}),
    "substr": frozenset({"from", "for"}),
    "overlay": frozenset({"placing", "from", "for"}),
    "position": frozenset({"in"}),
    "extract": frozenset({"from"}),
}
_UNIT_FIRST: Final = frozenset({"timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff"})
_UNITS: Final = frozenset(
    word + end
    for word in (
        "year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second", "millisecond",
        "microsecond", "nanosecond",
    )
    for end in ("", "s")
)  # fmt: skip


class UnknownSyntaxError(Exception):
    """The text is not an expression that this module accepts; the message says why."""


@dataclass(frozen=True, slots=True)
class ExpressionReading:
    """`calls` are function names in lower case, `names` the dotted names that are not parameters of a lambda."""

    calls: frozenset[str]
    names: tuple[tuple[str, ...], ...]
    tokens: tuple[Token, ...]


def read_expression(text: str) -> ExpressionReading:
    """The calls and names of an expression; UnknownSyntaxError for a subquery or unknown syntax."""
    if len(text) > _MAX_CHARACTERS:
        raise UnknownSyntaxError(f"it is {len(text)} characters long; the limit is {_MAX_CHARACTERS}")
    tokens = tokenize(text, is_substituted=False)
    if not tokens:
        raise UnknownSyntaxError("it is empty, or not SQL that Ebbtide can read")
    reader = _Reader(tokens)
    reader.expression(0)
    if reader.at < len(tokens):
        raise reader.syntax_error()
    return ExpressionReading(frozenset(reader.calls), tuple(reader.names), tokens)


@dataclass(slots=True)
class _Reader:
    tokens: tuple[Token, ...]
    at: int = 0
    calls: set[str] = field(default_factory=set)
    names: list[tuple[str, ...]] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    # --- looking ------------------------------------------------------------------------------------------------------

    def word(self, ahead: int = 0) -> str:
        """The bare word at this place, in lower case, as Spark folds it; "" when there is none."""
        place = self.at + ahead
        if place >= len(self.tokens) or self.tokens[place].kind != "word":
            return ""
        token = self.tokens[place]
        if not token.text.isascii() and (token.value or "").upper().isascii():
            # Spark folds letters upwards: `\u017felect` is SELECT to it.
            raise UnknownSyntaxError(f"'{token.value}' has letters that Spark takes for others")
        return token.text

    def sign(self, ahead: int = 0) -> str:
        place = self.at + ahead
        is_sign = place < len(self.tokens) and self.tokens[place].kind == "operator"
        return self.tokens[place].text if is_sign else ""

    def kind(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.tokens[place].kind if place < len(self.tokens) else ""

    def take(self, *signs: str) -> None:
        if self.sign() not in signs:
            raise self.syntax_error()
        self.at += 1

    def take_word(self, *words: str) -> None:
        if self.word() not in words:
            raise self.syntax_error()
        self.at += 1

    def syntax_error(self) -> UnknownSyntaxError:
        if self.at >= len(self.tokens):
            return UnknownSyntaxError("it ends where a value is expected")
        return UnknownSyntaxError(f"Ebbtide does not know what '{self.tokens[self.at].text[:40]}' means there")

    # --- the grammar --------------------------------------------------------------------------------------------------

    def expression(self, depth: int, stop: frozenset[str] = frozenset()) -> None:
        """Values with operators between them, up to the end of the expression. The words in `stop` end it too."""
        if depth > _MAX_DEPTH:
            raise UnknownSyntaxError(f"it nests more than {_MAX_DEPTH} levels deep")
        self.operand(depth)
        while self.at < len(self.tokens):
            if self.word() and self.word() in stop:
                return
            if self.sign() in _BINARY or self.word() in _BINARY_WORDS:
                self.at += 1
                self.operand(depth)
            elif not self.suffix(depth):
                return

    def operand(self, depth: int) -> None:
        while self.sign() in _UNARY or self.is_prefix_not():
            self.at += 1
        kind = self.kind()
        if kind == "number":
            self.at += 1
        elif kind == "string":
            self.strings()
        elif self.sign() == "(":
            self.parentheses(depth)
        elif kind == "quoted_name":
            self.name_or_call(depth)
        elif kind == "word":
            self.word_operand(depth)
        else:
            raise self.syntax_error()

    def is_prefix_not(self) -> bool:
        return self.word() == "not" and self.sign(1) != "."

    def strings(self) -> None:
        """Strings side by side are one string. One in double quotes may be a name, which could be called."""
        while self.kind() == "string":
            self.at += 1
        if self.sign() in {"(", "."}:
            raise self.syntax_error()

    def word_operand(self, depth: int) -> None:
        word = self.word()
        after = self.sign(1)
        is_value = after in {".", ")", ",", "="} or self.at + 1 == len(self.tokens)
        if word == "case" and not is_value:
            self.case(depth)
        elif word == "interval" and not is_value:
            self.interval()
        elif word in _CASTS and after == "(":
            self.cast(depth)
        elif word in _LITERAL_TYPES and self.kind(1) == "string":
            self.at += 2
        elif word in _LITERAL_WORDS and after not in {"(", "."}:
            self.at += 1
        else:
            self.name_or_call(depth)

    def name_or_call(self, depth: int) -> None:
        parts = [self.tokens[self.at].value or ""]
        first = self.word()
        self.at += 1
        if self.sign() == "->":
            self.lambda_body([parts[0]], depth)
            return
        while self.sign() == "." and self.kind(1) in {"word", "quoted_name"}:
            parts.append(self.tokens[self.at + 1].value or "")
            self.at += 2
        if self.sign() == "(":
            if len(parts) > 1 or not first:
                raise UnknownSyntaxError(f"it calls {'.'.join(parts)}, and only plain names of functions may be called")
            self.call(first, depth)
        elif parts[0].lower() not in self.parameters:
            self.names.append(tuple(parts))

    def call(self, name: str, depth: int) -> None:
        self.calls.add(name)
        self.at += 1
        if self.sign() == ")":
            self.at += 1
            return
        if name == "extract" or (name in _UNIT_FIRST and self.word() in _UNITS and self.sign(1) == ","):
            self.at += 1
            if name == "extract":
                self.take_word("from")
            else:
                self.take(",")
        elif name == "trim" and self.word() in {"both", "leading", "trailing"} and self.sign(1) not in {",", ")", "."}:
            self.at += 1
            if self.word() == "from":
                self.at += 1
        self.arguments(name, depth)
        self.take(")")

    def arguments(self, name: str, depth: int) -> None:
        separators = _SEPARATORS.get(name, frozenset())
        self.refuse_query()
        self.expression(depth + 1, separators)
        while self.sign() == "," or (self.word() and self.word() in separators):
            self.at += 1
            self.expression(depth + 1, separators)

    def parentheses(self, depth: int) -> None:
        if self.lambda_parameters():
            names = [token.value or "" for token in self.tokens[self.at + 1 : self.closing()] if token.text != ","]
            self.at = self.closing() + 1
            self.lambda_body(names, depth)
            return
        self.at += 1
        self.refuse_query()
        self.arguments("", depth)
        self.take(")")

    def lambda_parameters(self) -> bool:
        """Whether the next tokens are `(a, b) ->`."""
        end = self.closing()
        inner = self.tokens[self.at + 1 : end]
        is_list = all(
            (token.kind in {"word", "quoted_name"}) if place % 2 == 0 else token.text == ","
            for place, token in enumerate(inner)
        )
        return bool(inner) and is_list and self.tokens[end + 1 : end + 2] != () and self.tokens[end + 1].text == "->"

    def closing(self) -> int:
        """Where the next closing parenthesis is; good enough for a list of names."""
        place = self.at
        while place < len(self.tokens) and self.tokens[place].text != ")":
            place += 1
        return place

    def lambda_body(self, names: list[str], depth: int) -> None:
        self.take("->")
        before = len(self.parameters)
        self.parameters += [name.lower() for name in names]
        self.expression(depth + 1)
        del self.parameters[before:]

    def refuse_query(self) -> None:
        word = self.word()
        if word in _QUERY_WORDS and self.sign(1) != "." and not (word in {"map", "reduce"} and self.sign(1) == "("):
            raise UnknownSyntaxError("it holds a subquery (a column of that name must be in backticks)")

    def suffix(self, depth: int) -> bool:
        """Read what may follow a value besides an operator. Returns whether there was something."""
        word = self.word()
        if self.sign() == "[":
            self.at += 1
            self.expression(depth + 1)
            self.take("]")
        elif self.sign() == "::":
            self.at += 1
            self.data_type(depth)
        elif self.sign() == "." and self.kind(1) in {"word", "quoted_name"}:
            self.at += 2
        elif word == "is":
            self.is_test(depth)
        elif word == "not" and self.word(1) in _COMPARISONS:
            self.at += 1
            self.comparison(depth)
        elif word in _COMPARISONS:
            self.comparison(depth)
        elif (word == "escape" and self.kind(1) == "string") or (
            word == "collate" and self.kind(1) in {"word", "quoted_name"}
        ):
            self.at += 2
        else:
            return False
        return True

    def is_test(self, depth: int) -> None:
        self.at += 1
        if self.word() == "not":
            self.at += 1
        if self.word() == "distinct":
            self.at += 1
            self.take_word("from")
            self.operand(depth)
        else:
            self.take_word("null", "true", "false", "unknown")

    def comparison(self, depth: int) -> None:
        word = self.word()
        self.at += 1
        if word == "between":
            # The AND of a BETWEEN reads like any other AND.
            self.operand(depth)
        elif word == "in" or (word in {"like", "ilike"} and self.word() in {"any", "some", "all"}):
            self.at += word != "in"
            if self.sign() != "(":
                raise self.syntax_error()
            self.parentheses(depth)
        else:
            self.operand(depth)

    def case(self, depth: int) -> None:
        self.at += 1
        if self.word() != "when":
            self.expression(depth + 1, frozenset({"when"}))
        while self.word() == "when":
            self.at += 1
            self.expression(depth + 1, frozenset({"then"}))
            self.take_word("then")
            self.expression(depth + 1, frozenset({"when", "else", "end"}))
        if self.word() == "else":
            self.at += 1
            self.expression(depth + 1, frozenset({"end"}))
        self.take_word("end")

    def interval(self) -> None:
        """INTERVAL '1 day', INTERVAL 1 DAY 2 HOURS, INTERVAL '1-2' YEAR TO MONTH."""
        self.at += 1
        if self.kind() == "string" and self.word(1) not in _UNITS:
            self.at += 1
            return
        while True:
            self.at += self.sign() in {"+", "-"}
            if self.kind() not in {"number", "string"}:
                raise self.syntax_error()
            self.at += 1
            self.take_word(*_UNITS)
            if self.word() == "to":
                self.at += 1
                self.take_word(*_UNITS)
                return
            if not (self.kind() in {"number", "string"} or (self.sign() in {"+", "-"} and self.word(2) in _UNITS)):
                return

    def cast(self, depth: int) -> None:
        self.at += 2
        self.refuse_query()
        self.expression(depth + 1, frozenset({"as"}))
        self.take_word("as")
        self.data_type(depth)
        self.take(")")

    def data_type(self, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise UnknownSyntaxError(f"it nests more than {_MAX_DEPTH} levels deep")
        word = self.word()
        if not word:
            raise self.syntax_error()
        self.at += 1
        if word == "interval":
            self.take_word(*_UNITS)
            if self.word() == "to":
                self.at += 1
                self.take_word(*_UNITS)
        elif self.sign() == "(":
            self.at += 1
            while self.kind() == "number" or self.sign() == ",":
                self.at += 1
            self.take(")")
        elif self.sign() == "<":
            self.type_parts(word, depth)
        elif self.sign() == "<>" and word == "struct":
            self.at += 1

    def type_parts(self, word: str, depth: int) -> None:
        self.at += 1
        while True:
            if word == "struct":
                if self.kind() not in {"word", "quoted_name"}:
                    raise self.syntax_error()
                self.at += 1
                self.at += self.sign() == ":"
            self.data_type(depth + 1)
            if self.sign() != ",":
                break
            self.at += 1
        self.take(">")
