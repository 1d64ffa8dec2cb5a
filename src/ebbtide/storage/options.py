"""Which settings does obstore get from a user's `storage_options`?

Keys are obstore's, in any case, with or without the service's prefix (`region`, `aws_region`, `AWS_REGION`). An unknown
key is an error, because a misspelt `aws_endpiont` would otherwise send credentials to the wrong host. Values
are secrets: no message here repeats one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from ebbtide.errors import RequestError
from ebbtide.storage.failures import Scrubber
from ebbtide.storage.locations import Location
from ebbtide.storage.option_names import SESSION_PREFIX, options_of_session, spark_options, spellings_of

__all__ = ["StoreOptions", "parse_options", "unknown_option"]

# For a whole request, body included; enough for a checkpoint of a few gigabytes.
DEFAULT_TIMEOUT: Final = "120s"
DEFAULT_CONNECT_TIMEOUT: Final = "5s"
DEFAULT_MAX_RETRIES: Final = 8
# Shorter than obstore's three minutes: a user waits for this when an endpoint is down.
DEFAULT_RETRY_TIMEOUT: Final = timedelta(seconds=60)

_PREFIXES: Final = ("aws_", "azure_storage_", "azure_", "google_")
_CLIENT_KEYS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
# obstore reads a service's variables for its client, such as AWS_ALLOW_HTTP, only when it is given no client options.
_VARIABLE_PREFIXES: Final = {"s3": "AWS_", "azure": "AZURE_", "gs": "GOOGLE_"}
# Neither secret nor public, and no credentials.
_METADATA_KEYS: Final = frozenset({"metadata_endpoint", "imdsv1_fallback", "checksum_algorithm", "checksum"})
_FROM_URL: Final = frozenset({"bucket", "bucket_name", "container", "container_name"})
# Values of these help to understand an error and are not secret; every other value is scrubbed from messages.
_PUBLIC: Final = _CLIENT_KEYS - {"proxy_url"} | {
    "account_name",
    "authority_host",
    "base_url",
    "conditional_put",
    "copy_if_not_exists",
    "default_region",
    "disable_tagging",
    "endpoint",
    "endpoint_url",
    "endpoint_url_s3",
    "max_retries",
    "region",
    "request_payer",
    "retry_timeout",
    "s3_express",
    "skip_signature",
    "unsigned_payload",
    "use_emulator",
    "use_fabric_endpoint",
    "virtual_hosted_style_request",
}
_MULTILINE = re.compile(r"certificate|service_account")
_URL_VALUED = re.compile(r"(?!use_)(\w+_)?endpoint(_url)?(_s3)?|base_url|authority_host|\w+_full_uri")
_DURATION = re.compile(r"(\d{1,6})\s*s?")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What one obstore constructor takes. Values stay out of `repr`."""

    names: tuple[str, ...] = ()
    config: dict[str, str] = field(default_factory=dict, repr=False)
    client: dict[str, Any] = field(default_factory=dict, repr=False)
    retry: dict[str, Any] = field(default_factory=dict, repr=False)
    # The same for Spark's readers and writers, in the names of its connectors.
    for_spark: dict[str, str] = field(default_factory=dict, repr=False)
    # For messages of a running store, and for those of a constructor, which quote even harmless values.
    scrub: Scrubber = field(default_factory=Scrubber, repr=False)
    scrub_all: Scrubber = field(default_factory=Scrubber, repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("Storage options hold credentials, so they cannot be pickled or copied.")

    def value(self, *bare_names: str) -> str | None:
        """The config value given under one of these names, whatever its prefix."""
        return next((value for key, value in self.config.items() if _bare(key) in bare_names), None)

    @property
    def has_credentials(self) -> bool:
        """Whether requests are signed with what was given, or not signed on purpose."""
        unsigned = self.value("skip_signature", "use_emulator") or ""
        secrets = {_bare(key) for key in self.config} - _PUBLIC - _METADATA_KEYS
        return bool(secrets) or unsigned.lower() in {"true", "1", "yes", "on", "t", "y"}


def parse_options(storage_options: Mapping[str, str] | None, location: Location | None = None) -> StoreOptions:
    """For a store at this place. What the session has (`SESSION_PREFIX`) counts where no option says otherwise.

    Errors: `RequestError` naming the key. Keys of the service itself are checked by obstore, in `open`.
    """
    given, of_session = _split(storage_options or {}, location)
    for key, value in given.items():
        _check(key, value)
    explicit = {_bare(key): value for key, value in given.items()}
    # A name of the session that was given under any of its spellings is left out: explicit options win key by key.
    given |= {key: value for key, value in of_session.items() if not explicit.keys() & spellings_of(key)}
    config: dict[str, str] = {}
    client: dict[str, Any] = {"timeout": DEFAULT_TIMEOUT, "connect_timeout": DEFAULT_CONNECT_TIMEOUT}
    client |= _client_variables(location)
    retry: dict[str, Any] = {"max_retries": DEFAULT_MAX_RETRIES, "retry_timeout": DEFAULT_RETRY_TIMEOUT}
    for key, value in given.items():
        if _bare(key) in _CLIENT_KEYS:
            client[_bare(key)] = value
        elif key in retry:
            retry[key] = _retry_setting(key, value)
        else:
            config[key] = value
    return StoreOptions(
        names=tuple(sorted(given)),
        config=config,
        client=client,
        retry=retry,
        for_spark=_for_spark(location, explicit),
        scrub=Scrubber(value for key, value in given.items() if _bare(key) not in _PUBLIC),
        scrub_all=Scrubber(given.values()),
    )


def _split(storage_options: Mapping[str, str], location: Location | None) -> tuple[dict[str, str], dict[str, str]]:
    """The options under their names in lower case, and those that the session's settings stand for."""
    given, settings = {}, {}
    for key, value in storage_options.items():
        if location is not None and str(key).startswith(SESSION_PREFIX):
            settings[key.removeprefix(SESSION_PREFIX)] = value
        else:
            given[str(key).lower()] = value
    if location is None or not settings:
        return given, {}
    return given, options_of_session(location.kind, location.container, location.account_host, settings)


def _for_spark(location: Location | None, explicit: Mapping[str, str]) -> dict[str, str]:
    if location is None:
        return {}
    host = location.account_host or f"{explicit.get('account_name', '')}.dfs.core.windows.net"
    return spark_options(location.kind, location.container, host, explicit)


def _client_variables(location: Location | None) -> dict[str, str]:
    """What the environment says about the client of this service, as obstore would read it."""
    prefix = None if location is None else _VARIABLE_PREFIXES.get(location.kind)
    if prefix is None:
        return {}
    named = {key: os.environ.get(f"{prefix}{key.upper()}", "") for key in _CLIENT_KEYS}
    return {key: value for key, value in named.items() if value}


def unknown_option(key: str) -> RequestError:
    hint = " Hadoop's fs.* settings are for Spark; Ebbtide takes obstore's names." if key.startswith("fs.") else ""
    return RequestError(
        f"The storage option {key!r} is not known for this kind of store.{hint} "
        "Check its spelling against obstore's configuration keys, such as 'aws_region' or 'endpoint'."
    )


def _check(key: str, value: object) -> None:
    if not isinstance(value, str):
        raise RequestError(f"The storage option {key!r} is a {type(value).__name__}. Give every option as a string.")
    if _bare(key) in _FROM_URL:
        raise RequestError(f"The storage option {key!r} is already in the table's URL. Leave it out.")
    # obstore panics, rather than raises, on header values with control characters and on malformed endpoints.
    if _MULTILINE.search(key) is None and not value.isprintable():
        raise RequestError(f"The value of storage option {key!r} holds a line break or control character. Remove it.")
    if _URL_VALUED.fullmatch(_bare(key)) and not _is_http_url(value):
        raise RequestError(
            f"The value of storage option {key!r} is not a URL. Write it like 'https://host:port', without a query."
        )


def _is_http_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return False
    well_formed = value.isascii() and " " not in value and not parts.query and not parts.fragment
    return port_is_valid and well_formed and bool(parts.hostname) and parts.scheme in {"http", "https"}


def _retry_setting(key: str, value: str) -> int | timedelta:
    found = _DURATION.fullmatch(value)
    if found is None or (key == "max_retries" and not value.isdecimal()):
        raise RequestError(f"The value of storage option {key!r} is not a whole number (of seconds, for a timeout).")
    return int(value) if key == "max_retries" else timedelta(seconds=int(found[1]))


def _bare(key: str) -> str:
    return next((key.removeprefix(prefix) for prefix in _PREFIXES if key.startswith(prefix)), key)
