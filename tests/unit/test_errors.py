"""Are our errors the same after a journey, and PySpark's where users catch those?"""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import pytest
from pyspark.errors import (
    AnalysisException,
    ParseException,
    PySparkException,
    PySparkTypeError,
    PySparkValueError,
    UnsupportedOperationException,
)

import ebbtide
from ebbtide import errors
from ebbtide.errors import (
    ArgumentTypeError,
    DeltaError,
    InvalidPredicateError,
    InvalidSyntaxError,
    RequestError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from ebbtide.sql_states import sql_state

EVERY_CLASS = [getattr(errors, name) for name in errors.__all__]
JOURNEYS = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("journey", JOURNEYS)
@pytest.mark.parametrize("kind", EVERY_CLASS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("error_class", [None, "", "DELTA_SOMETHING"])
def test_error_that_travels_says_its_class_once(kind, error_class, journey):
    error = kind("It broke.", error_class=error_class)
    error.message_parameters = {"name": "x"}
    arrived = JOURNEYS[journey](JOURNEYS[journey](error))
    assert type(arrived) is kind
    assert str(arrived) == str(error)
    assert str(error) == (f"[{error.error_class}] It broke." if error.error_class else "It broke.")
    assert (arrived.error_class, arrived.getMessageParameters()) == (error.error_class, {"name": "x"})


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (DeltaError, PySparkException),
        (RequestError, (ValueError, PySparkValueError)),
        (ArgumentTypeError, (TypeError, PySparkTypeError)),
        (InvalidPredicateError, AnalysisException),
        (InvalidSyntaxError, ParseException),
        (SchemaMismatchError, AnalysisException),
        (UnknownColumnError, AnalysisException),
        (VersionNotFoundError, AnalysisException),
        (TableNotFoundError, AnalysisException),
        (TableAlreadyExistsError, AnalysisException),
        (UnsupportedFeatureError, UnsupportedOperationException),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_error_is_caught_as_pysparks(ours, theirs):
    for kind in theirs if isinstance(theirs, tuple) else (theirs,):
        with pytest.raises(kind) as caught:
            raise ours("x")
        assert isinstance(caught.value, DeltaError)


@pytest.mark.parametrize("kind", EVERY_CLASS, ids=lambda kind: kind.__name__)
def test_error_answers_every_question_that_pyspark_answers(kind):
    error = kind("It broke.", error_class="DELTA_MISSING_DELTA_TABLE")
    assert (error.getCondition(), error.getErrorClass(), error.getSqlState()) == (
        "DELTA_MISSING_DELTA_TABLE",
        "DELTA_MISSING_DELTA_TABLE",
        "42P01",
    )
    assert error.getMessage() == str(error) == "[DELTA_MISSING_DELTA_TABLE] It broke."
    assert (error.getMessageParameters(), error.getQueryContext(), error.getBreakingChangeInfo()) == ({}, [], None)
    assert kind("x", error_class="").getCondition() is None
    assert kind("x", error_class="").getSqlState() is None


def test_condition_below_a_class_has_the_sql_state_of_the_class():
    assert UnknownColumnError("x", error_class="UNRESOLVED_COLUMN.WITH_SUGGESTION").getSqlState() == "42703"


def test_every_class_of_delta_that_we_name_has_its_sql_state():
    source = Path(ebbtide.__file__).parent
    texts = [module.read_text(encoding="utf-8") for module in source.rglob("*.py") if module.stem != "sql_states"]
    named = {name for text in texts for name in re.findall(r'"(DELTA_[A-Z0-9_]+)[".]', text)}
    assert len(named) > 100
    # Delta has no class of its own for these two.
    named -= {"DELTA_PARTITIONING_MISMATCH", "DELTA_REPLACE_WHERE_WITH_OVERWRITE_SCHEMA"}
    assert {name for name in named if sql_state(name) is None} == set()
