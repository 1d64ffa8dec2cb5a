"""Does every bad surrounding of our own half get one clear sentence? A scripted server plays S3; obstore is real."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ebbtide.errors import PermissionDeniedError, StorageError
from ebbtide.storage import PutOutcomeUnknownError, open_store

KEYS = {"aws_access_key_id": "AKIAEBBTIDETESTS0003", "aws_secret_access_key": "hush/hush", "aws_region": "us-east-1"}
QUICK = {"max_retries": "0", "timeout": "2s"}


def body(code, message="words of the service"):
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"


@pytest.fixture
def service():
    class Handler(BaseHTTPRequestHandler):
        def respond(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text = self.server.answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text.encode())

        do_GET = do_HEAD = do_PUT = do_POST = respond

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def address(server):
    return f"http://127.0.0.1:{server.server_port}"


def store_at(endpoint, **options):
    return open_store("s3://bucket/t", {**KEYS, **QUICK, "aws_endpoint": endpoint, **options})


@pytest.mark.parametrize(
    ("answer", "kind", "sentence"),
    [
        ((404, body("NoSuchBucket")), StorageError, "the bucket or container does not exist"),
        ((400, body("ExpiredToken")), PermissionDeniedError, "the session token has expired"),
        ((403, body("RequestTimeTooSkewed")), PermissionDeniedError, "the clock of this machine differs"),
        (
            (403, body("SignatureDoesNotMatch")),
            PermissionDeniedError,
            "the secret key is not the one of this access key",
        ),
        ((403, body("InvalidAccessKeyId")), PermissionDeniedError, "does not know the access key"),
        ((301, body("PermanentRedirect")), StorageError, "the bucket is in another region"),
        (
            (400, body("AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-west-1'")),
            StorageError,
            "the bucket is in another region, eu-west-1",
        ),
        ((403, body("AccessDenied")), PermissionDeniedError, "the service denied access"),
    ],
)
@pytest.mark.parametrize("operation", ["read", "list", "put"])
def test_answer_of_a_service_names_the_cause_and_the_next_step(service, answer, kind, sentence, operation):
    service.answer = answer
    store = store_at(address(service), allow_http="true")
    calls = {
        "read": lambda: store.read("x"),
        "list": lambda: list(store.list("x")),
        "put": lambda: store.put_if_absent("x", b"x"),
    }
    with pytest.raises(StorageError) as caught:
        calls[operation]()
    assert type(caught.value) is kind
    assert sentence in str(caught.value)
    assert "hush" not in str(caught.value)


def test_put_into_a_bucket_for_reading_says_that_writing_is_not_allowed(service):
    service.answer = (403, body("AccessDenied"))
    with pytest.raises(PermissionDeniedError, match="Reading may be allowed there and writing not"):
        store_at(address(service), allow_http="true").put_if_absent("x", b"x")


def test_plain_http_without_allow_http_says_so_and_was_never_sent(service):
    store = store_at(address(service))
    with pytest.raises(StorageError, match="Set the storage option 'allow_http'"):
        store.read("x")
    with pytest.raises(StorageError, match="allow_http") as caught:
        store.put_if_absent("x", b"x")
    assert not isinstance(caught.value, PutOutcomeUnknownError)


def test_tls_to_a_plain_endpoint_says_so(service):
    service.answer = (200, "")
    with pytest.raises(StorageError, match="TLS was spoken to an endpoint that speaks plain HTTP"):
        store_at(address(service).replace("http:", "https:")).read("x")


def test_unknown_host_refused_connection_and_silence_are_told_apart():
    with pytest.raises(StorageError, match="the name of the host could not be resolved"):
        store_at("http://no-such-host.invalid:9", allow_http="true").read("x")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(StorageError, match="refused the connection"):
        store_at(f"http://127.0.0.1:{port}", allow_http="true").read("x")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(StorageError, match="did not answer in time"):
            store_at(f"http://127.0.0.1:{silent.getsockname()[1]}", allow_http="true", timeout="1s").read("x")
