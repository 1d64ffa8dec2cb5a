"""Which expressions of a table are let through to Spark, and in which words? (No Spark is asked here.)"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.log_builder import MemoryStore
from tests.support.write_targets import struct, write_target

from ebbtide.errors import UnknownColumnError, UnsupportedFeatureError
from ebbtide.session_settings import ALLOWED_FUNCTIONS
from ebbtide.write.table_expressions import ALLOWED_FUNCTIONS_SETTING, TableExpression, _check_expression


def checked(text, kind="check", **columns):
    target = write_target(MemoryStore(), struct(**(columns or {"id": "long", "v": "string", "d": "date"})))
    return _check_expression(TableExpression(kind, "c", text), target, None)


@pytest.mark.parametrize("text", ["id > 0", "upper(v) = 'A'", "d <= current_date", "`V` IS NULL", 'v <> "id"'])
def test_harmless_text_goes_to_spark_as_it_is(text):
    assert checked(text)[0] == text


def test_functions_without_parentheses_count_as_calls_where_no_column_has_their_name():
    assert checked("d < current_date and v = v")[1] == {"current_date"}
    assert checked("current_date > 0", current_date="long")[1] == frozenset()
    with pytest.raises(UnsupportedFeatureError, match="current_user"):
        checked("v = current_user")
    assert checked("user", "default")[1] == {"user"}


@pytest.mark.parametrize(
    ("text", "kind", "function"),
    [
        ("reflect('a', 'b')", "check", "reflect"),
        ("try_reflect('a', 'b')", "default", "try_reflect"),
        ("java_method('a', 'b')", "generated", "java_method"),
        ("current_timestamp()", "generated", "current_timestamp"),
        ("current_user() = v", "check", "current_user"),
        ("uuid()", "default", "uuid"),
        ("coalesce(v, rand())", "generated", "rand"),
        ("xpath_string(v, 'a')", "check", "xpath_string"),
        ("try_variant_get(v, '$', 'int')", "check", "try_variant_get"),
    ],
)
def test_a_function_outside_of_the_list_is_refused(text, kind, function):
    with pytest.raises(UnsupportedFeatureError, match=f"calls {function},"):
        checked(text, kind)


@pytest.mark.parametrize("text", ["w > 0", "id > x.y", "system.session.secret = v", "t.id > 0", "`w` = 1"])
def test_a_name_that_is_no_column_is_refused(text):
    with pytest.raises(UnknownColumnError, match="no column of the table"):
        checked(text)


def test_a_default_names_no_column():
    with pytest.raises(UnknownColumnError, match="names no columns"):
        checked("id + 1", "default")
    assert checked("transform(array(1), x -> x + 1)[0]", "default")[1] == {"transform", "array"}


@pytest.mark.parametrize(
    ("text", "given_to_spark"),
    [
        ("v <> '${env:HOME}'", "v <> '$' '{env:HOME}'"),
        ("v <> r'a${b}c${d}'", "v <> r'a$' r'{b}c$' r'{d}'"),
        ("v <> '\\${x}'", "v <> '\\$' '{x}'"),
        ('v <> "${x}"', "v <> '$' '{x}'"),
        ('v <> "it\'s ${x}"', 'v <> "it\'s $" "{x}"'),
        ("v <> 'a' -- ${x}", "v <> 'a'"),
        ("v /* ${x} */ <> 'a'", "v <> 'a'"),
        ('v <> "secret"', "v <> 'secret'"),
        ('"v" <> "a"', "\"v\" <> 'a'"),
    ],
)
def test_no_variable_is_left_for_spark_to_replace(text, given_to_spark):
    assert checked(text)[0] == given_to_spark


def test_a_variable_in_a_name_is_refused():
    with pytest.raises(UnsupportedFeatureError, match="in a name"):
        checked("`${x}` = 1", **{"${x}": "long"})


def test_the_message_says_how_to_drop_the_expression_and_how_to_allow_the_function():
    with pytest.raises(UnsupportedFeatureError) as caught:
        checked("uuid() = v")
    assert caught.value.error_class == "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT"
    assert "DROP CONSTRAINT `c`" in str(caught.value) and ALLOWED_FUNCTIONS_SETTING in str(caught.value)
    assert ALLOWED_FUNCTIONS_SETTING == ALLOWED_FUNCTIONS


def test_a_function_that_runs_code_cannot_be_allowed():
    target = write_target(MemoryStore(), struct(id="long"))
    trusting = replace(target, allowed_functions=frozenset({"reflect"}))
    with pytest.raises(UnsupportedFeatureError, match="whatever code"):
        _check_expression(TableExpression("check", "c", "reflect('a', 'b')"), trusting, None)
