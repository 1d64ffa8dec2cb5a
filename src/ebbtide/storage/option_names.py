"""What is a storage option called by us, by Spark's connectors and in the environment?

`OPTION_NAMES` is the table, and docs/storage.md repeats it (a test compares them). `spark_options` translates what a
user gave to us for Spark; `options_of_session` translates what the session has for Spark, for us. Neither makes a
request, and no message here repeats a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["OPTION_NAMES", "SESSION_PREFIX", "OptionName", "options_of_session", "spark_options", "spellings_of"]

Service = Literal["s3", "azure", "gs"]

# Before the name of a setting that the session has: it is understood for the log, and Spark knows it already.
SESSION_PREFIX: Final = "spark.hadoop."
_HOST: Final = "<account host>"


@dataclass(frozen=True, slots=True)
class OptionName:
    """One setting. `ours` is without the service's prefix, the first of several that mean the same."""

    service: Service
    ours: tuple[str, ...]
    spark: str
    variable: str
    shown: str


OPTION_NAMES: Final = (
    OptionName("s3", ("access_key_id",), "fs.s3a.access.key", "AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    OptionName("s3", ("secret_access_key",), "fs.s3a.secret.key", "AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    OptionName("s3", ("session_token", "token"), "fs.s3a.session.token", "AWS_SESSION_TOKEN", "aws_session_token"),
    OptionName("s3", ("region", "default_region"), "fs.s3a.endpoint.region", "AWS_REGION", "aws_region"),
    OptionName(
        "s3", ("endpoint", "endpoint_url", "endpoint_url_s3"), "fs.s3a.endpoint", "AWS_ENDPOINT_URL", "aws_endpoint"
    ),
    OptionName("s3", ("allow_http",), "fs.s3a.connection.ssl.enabled", "AWS_ALLOW_HTTP", "allow_http"),
    OptionName(
        "s3",
        ("skip_signature",),
        "fs.s3a.aws.credentials.provider",
        "AWS_SKIP_SIGNATURE",
        "aws_skip_signature",
    ),
    OptionName(
        "azure",
        ("account_key", "access_key", "master_key"),
        f"fs.azure.account.key.{_HOST}",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "account_key",
    ),
    OptionName(
        "azure",
        ("sas_token", "sas_key"),
        f"fs.azure.sas.fixed.token.{_HOST}",
        "AZURE_STORAGE_SAS_TOKEN",
        "sas_token",
    ),
    OptionName(
        "azure", ("client_id",), f"fs.azure.account.oauth2.client.id.{_HOST}", "AZURE_CLIENT_ID", "azure_client_id"
    ),
    OptionName(
        "azure",
        ("client_secret",),
        f"fs.azure.account.oauth2.client.secret.{_HOST}",
        "AZURE_CLIENT_SECRET",
        "azure_client_secret",
    ),
    OptionName(
        "azure",
        ("tenant_id", "authority_id"),
        f"fs.azure.account.oauth2.client.endpoint.{_HOST}",
        "AZURE_TENANT_ID",
        "azure_tenant_id",
    ),
    OptionName(
        "gs",
        ("service_account", "service_account_path"),
        "fs.gs.auth.service.account.json.keyfile",
        "GOOGLE_SERVICE_ACCOUNT",
        "google_service_account",
    ),
)
_S3A: Final = "org.apache.hadoop.fs.s3a."
_NO_SIGNATURE: Final = f"{_S3A}AnonymousAWSCredentialsProvider"
_TRUE: Final = frozenset({"true", "1", "yes", "on", "t", "y"})
# S3's own hosts need no endpoint: the region is enough, and the oldest host has none.
_AWS_HOST = re.compile(r"(?:https?://)?s3(?:[.-]([a-z]{2}(?:-[a-z]+)+-\d))?\.amazonaws\.com/?")
_LOGIN = re.compile(r"https://login\.microsoftonline\.com/([^/]+)/oauth2/(?:v2\.0/)?token")


def spark_options(service: str, container: str, account_host: str, given: Mapping[str, str]) -> dict[str, str]:
    """What Spark's readers and writers are told, for the options that a user gave under bare names of ours.

    Hadoop's cache of file systems stays on (027): without it every path costs a client with its threads.
    """
    if service == "s3":
        named = _s3_options(given)
        # A session may have settings for this bucket alone, which win over those for all buckets.
        own = {f"fs.s3a.bucket.{container}.{name.removeprefix('fs.s3a.')}": value for name, value in named.items()}
        return {**named, **own}
    if service == "azure":
        return _azure_options(account_host, given)
    if service == "gs" and (keyfile := _value(given, "gs", "google_service_account")) is not None:
        return {
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": keyfile,
        }
    return {}


def options_of_session(service: str, container: str, account_host: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Our options, under bare names, for what a session has under `fs.*`."""
    if service == "s3":
        own = f"fs.s3a.bucket.{container}."
        found = {name: value for name, value in settings.items() if name.startswith("fs.s3a.")}
        found |= {f"fs.s3a.{name.removeprefix(own)}": value for name, value in found.items() if name.startswith(own)}
        return _options_of_s3a(found)
    options = {}
    for row in OPTION_NAMES:
        if row.service != service:
            continue
        # Hadoop takes a setting for one account, or else the one for all accounts.
        of_all = row.spark.removesuffix(f".{_HOST}")
        value = settings.get(row.spark.replace(_HOST, account_host)) or settings.get(of_all)
        if value and row.shown == "azure_tenant_id":
            value = login[1] if (login := _LOGIN.fullmatch(value)) else None
        if value:
            options[row.ours[0]] = value
    return options


def spellings_of(ours: str) -> frozenset[str]:
    """All bare names of ours that mean the same as this one."""
    return frozenset(next((row.ours for row in OPTION_NAMES if ours in row.ours), (ours,)))


def _s3_options(given: Mapping[str, str]) -> dict[str, str]:
    named = {
        row.spark: value
        for row in OPTION_NAMES
        if row.service == "s3"
        and row.shown not in {"allow_http", "aws_skip_signature"}
        and (value := _value(given, "s3", row.shown)) is not None
    }
    if (endpoint := named.get("fs.s3a.endpoint")) is not None:
        named["fs.s3a.connection.ssl.enabled"] = str(not endpoint.startswith("http://")).lower()
        virtual = given.get("virtual_hosted_style_request", "").lower() in _TRUE
        named["fs.s3a.path.style.access"] = str(not virtual).lower()
    if given.get("skip_signature", "").lower() in _TRUE:
        named["fs.s3a.aws.credentials.provider"] = _NO_SIGNATURE
    elif "fs.s3a.access.key" in named:
        # Whatever the session looks for: the keys that were given are to be used.
        kind = "Temporary" if "fs.s3a.session.token" in named else "Simple"
        named["fs.s3a.aws.credentials.provider"] = f"{_S3A}{kind}AWSCredentialsProvider"
    return named


def _options_of_s3a(found: Mapping[str, str]) -> dict[str, str]:
    options = {
        row.ours[0]: found[row.spark]
        for row in OPTION_NAMES
        if row.service == "s3"
        and row.shown not in {"aws_endpoint", "allow_http", "aws_skip_signature"}
        and found.get(row.spark)
    }
    endpoint = found.get("fs.s3a.endpoint", "")
    is_plain = found.get("fs.s3a.connection.ssl.enabled", "").lower() == "false"
    if (host := _AWS_HOST.fullmatch(endpoint)) is not None:
        if host[1]:
            options.setdefault("region", host[1])
    elif endpoint:
        options["endpoint"] = endpoint if "://" in endpoint else f"http{'' if is_plain else 's'}://{endpoint}"
        if options["endpoint"].startswith("http://"):
            options["allow_http"] = "true"
    if found.get("fs.s3a.aws.credentials.provider", "").endswith(".AnonymousAWSCredentialsProvider"):
        options["skip_signature"] = "true"
    return options


def _azure_options(host: str, given: Mapping[str, str]) -> dict[str, str]:
    def name(shown: str) -> str:
        return next(row.spark for row in OPTION_NAMES if row.shown == shown).replace(_HOST, host)

    if (key := _value(given, "azure", "account_key")) is not None:
        return {f"fs.azure.account.auth.type.{host}": "SharedKey", name("account_key"): key}
    if (sas := _value(given, "azure", "sas_token")) is not None:
        return {f"fs.azure.account.auth.type.{host}": "SAS", name("sas_token"): sas.removeprefix("?")}
    secret, tenant = _value(given, "azure", "azure_client_secret"), _value(given, "azure", "azure_tenant_id")
    client = _value(given, "azure", "azure_client_id")
    if client is None or secret is None or tenant is None:
        return {}
    return {
        f"fs.azure.account.auth.type.{host}": "OAuth",
        f"fs.azure.account.oauth.provider.type.{host}": (
            "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
        ),
        name("azure_client_id"): client,
        name("azure_client_secret"): secret,
        name("azure_tenant_id"): f"https://login.microsoftonline.com/{tenant}/oauth2/token",
    }


def _value(given: Mapping[str, str], service: Service, shown: str) -> str | None:
    row = next(row for row in OPTION_NAMES if row.service == service and row.shown == shown)
    return next((given[name] for name in row.ours if name in given), None)
