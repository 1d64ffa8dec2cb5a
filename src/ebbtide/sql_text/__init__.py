"""Spark's SQL text, read without Spark: tokens, brackets, names, literals, subqueries, tables."""

from ebbtide.sql_text.brackets import Brackets, match_brackets
from ebbtide.sql_text.literals import Literal, read_literal
from ebbtide.sql_text.names import GRAMMAR_WORDS, DottedName, delta_path_at, name_at, names_in, only_name
from ebbtide.sql_text.settings import (
    CASE_SENSITIVE,
    DATES_AS_TEXT,
    TEXT_SETTINGS,
    TIME_ZONE,
    ReadingSettings,
    TextSetting,
)
from ebbtide.sql_text.subqueries import has_subquery, text_has_subquery
from ebbtide.sql_text.tables import TimeTravel, table_places, time_travel_at
from ebbtide.sql_text.tokens import Token, is_keyword, is_sign, tokenize

__all__ = [
    "CASE_SENSITIVE",
    "DATES_AS_TEXT",
    "GRAMMAR_WORDS",
    "TEXT_SETTINGS",
    "TIME_ZONE",
    "Brackets",
    "DottedName",
    "Literal",
    "ReadingSettings",
    "TextSetting",
    "TimeTravel",
    "Token",
    "delta_path_at",
    "has_subquery",
    "is_keyword",
    "is_sign",
    "match_brackets",
    "name_at",
    "names_in",
    "only_name",
    "read_literal",
    "table_places",
    "text_has_subquery",
    "time_travel_at",
    "tokenize",
]
