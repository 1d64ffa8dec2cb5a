"""Does this machine have credentials for a store, or is it about to ask for them at an address where nobody listens?

obstore takes credentials from its options, from the environment, and at last from the metadata service of a cloud's
machine. Elsewhere that last address does not answer, and eight retries later the error speaks of the address.
So when nothing else gives credentials, the metadata service is asked once, briefly, before the first request.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ebbtide.storage.causes import no_credentials
from ebbtide.storage.locations import Location
from ebbtide.storage.options import StoreOptions

__all__ = ["credentials_check"]

# Two tries of this long: on a machine that has the service it answers in a few milliseconds.
PROBE_SECONDS: Final = 0.8
_PROBES: Final = 2
_ADDRESS: Final = "http://169.254.169.254"
# Where the environment has one of these, obstore does not ask the metadata service.
_VARIABLES: Final = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_SKIP_SIGNATURE",
    ),
    "azure": (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_MASTER_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_CLIENT_SECRET",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_USE_AZURE_CLI",
        "AZURE_SKIP_SIGNATURE",
        "AZURE_STORAGE_USE_EMULATOR",
        "AZURE_IDENTITY_ENDPOINT",
        "AZURE_MSI_ENDPOINT",
        "IDENTITY_ENDPOINT",
        "MSI_ENDPOINT",
    ),
    "gs": (
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SKIP_SIGNATURE",
    ),
}
_GOOGLE_LOGIN: Final = Path(".config", "gcloud", "application_default_credentials.json")
# One request for each cloud that its metadata service answers with 200, and nobody else.
_QUESTIONS: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    "s3": ("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}),
    "azure": ("GET", "/metadata/instance?api-version=2021-02-01", {"Metadata": "true"}),
    "gs": ("GET", "/computeMetadata/v1/", {"Metadata-Flavor": "Google"}),
}
_answering: set[tuple[str, str]] = set()


def credentials_check(location: Location, options: StoreOptions) -> Callable[[], None]:
    """What a store calls before its requests: `PermissionDeniedError` if it would have no credentials to send."""
    if location.kind not in _QUESTIONS or options.has_credentials or _environment_has_credentials(location.kind):
        return _nothing
    if options.value("imdsv1_fallback") or os.environ.get("AWS_IMDSV1_FALLBACK"):
        # The older service on machines of AWS refuses the question, and is there all the same.
        return _nothing
    address = _metadata_address(location.kind, options)

    def check() -> None:
        if (location.kind, address) in _answering:
            return
        if not _answers(location.kind, address):
            raise no_credentials(location.url)
        _answering.add((location.kind, address))

    return check


def _nothing() -> None:
    pass


def _environment_has_credentials(kind: str) -> bool:
    if any(os.environ.get(name) for name in _VARIABLES[kind]):
        return True
    return kind == "gs" and (Path.home() / _GOOGLE_LOGIN).exists()


def _metadata_address(kind: str, options: StoreOptions) -> str:
    if kind == "s3":
        return options.value("metadata_endpoint") or os.environ.get("AWS_METADATA_ENDPOINT") or _ADDRESS
    if kind == "gs" and (host := os.environ.get("GCE_METADATA_HOST")):
        return f"http://{host}"
    return _ADDRESS


def _answers(kind: str, address: str) -> bool:
    """Whether a metadata service is there. One that is there and busy counts: obstore asks it again."""
    parts = urlsplit(address)
    method, path, headers = _QUESTIONS[kind]
    for _ in range(_PROBES):
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=PROBE_SECONDS)
        try:
            connection.request(method, path, headers=dict(headers))
            status = connection.getresponse().status
            return status in {http.client.OK, http.client.TOO_MANY_REQUESTS} or status >= 500
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
    return False
