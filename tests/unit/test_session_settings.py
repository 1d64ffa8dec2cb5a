"""Are the session's switches read as delta-spark users know them, and arguments before them?"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ebbtide.config import EngineConfig
from ebbtide.delta_spark_settings import PREFIX, find_unfollowed
from ebbtide.errors import RequestError
from ebbtide.session_settings import (
    COMMIT_ATTEMPTS,
    DELETE_WITH_VECTORS,
    DYNAMIC_OVERWRITE,
    PARTITION_OVERWRITE_MODE,
    TXN_APP_ID,
    TXN_AUTO_RESET,
    TXN_VERSION,
    USER_METADATA,
    VECTOR_FILE_SIZE,
    overwrites_dynamically,
    parse_bytes,
    reset_txn_version,
    write_options,
)


class JavaMap(dict):
    """What classic Spark gives for all settings: a map whose printed form takes one call, and each look at it another."""

    def toString(self):
        return "{" + ", ".join(f"{name}={value}" for name, value in dict.items(self)) + "}"

    def items(self):
        raise AssertionError("each item is a call into the JVM")


def session(kind=dict, **settings):
    conf = SimpleNamespace(get=lambda name, default=None: settings.get(name, default), getAll=kind(settings))
    conf.unset = lambda name: settings.pop(name, None)
    return SimpleNamespace(conf=conf)


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
        (COMMIT_ATTEMPTS, "0"),
    ],
)
def test_unusable_setting_is_named_with_its_value(key, value):
    with pytest.raises(RequestError) as refused:
        options_of({TXN_APP_ID: "a", TXN_VERSION: "1", key: value})
    assert key in str(refused.value)
    assert value in str(refused.value)


def test_settings_of_classic_spark_are_found_in_their_printed_form():
    settings = {TXN_APP_ID: "a, b={c}", TXN_VERSION: "7", "spark.app.name": f"x, {USER_METADATA}=not a setting"}
    options = write_options(session(JavaMap, **settings))
    assert (options.txn_app_id, options.txn_version, options.user_metadata) == ("a, b={c}", 7, None)


def test_number_of_commit_attempts_is_delta_sparks():
    assert options_of({COMMIT_ATTEMPTS: "3"}).config.max_commit_attempts == 3


@pytest.mark.parametrize(("switch", "expected"), [({}, True), ({DYNAMIC_OVERWRITE: "false"}, False)])
def test_dynamic_overwrite_can_be_switched_off_for_delta_tables(switch, expected):
    assert overwrites_dynamically(session(**{PARTITION_OVERWRITE_MODE: "DYNAMIC"} | switch)) is expected


@pytest.mark.parametrize(
    ("switch", "given", "is_reset"),
    [
        ({TXN_AUTO_RESET: "true"}, None, True),
        ({TXN_AUTO_RESET: "true"}, {"txn_app_id": None}, True),
        ({TXN_AUTO_RESET: "true"}, {"txn_app_id": "b", "txn_version": 1}, False),
        ({TXN_AUTO_RESET: "false"}, None, False),
        ({}, None, False),
    ],
)
def test_number_of_the_application_transaction_is_forgotten_where_the_session_asks(switch, given, is_reset):
    spark = session(**{TXN_APP_ID: "a", TXN_VERSION: "1"} | switch)
    with reset_txn_version(spark, given):
        pass
    assert (spark.conf.get(TXN_VERSION) is None) is is_reset
    assert spark.conf.get(TXN_APP_ID) == "a"


def test_command_that_failed_keeps_its_number_for_the_next_attempt():
    spark = session(**{TXN_APP_ID: "a", TXN_VERSION: "1", TXN_AUTO_RESET: "true"})
    with pytest.raises(RequestError), reset_txn_version(spark):
        raise RequestError("x")
    assert spark.conf.get(TXN_VERSION) == "1"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("optimizeWrite.enabled", "true", "does not follow"),
        ("optimizeWrite.enabled", "True", "does not follow"),
        ("stats.collect", "false", "works as with 'true'"),
        ("replaceWhere.constraintCheck.enabled", "false", "does not follow"),
        ("delte.deletionVectors.persistent", "false", "does not know"),
        ("optimize.maxFilesize", "1m", "does not know"),
        ("optimize.batchSize", "1m", "does not know"),
        ("vacuum.lit.enabled", "true", "does not know"),
        ("restore.protocolDowngradeAlowed", "true", "does not know"),
        ("autoCompact.minFiles", "3", "does not know"),
        ("convert.partitionValues.ignoreCastFailure", "true", "works as with 'false'"),
        ("clusteredTable.numClusteringColumnsLimit", "8", "works as with '4'"),
        ("tableFeatures.fastDropFeature.enabled", "false", "works as with 'true'"),
        ("properties.default.appendOnly", "true", "does not know"),
    ],
)
def test_setting_that_is_not_followed_is_named(name, value, words):
    [(found, sentence)] = find_unfollowed({PREFIX + name: value})
    assert found == PREFIX + name
    assert words in sentence
    assert PREFIX + name in sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("autoCompact.enabled", "true"),
        ("optimizeWrite.enabled", "FALSE"),
        ("stats.collect", "true"),
        ("snapshotPartitions", "1"),
        ("stalenessLimit", "0"),
        ("properties.defaults.appendOnly", "true"),
        ("write.txnVersion.autoReset.enabled", "true"),
        ("merge.optimizeInsertOnlyMerge.enabled", "false"),
        ("vacuum.parallelDelete.enabled", "true"),
        ("vacuum.lite.enabled", "true"),
        ("optimize.maxFileSize", "1m"),
        ("optimize.repartition.enabled", "true"),
        ("clone.replaceEnabled", "true"),
        ("retentionDurationCheck.enabled", "false"),
    ],
)
def test_setting_that_is_followed_or_changes_nothing_is_not_mentioned(name, value):
    assert list(find_unfollowed({PREFIX + name: value})) == []


def test_user_is_told_once_per_setting_and_session(caplog):
    settings = {PREFIX + "optimizeWrite.enabled": "true", PREFIX + "nonsense": "1"}
    one, other = session(**settings), session(**settings)
    for spark in (one, one, other):
        write_options(spark)
    assert [PREFIX + "nonsense" in record.getMessage() for record in caplog.records] == [False, True] * 2
