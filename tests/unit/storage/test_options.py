from __future__ import annotations

import pytest

from ebbtide.errors import RequestError
from ebbtide.storage import open_store
from ebbtide.storage.options import parse_options

SECRET = "Hunter2+Secret/Value=="


@pytest.mark.parametrize("name", ["region", "aws_region", "AWS_REGION", "Region"])
def test_a_key_is_known_in_any_case_with_or_without_its_prefix(name):
    assert name.lower() in repr(open_store("s3://bucket/t", {name: "eu-north-1", "skip_signature": "true"}))


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("s3://bucket/t", "aws_endpiont"),
        ("s3://bucket/t", "fs.s3a.secret.key"),
        ("s3://bucket/t", "google_service_account_key"),
        ("gs://bucket/t", "aws_secret_access_key"),
        ("az://container/t", "nonsense"),
        ("/tmp/t", "aws_secret_access_key"),
        ("memory://name/t", "token"),
    ],
)
def test_an_unknown_key_is_named_and_its_value_is_not(url, key):
    with pytest.raises(RequestError, match=key) as caught:
        open_store(url, {"account_name": "acc", key: SECRET} if url.startswith("az") else {key: SECRET})
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("s3://bucket/t", {"timeout": SECRET}, "timeout"),
        ("s3://bucket/t", {"allow_http": SECRET}, "allow_http"),
        ("s3://bucket/t", {"conditional_put": SECRET}, "conditional_put"),
        ("s3://bucket/t", {"max_retries": SECRET}, "max_retries"),
        ("s3://bucket/t", {"max_retries": "3s"}, "max_retries"),
        ("s3://bucket/t", {"retry_timeout": SECRET}, "retry_timeout"),
        ("s3://bucket/t", {"bucket": SECRET}, "bucket"),
        ("s3://bucket/t", {"aws_bucket_name": SECRET}, "aws_bucket_name"),
        ("s3://bucket/t", {"access_key_id": SECRET}, "access_key_id"),
        ("s3://bucket/t", {"region": "x", "aws_region": SECRET}, "region"),
        ("s3://bucket/t", {"session_token": f"{SECRET}\n"}, "session_token"),
        ("gs://bucket/t", {"service_account_key": SECRET}, "service_account_key"),
        ("gs://bucket/t", {"service_account": SECRET}, "service_account"),
        ("az://container/t", {"account_key": f"{SECRET}!", "account_name": "acc"}, "account_key"),
        ("az://container/t", {"sas_token": SECRET[:8], "account_name": "acc"}, "sas_token"),
        ("az://container/t", {}, "Account must be specified"),
        ("abfss://c@acc.dfs.core.windows.net/t", {"account_name": SECRET}, "account_name"),
    ],
)
def test_an_unusable_value_is_refused_by_key_and_not_repeated(monkeypatch, url, options, named):
    for variable in ("AZURE_STORAGE_ACCOUNT_NAME", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(RequestError, match=named) as caught:
        open_store(url, options)
    assert SECRET not in str(caught.value)
    assert SECRET[:8] not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "endpoint",
    ["", "http://", "host:9000", "not a url", "ftp://host", "http://hö.st", "http://host:99999", "http://host?x=1"],
)
@pytest.mark.parametrize("key", ["endpoint", "aws_endpoint_url", "AWS_ENDPOINT_URL_S3"])
def test_a_malformed_endpoint_is_refused_before_obstore_panics_on_it(key, endpoint):
    with pytest.raises(RequestError, match=f"'{key.lower()}' is not a URL"):
        open_store("s3://bucket/t", {key: endpoint, "skip_signature": "true"})


def test_a_value_that_is_no_string_is_refused_by_key():
    with pytest.raises(RequestError, match="'allow_http' is a bool"):
        open_store("s3://bucket/t", {"allow_http": True})


def test_repr_shows_names_of_options_and_no_values():
    options = {"aws_access_key_id": "AKIAXXXXXXXXXXXXXXXX", "aws_secret_access_key": SECRET, "region": "eu-north-1"}
    store = open_store("s3://bucket/a b", options)
    names = "['aws_access_key_id', 'aws_secret_access_key', 'region']"
    assert repr(store) == f"CloudStore(url='s3://bucket/a%20b', option_names={names})"
    for value in options.values():
        assert value not in repr(parse_options(options))


def test_options_override_the_default_timeouts_and_retries():
    defaults, given = (
        parse_options(None),
        parse_options({"AWS_TIMEOUT": "7s", "max_retries": "0", "retry_timeout": "9"}),
    )
    assert defaults.client["timeout"] != given.client["timeout"] == "7s"
    assert defaults.client["connect_timeout"] == given.client["connect_timeout"]
    assert given.retry["max_retries"] == 0
    assert given.retry["retry_timeout"].total_seconds() == 9
    assert given.config == {}


@pytest.mark.parametrize(
    ("url", "options", "spark_path"),
    [
        ("az://c/t", {"account_name": "acc"}, "abfss://c@acc.dfs.core.windows.net/t"),
        ("az://c/t", {"AZURE_STORAGE_ACCOUNT_NAME": "acc"}, "abfss://c@acc.dfs.core.windows.net/t"),
        ("abfss://c@acc.dfs.core.windows.net/t", {}, "abfss://c@acc.dfs.core.windows.net/t"),
        ("abfss://c@acc.dfs.core.windows.net/t", {"account_name": "acc"}, "abfss://c@acc.dfs.core.windows.net/t"),
        ("abfss://w@onelake.dfs.fabric.microsoft.com/t", {}, "abfss://w@onelake.dfs.fabric.microsoft.com/t"),
        ("abfss://c@acc.dfs.core.chinacloudapi.cn/t", {}, "abfss://c@acc.dfs.core.chinacloudapi.cn/t"),
    ],
)
def test_an_azure_account_comes_from_the_url_or_from_the_options(url, options, spark_path):
    assert open_store(url, {**options, "skip_signature": "true"}).spark_path == spark_path
