from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from tests.support.blob_endpoints import AzureHandler, GoogleHandler, blob_endpoint
from tests.support.s3_endpoint import S3Endpoint, s3_endpoint

from ebbtide.storage import ObjectStore, open_store
from ebbtide.storage.overlay import OverlayStore

Opener = Callable[[], ObjectStore]


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Endpoint]:
    with s3_endpoint() as endpoint:
        endpoint.create_bucket("contract")
        yield endpoint


@pytest.fixture(scope="session")
def google_url() -> Iterator[str]:
    with blob_endpoint(GoogleHandler) as url:
        yield url


@pytest.fixture(scope="session")
def azure_url() -> Iterator[str]:
    with blob_endpoint(AzureHandler) as url:
        yield url


@pytest.fixture(params=["local", "memory", "s3", "google", "azure", "overlay"])
def open_again(request: pytest.FixtureRequest) -> Opener:
    """Opens the store under test; every call gives a new handle on the same, at first empty, root."""
    name = f"table {uuid4().hex}"
    match request.param:
        case "local":
            path = request.getfixturevalue("tmp_path") / name
            return lambda: open_store(str(path))
        case "memory":
            return lambda: open_store(f"memory://contract/{name}")
        case "overlay":
            overlay = OverlayStore(open_store(str(request.getfixturevalue("tmp_path") / name)))
            return lambda: overlay
        case "s3":
            options = request.getfixturevalue("s3").storage_options
            return lambda: open_store(f"s3://contract/{name}", options)
        case "google":
            # A token of our own: without one obstore asks the machine's metadata service, even for unsigned puts.
            options = {"base_url": request.getfixturevalue("google_url"), "bearer_token": "ya29.contract-token"}
            options |= {"allow_http": "true", "max_retries": "1"}
            return lambda: open_store(f"gs://contract/{name}", options)
        case _:
            options = {"endpoint": request.getfixturevalue("azure_url"), "skip_signature": "true"}
            options |= {"account_name": "ebbtide", "allow_http": "true", "max_retries": "1"}
            return lambda: open_store(f"az://contract/{name}", options)


@pytest.fixture
def store(open_again: Opener) -> ObjectStore:
    return open_again()
