"""Are Spark's habits around paths, names and errors known where no session is needed to know them?"""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException

from ebbtide import spark_border as border
from ebbtide.errors import (
    CorruptTableError,
    InvalidPredicateError,
    InvalidSyntaxError,
    MissingDataFileError,
    RequestError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
)


def raised(kind, condition, message="first line\nsecond line"):
    class Raised(kind):
        def __init__(self):
            Exception.__init__(self, message)

        def getCondition(self):
            return condition

        def getMessageParameters(self):
            return None

        def __str__(self):
            return message

    return Raised()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (raised(AnalysisException, "PATH_NOT_FOUND"), MissingDataFileError),
        (raised(PySparkException, "FAILED_READ_FILE.FILE_NOT_EXIST"), MissingDataFileError),
        (raised(PySparkException, "FAILED_READ_FILE.NO_HINT"), CorruptTableError),
        (raised(AnalysisException, "UNRESOLVED_COLUMN.WITH_SUGGESTION"), UnknownColumnError),
        (raised(ParseException, "PARSE_SYNTAX_ERROR"), InvalidSyntaxError),
        (raised(AnalysisException, "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN"), InvalidPredicateError),
        (raised(PySparkException, None), RequestError),
    ],
)
def test_errors_of_spark_become_ours_and_keep_their_first_line(error, expected):
    with pytest.raises(expected, match="While testing: first line") as caught, border.spark_errors("testing"):
        raise error
    assert type(caught.value) is expected
    assert caught.value.__cause__ is error
    assert "second line" not in str(caught.value)


def test_error_of_java_is_named_by_its_class_and_not_by_an_object_of_py4j():
    from py4j.protocol import Py4JJavaError

    class Raised(Py4JJavaError):
        def __init__(self):
            Exception.__init__(self)

        def __str__(self):
            return "An error occurred while calling o51.load.\n: java.lang.StackOverflowError: secret\n\tat a.b(c:1)"

    with pytest.raises(RequestError) as caught, border.spark_errors("testing"):
        raise Raised
    assert str(caught.value) == "While testing: Spark failed with StackOverflowError."


@pytest.mark.parametrize("collations", [{"x": "nope"}, {"x": 7}, 7])
def test_schema_that_spark_cannot_read_is_damage_of_the_table(collations):
    field = {"name": "x", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": collations}}
    with pytest.raises(CorruptTableError, match="collation"):
        border.schema_from_json({"type": "struct", "fields": [field]})


def test_errors_that_are_ours_already_pass_unchanged():
    error = TableNotFoundError("x")
    with pytest.raises(TableNotFoundError) as caught, border.spark_errors("testing"):
        raise error
    assert caught.value is error


def test_error_without_words_is_named_by_its_type():
    with pytest.raises(RequestError, match="While testing: Raised"), border.spark_errors("testing"):
        raise raised(PySparkException, "", message="")


@pytest.mark.parametrize("name", ["_x", "_x.parquet", ".x", "_", ".", "x._COPYING_", "_a\nb"])
def test_file_that_spark_skips_is_refused(name):
    with pytest.raises(UnsupportedFeatureError):
        border.ensure_listed(["file:/t/fine.parquet", f"file:/t/{name}"])


@pytest.mark.parametrize(
    "name", ["x", "x_", "_p=1", "_metadata", "_common_metadata", "x.parquet", "_delta_log/x", "a/.b/x"]
)
def test_file_that_spark_lists_is_accepted(name):
    border.ensure_listed([f"file:/t/{name}"])


def test_column_name_of_the_reader_is_refused_in_any_case():
    border.ensure_no_reserved_column(["id", "_tmp_metadata_row_index_", "_metadata"])
    for name in ("_tmp_metadata_row_index", "_TMP_METADATA_ROW_INDEX"):
        with pytest.raises(UnsupportedFeatureError, match=name):
            border.ensure_no_reserved_column(["id", name])


def test_glob_characters_are_escaped_and_nothing_else():
    assert border.escape_glob("file:/a b/[x]{y}*?\\é%20") == "file:/a b/\\[x\\]\\{y\\}\\*\\?\\\\é%20"


def test_helper_name_is_one_that_no_column_has_in_any_case():
    first = border.HelperNames(["a"]).pick("x")
    second = border.HelperNames(["a"], [first.upper()]).pick("x")
    third = border.HelperNames([first], [second]).pick("x")
    assert len({first, second, third}) == 3


def test_helper_name_is_handed_out_once():
    names = border.HelperNames([])
    assert names.pick("x") != names.pick("x")


@pytest.mark.parametrize(
    ("input_file", "reader_name", "path"),
    [
        ("file:///t/a%20b.parquet", "file:/t/a%20b.parquet", "file:/t/a b.parquet"),
        ("s3a://bucket/a%2525.parquet", "s3a://bucket/a%2525.parquet", "s3a://bucket/a%25.parquet"),
    ],
)
def test_two_spellings_of_spark_for_one_file_are_known(input_file, reader_name, path):
    assert border.reader_name_of(input_file) == reader_name
    assert border.file_path_of(reader_name) == path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one of [`id`, `__ebbtide_file`, `v`].", "one of [`id`, `v`]."),
        ("one of [`__ebbtide_file`, `id`].", "one of [`id`]."),
        ("one of [`__ebbtide_target`.`id`, `s`.`id`].", "one of [`id`, `s`.`id`]."),
        ("cannot find __ebbtide_0ff.id here", "cannot find id here"),
        ("`ebbtide` and `my__ebbtide_x`", "`ebbtide` and `my__ebbtide_x`"),
    ],
)
def test_names_of_helpers_do_not_reach_the_user(text, shown):
    with pytest.raises(UnknownColumnError) as caught, border.spark_errors("testing"):
        raise raised(AnalysisException, "UNRESOLVED_COLUMN.WITH_SUGGESTION", text)
    assert str(caught.value).endswith(shown)


def test_interrupt_that_spark_wraps_is_an_interrupt():
    with pytest.raises(KeyboardInterrupt), border.spark_errors("testing"):
        try:
            raise KeyboardInterrupt
        finally:
            raise raised(PySparkException, "SPARK_JOB_CANCELLED")


STACK = "Origin(None,None,Some([Ljava.lang.StackTraceElement;@1f2e),Some((col, /home/me/job (1).py:7)))"


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("Column<'(id = 1)'>", "(id = 1)"),
        ("Column<'(note = ', Origin(x)')'>", "(note = ', Origin(x)')"),
        (f"Column<'f(UnresolvedAttribute(List(t, id),None,false,{STACK}))'>", "f(t.id)"),
        (f"Column<'(f(UnresolvedAttribute(List(id),None,false,{STACK})) AND (v > 1))'>", "(f(id) AND (v > 1))"),
        (f"Column<'f(columnnodeexpression(UnresolvedAttribute(List(id),None,false,{STACK})))'>", "f(id)"),
        (f"Column<'f(Literal(1,Some(IntegerType),{STACK}))'>", "f(1)"),
        (f"Column<'f(x,{STACK[:-3]}'>", "a condition with a Python function"),
    ],
)
def test_column_is_printed_without_the_program_that_made_it(printed, shown):
    class Printed:
        def __str__(self):
            return printed

    assert border.printed_column(Printed()) == shown
