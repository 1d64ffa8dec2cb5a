"""Is one dialect of storage options enough? Names of ours, of Spark's connectors and of the environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ebbtide.storage import open_store
from ebbtide.storage.locations import parse_location
from ebbtide.storage.option_names import OPTION_NAMES
from ebbtide.storage.options import parse_options

PAGE = Path(__file__).parents[3] / "docs" / "storage.md"
HOST = "acc.dfs.core.windows.net"
KEYS = {"aws_access_key_id": "AKIAGIVEN", "aws_secret_access_key": "given-secret"}
SESSION = {
    "spark.hadoop.fs.s3a.access.key": "AKIASESSION",
    "spark.hadoop.fs.s3a.secret.key": "session-secret",
    "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
    "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
    "spark.hadoop.fs.s3a.connection.maximum": "100",
}


def parsed(url, options):
    return parse_options(options, parse_location(url))


def test_page_has_the_table_of_names_that_the_code_has():
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(row.shown, row.spark, row.variable) for row in OPTION_NAMES]


def test_options_for_s3_reach_spark_under_its_names_and_for_this_bucket():
    given = {**KEYS, "region": "eu-west-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "allow_http": "true"}
    told = open_store("s3://bkt/t", given).spark_options
    assert told["fs.s3a.access.key"] == told["fs.s3a.bucket.bkt.access.key"] == "AKIAGIVEN"
    assert told["fs.s3a.secret.key"] == "given-secret"
    assert told["fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert told["fs.s3a.endpoint.region"] == "eu-west-1"
    assert told["fs.s3a.connection.ssl.enabled"] == "false"
    assert told["fs.s3a.path.style.access"] == "true"
    assert told["fs.s3a.aws.credentials.provider"].endswith(".SimpleAWSCredentialsProvider")
    assert not any("disable.cache" in name for name in told), "each path would have a client and threads of its own"


def test_session_token_and_no_signature_choose_the_provider():
    told = parsed("s3://bkt/t", {**KEYS, "aws_session_token": "tok"}).for_spark
    assert told["fs.s3a.session.token"] == "tok"
    assert told["fs.s3a.aws.credentials.provider"].endswith(".TemporaryAWSCredentialsProvider")
    told = parsed("s3://bkt/t", {"skip_signature": "true"}).for_spark
    assert told["fs.s3a.aws.credentials.provider"].endswith(".AnonymousAWSCredentialsProvider")


@pytest.mark.parametrize("options", [None, {}, {"max_retries": "3"}, {"timeout": "5s"}])
def test_options_that_spark_need_not_know_change_nothing_for_it(options):
    assert parsed("s3://bkt/t", options).for_spark == {}


@pytest.mark.parametrize("url", [f"abfss://c@{HOST}/t", "az://c/t"])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"account_key": "a2V5"},
            {f"fs.azure.account.key.{HOST}": "a2V5", f"fs.azure.account.auth.type.{HOST}": "SharedKey"},
        ),
        ({"azure_storage_sas_token": "?sv=1"}, {f"fs.azure.sas.fixed.token.{HOST}": "sv=1"}),
        (
            {"client_id": "id", "client_secret": "hush", "tenant_id": "ten"},
            {
                f"fs.azure.account.oauth2.client.id.{HOST}": "id",
                f"fs.azure.account.oauth2.client.secret.{HOST}": "hush",
                f"fs.azure.account.oauth2.client.endpoint.{HOST}": "https://login.microsoftonline.com/ten/oauth2/token",
            },
        ),
    ],
)
def test_options_for_azure_reach_spark_for_this_account(url, given, told):
    assert told.items() <= parsed(url, {**given, "account_name": "acc"}).for_spark.items()


def test_key_file_for_google_reaches_spark():
    told = parsed("gs://bkt/t", {"google_service_account": "/key.json"}).for_spark
    assert told["fs.gs.auth.service.account.json.keyfile"] == "/key.json"


def test_settings_of_the_session_are_understood_and_not_handed_back():
    options = parsed("s3://bkt/t", SESSION)
    assert options.config == {
        "access_key_id": "AKIASESSION",
        "secret_access_key": "session-secret",
        "endpoint": "http://127.0.0.1:9000",
        "region": "eu-central-1",
    }
    assert options.client["allow_http"] == "true"
    assert options.for_spark == {}
    assert options.has_credentials
    assert "session-secret" not in repr(options)
    assert options.scrub("x session-secret y") == "x *** y"
    assert open_store("s3://bkt/t", SESSION).spark_options == {}


@pytest.mark.parametrize("name", ["region", "aws_region", "AWS_DEFAULT_REGION"])
def test_options_win_over_the_session_key_by_key(name):
    options = parsed("s3://bkt/t", {**SESSION, name: "us-west-2"})
    assert options.value("region", "default_region") == "us-west-2"
    assert options.value("access_key_id") == "AKIASESSION"
    assert options.for_spark["fs.s3a.endpoint.region"] == "us-west-2"
    assert "fs.s3a.access.key" not in options.for_spark


def test_settings_of_one_bucket_win_over_those_of_all():
    settings = {**SESSION, "spark.hadoop.fs.s3a.bucket.bkt.access.key": "AKIABUCKET"}
    assert parsed("s3://bkt/t", settings).value("access_key_id") == "AKIABUCKET"
    assert parsed("s3://other/t", settings).value("access_key_id") == "AKIASESSION"


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("s3.amazonaws.com", {}),
        ("s3.eu-west-1.amazonaws.com", {"region": "eu-west-1"}),
        ("https://s3.eu-west-1.amazonaws.com", {"region": "eu-west-1"}),
        ("minio:9000", {"endpoint": "https://minio:9000"}),
    ],
)
def test_endpoint_of_the_session_needs_no_scheme(endpoint, expected):
    assert parsed("s3://bkt/t", {"spark.hadoop.fs.s3a.endpoint": endpoint}).config == expected


def test_settings_of_the_session_for_azure_and_google_are_understood():
    url = f"abfss://c@{HOST}/t"
    assert parsed(url, {f"spark.hadoop.fs.azure.account.key.{HOST}": "a2V5"}).config == {"account_key": "a2V5"}
    login = {
        "spark.hadoop.fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/ten/oauth2/token"
    }
    assert parsed(url, login).config == {"tenant_id": "ten"}
    google = {"spark.hadoop.fs.gs.auth.service.account.json.keyfile": "/key.json"}
    assert parsed("gs://bkt/t", google).config == {"service_account": "/key.json"}
