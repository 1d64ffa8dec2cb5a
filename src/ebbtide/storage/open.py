"""Which store serves this URL?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import obstore.exceptions as obstore_errors
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from ebbtide.errors import DeltaError, RequestError
from ebbtide.storage.cloud import CloudStore
from ebbtide.storage.credentials import credentials_check
from ebbtide.storage.failures import call_service
from ebbtide.storage.local import LocalStore
from ebbtide.storage.locations import Location, parse_location
from ebbtide.storage.options import StoreOptions, parse_options, unknown_option
from ebbtide.storage.store import ObjectStore

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Service

__all__ = ["open_store"]

_memory_stores: dict[str, MemoryStore] = {}
_memory_stores_lock = Lock()


def open_store(url: str, storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store whose root is `url`; `ebbtide.storage.locations` describes the forms. Makes no request.

    Credentials come from `storage_options`, or else from where obstore finds them (environment, instance metadata).
    If there are none, the first request is refused with a `PermissionDeniedError` before it is made.
    Option names are obstore's, with or without prefix, and `max_retries` and `retry_timeout` (seconds).
    Errors: `RequestError` for a broken URL, an unknown option (named, its value never shown) or an unusable value.
    """
    location = parse_location(url)
    options = parse_options(storage_options, location)
    if location.kind in {"file", "memory"} and options.names:
        raise unknown_option(options.names[0])
    if location.kind == "file":
        return LocalStore(location)
    if location.kind == "memory":
        return CloudStore(_shared_memory(location.container), location, options)
    if location.kind == "azure":
        location, options = _with_account(location, options)
    service = call_service(
        lambda: _service(location, options),
        lambda error: _refusal(error, location, options),
    )
    return CloudStore(service, location, options, ensure_credentials=credentials_check(location, options))


def _service(location: Location, options: StoreOptions) -> Service:
    # Only obstore knows, at run time, which names exist; its typed dictionaries do not help here.
    settings: dict[str, Any] = {
        "config": options.config,
        "client_options": options.client,
        "retry_config": options.retry,
    }
    if location.kind == "s3":
        return S3Store(location.container, **settings)
    if location.kind == "gs":
        return GCSStore(location.container, **settings)
    return AzureStore(location.container, **settings)


def _refusal(error: Exception, location: Location, options: StoreOptions) -> DeltaError:
    text = str(error).split("\n\n", 1)[0]
    if isinstance(error, obstore_errors.UnknownConfigurationKeyError):
        return unknown_option(next((name for name in options.names if f"'{name}'" in text), "?"))
    return RequestError(
        f"Could not open {location.url} with the storage options {list(options.names)}: {options.scrub_all(text)}. "
        "Correct the option."
    )


def _shared_memory(name: str) -> MemoryStore:
    """One store per name and process: two tables opened on one URL see the same bytes, as on a real service."""
    with _memory_stores_lock:
        return _memory_stores.setdefault(name, MemoryStore())


def _with_account(location: Location, options: StoreOptions) -> tuple[Location, StoreOptions]:
    """Carries the account from the URL to the options, or from the options to the path that Spark is given."""
    given = options.value("account_name")
    if not location.account_host:
        if given is None:
            return location, options
        path = f"abfss://{location.container}@{given}.dfs.core.windows.net/{location.root}".rstrip("/")
        return replace(location, spark_path=path), options
    account, _, domain = location.account_host.partition(".")
    if given is not None and given != account:
        raise RequestError(
            f"{location.url} is in another account than the storage option 'account_name' says. Leave the option out."
        )
    added = {} if given is not None else {"account_name": account}
    if domain.endswith("fabric.microsoft.com"):
        added["use_fabric_endpoint"] = "true"
    elif domain.removeprefix("dfs.").removeprefix("blob.") != "core.windows.net" and options.value("endpoint") is None:
        # Azure's other clouds; the blob service runs beside the dfs one, under the same domain.
        added["endpoint"] = f"https://{account}.blob.{domain.removeprefix('dfs.').removeprefix('blob.')}"
    return location, replace(options, config={**options.config, **added})
