"""Is a machine without credentials told so at once, and one with a role served? A small server plays metadata."""

from __future__ import annotations

import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ebbtide.errors import PermissionDeniedError, StorageError
from ebbtide.storage import credentials, open_store
from ebbtide.storage.credentials import credentials_check
from ebbtide.storage.locations import parse_location
from ebbtide.storage.options import parse_options

URLS = {"s3": "s3://bucket/t", "azure": "abfss://c@acc.dfs.core.windows.net/t", "gs": "gs://bucket/t"}


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    for names in credentials._VARIABLES.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(credentials, "_answering", set())


@pytest.fixture
def metadata(monkeypatch):
    """Answers with `status`, and notes what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self):
            self.server.asked.append((self.command, self.path))
            self.send_response(self.server.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = respond

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.status, server.asked = 200, []
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    monkeypatch.setattr(credentials, "_ADDRESS", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def check_of(kind, options=None):
    location = parse_location(URLS[kind])
    return credentials_check(location, parse_options(options, location))


@pytest.mark.parametrize("kind", URLS)
def test_machine_without_a_role_says_that_there_are_no_credentials(metadata, kind):
    metadata.status = 404
    with pytest.raises(PermissionDeniedError, match="No credentials found for"):
        check_of(kind)()


@pytest.mark.parametrize("kind", URLS)
def test_machine_with_a_role_is_asked_once(metadata, kind):
    check_of(kind)()
    check_of(kind)()
    assert len(metadata.asked) == 1


def test_metadata_service_that_is_busy_counts_as_there(metadata):
    metadata.status = 503
    check_of("s3")()


def test_silent_address_is_given_up_within_two_seconds(monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        store = open_store("s3://bucket/t", {"aws_region": "eu-central-1"})
        started = time.monotonic()
        with pytest.raises(PermissionDeniedError, match="No credentials found for s3://bucket/t"):
            store.read("_delta_log/_last_checkpoint")
        with pytest.raises(PermissionDeniedError):
            check = check_of("s3")
            monkeypatch.setattr(credentials, "PROBE_SECONDS", 0.01)
            check()
        assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("kind", "variable"), [(kind, name) for kind, names in credentials._VARIABLES.items() for name in names]
)
def test_credentials_of_the_environment_are_not_doubted(monkeypatch, metadata, kind, variable):
    monkeypatch.setenv(variable, "something")
    metadata.status = 404
    check_of(kind)()
    assert metadata.asked == []


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("s3", {"aws_access_key_id": "a", "aws_secret_access_key": "b"}),
        ("s3", {"skip_signature": "true"}),
        ("azure", {"account_key": "a2V5"}),
        ("azure", {"azure_storage_sas_token": "sv=1"}),
        ("azure", {"use_emulator": "true"}),
        ("gs", {"google_service_account": "/x.json"}),
    ],
)
def test_credentials_of_the_options_are_not_doubted(metadata, kind, options):
    metadata.status = 404
    check_of(kind, options)()
    assert metadata.asked == []


@pytest.mark.parametrize("options", [{"aws_region": "x"}, {"skip_signature": "false"}, {"max_retries": "1"}])
def test_options_that_are_no_credentials_do_not_count_as_some(metadata, options):
    metadata.status = 404
    with pytest.raises(PermissionDeniedError):
        check_of("s3", options)()


def test_plain_http_may_be_allowed_by_the_environment(monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
    options = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_endpoint": endpoint, "max_retries": "0"}
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with pytest.raises(StorageError, match="refused the connection"):
        open_store("s3://bucket/t", options).read("x")
    with pytest.raises(StorageError, match="allow_http"):
        open_store("s3://bucket/t", {**options, "allow_http": "false"}).read("x")
