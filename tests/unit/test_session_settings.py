"""Are the session's switches read as delta-spark users know them, and arguments before them?"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ebbtide.config import EngineConfig
from ebbtide.errors import RequestError
from ebbtide.session_settings import (
    DELETE_WITH_VECTORS,
    TXN_APP_ID,
    TXN_VERSION,
    USER_METADATA,
    VECTOR_FILE_SIZE,
    parse_bytes,
    write_options,
)


def session(**settings):
    return SimpleNamespace(conf=SimpleNamespace(get=settings.get))


def options_of(settings, **arguments):
    return write_options(session(**settings), **arguments)


def test_session_without_settings_gives_the_defaults():
    options = options_of({})
    assert (options.deletion_vectors, options.conflicts, options.txn_app_id, options.user_metadata) == (
        "on",
        "rebase",
        None,
        None,
    )
    assert options.config == EngineConfig()


@pytest.mark.parametrize(("text", "mode"), [("true", "on"), (" False ", "off"), ("AUTO", "auto")])
def test_switch_of_vectors_has_three_positions(text, mode):
    assert options_of({DELETE_WITH_VECTORS: text}).deletion_vectors == mode


def test_arguments_win_over_the_session():
    settings = {DELETE_WITH_VECTORS: "maybe", USER_METADATA: "session", TXN_APP_ID: "a", TXN_VERSION: "x"}
    options = options_of(settings, deletion_vectors="auto", user_metadata="mine", txn_app_id="b", txn_version=3)
    assert (options.deletion_vectors, options.user_metadata) == ("auto", "mine")
    assert (options.txn_app_id, options.txn_version) == ("b", 3)


def test_application_transaction_is_never_put_together_from_both():
    with pytest.raises(RequestError) as refused:
        options_of({TXN_APP_ID: "a", TXN_VERSION: "1"}, txn_app_id="b")
    assert refused.value.error_class == "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"


@pytest.mark.parametrize(
    ("text", "size"),
    [("2097152", 2097152), ("2m", 2 << 20), ("2 MiB", 2 << 20), ("512kb", 512 << 10), ("7b", 7), ("1g", 1 << 30)],
)
def test_size_is_read_as_spark_reads_sizes(text, size):
    assert parse_bytes(text) == size
    assert options_of({VECTOR_FILE_SIZE: text}).config.deletion_vector_target_bytes == size


@pytest.mark.parametrize("text", ["", "m", "-1", "1.5m", "2 x", "1e6", "٣"])
def test_text_that_is_no_size_is_none(text):
    assert parse_bytes(text) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (DELETE_WITH_VECTORS, "yes"),
        (VECTOR_FILE_SIZE, "4g"),
        (VECTOR_FILE_SIZE, "much"),
        (TXN_VERSION, str(1 << 63)),
        (TXN_VERSION, "1.0"),
    ],
)
def test_unusable_setting_is_named_with_its_value(key, value):
    with pytest.raises(RequestError) as refused:
        options_of({TXN_APP_ID: "a", TXN_VERSION: "1", key: value})
    assert key in str(refused.value)
    assert value in str(refused.value)
