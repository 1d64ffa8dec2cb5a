"""Which session settings change what a condition means, and how is it still read safely?

Users' sessions have settings that we did not choose. Each one has an answer here: pruning reads the setting, reads
only texts on which all of its values agree, or is not affected because it never looks at such a text. The table is
in docs/reading.md, and `tests/spark/scan/test_pruning_under_settings.py` asks Spark under each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CASE_SENSITIVE", "DATES_AS_TEXT", "TEXT_SETTINGS", "TIME_ZONE", "ReadingSettings", "TextSetting"]

CASE_SENSITIVE: Final = "spark.sql.caseSensitive"
TIME_ZONE: Final = "spark.sql.session.timeZone"
DATES_AS_TEXT: Final = "spark.sql.legacy.typeCoercion.datetimeToString.enabled"


@dataclass(frozen=True, slots=True)
class ReadingSettings:
    """The settings that pruning reads, as one session has them. The defaults are Spark's, without a time zone."""

    case_sensitive: bool = False
    session_timezone: str | None = None
    compares_dates_as_text: bool = False


@dataclass(frozen=True, slots=True)
class TextSetting:
    """What a setting, away from its default, changes in the meaning of a text, and what pruning does about it."""

    key: str
    odd_values: tuple[str, ...]
    changes: str
    answer: str


TEXT_SETTINGS: Final = (
    TextSetting(CASE_SENSITIVE, ("true",), "which column a name means", "the setting is read"),
    TextSetting(
        TIME_ZONE,
        ("America/New_York", "+05:30"),
        "which instant a timestamp without a zone is",
        "the setting is read; in zones with rules of their own, up to two hours on either side count as possible",
    ),
    TextSetting(
        DATES_AS_TEXT,
        ("true",),
        "dates and timestamps are compared with strings as texts",
        "the setting is read; such comparisons exclude no file",
    ),
    TextSetting(
        "spark.sql.parser.escapedStringLiterals",
        ("true",),
        "what backslashes and `r'...'` mean in a string",
        "a string with either excludes no file",
    ),
    TextSetting(
        "spark.sql.legacy.consecutiveStringLiterals.enabled",
        ("true",),
        "`'it''s'` and `'a' 'b'` are several strings, or one with a quote in it",
        "such strings exclude no file",
    ),
    TextSetting(
        "spark.sql.ansi.doubleQuotedIdentifiers",
        ("true",),
        'whether `"city"` is a string or a column',
        "a string in double quotes excludes no file if the table has a column of that name",
    ),
    TextSetting(
        "spark.sql.variable.substitute",
        ("false",),
        "whether `${...}` is replaced, before anything else is read",
        "a condition with `${` in it, even in a comment, excludes no file",
    ),
    TextSetting(
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled",
        ("true",),
        "whether `1e3` is a double or a decimal",
        "it is compared with float and double columns only",
    ),
    TextSetting(
        "spark.sql.timestampType",
        ("TIMESTAMP_NTZ",),
        "whether `TIMESTAMP'...'` without a zone is an instant or a wall clock time",
        "it is compared with timestamp columns only, for which both are the same instant",
    ),
    TextSetting(
        "spark.sql.ansi.enabled",
        ("false",),
        "how strings and numbers are cast to compare them",
        "only texts that both ways read alike, such as `'42'`, are compared with a column of another type",
    ),
    TextSetting(
        "spark.sql.legacy.literal.pickMinimumPrecision",
        ("false",),
        "the decimal type of a whole number",
        "where the widest of the types would cut digits off, the comparison excludes no file",
    ),
    TextSetting(
        "spark.sql.legacy.allowNegativeScaleOfDecimal",
        ("true",),
        "the decimal type of `1e3BD`",
        "the value is the same",
    ),
    TextSetting(
        "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate",
        ("true",),
        "which digits a decimal type that is too wide loses",
        "no comparison that would lose digits excludes a file",
    ),
    TextSetting(
        "spark.sql.parser.quotedRegexColumnNames",
        ("true",),
        "whether a name in backquotes is a pattern",
        "a condition with a pattern that means several columns is refused by Spark",
    ),
    TextSetting("spark.sql.legacy.bangEqualsNot", ("true",), "`a ! IN (1)`", "such a part excludes no file"),
    TextSetting(
        "spark.sql.ansi.enforceReservedKeywords", ("true",), "which words may be columns", "Spark refuses the others"
    ),
    TextSetting(
        "spark.sql.legacy.timeParserPolicy", ("LEGACY",), "how functions parse dates", "functions exclude no file"
    ),
    TextSetting("spark.sql.mapKeyDedupPolicy", ("LAST_WIN",), "what map functions give", "functions exclude no file"),
    TextSetting(
        "spark.sql.readSideCharPadding",
        ("false",),
        "what a CHAR column is equal to",
        "comparisons with a CHAR or a collated column exclude no file",
    ),
)
