"""What a service's answers become. A scripted HTTP server plays S3; no test here waits for a timeout of its own making."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ebbtide.errors import (
    DeltaError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    RequestError,
    StorageError,
)
from ebbtide.storage import PutOutcomeUnknownError, open_store
from ebbtide.storage.failures import Scrubber
from ebbtide.storage.options import parse_options

ACCESS_KEY = "AKIAEBBTIDETESTS0002"
SECRET = "hunter2secretkey/with+signs"
TOKEN = "FwoGZXIvYXdzEBBTIDEsession//token"

RESET = "reset"
CONFLICT = (409, "<Error><Code>ConditionalRequestConflict</Code><Message>busy</Message></Error>")
TAKEN = (412, "<Error><Code>PreconditionFailed</Code><Message>taken</Message></Error>")


class Script:
    """Answers in turn, the last one for ever. An answer is a status, (status, body) or RESET."""

    def __init__(self):
        self.answers = [200]
        self.requests = []

    def next(self, method):
        self.requests.append(method)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def endpoint(script):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def respond(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = script.next(self.command)
            if answer == RESET:
                self.close_connection = True
                return
            status, body = answer if isinstance(answer, tuple) else (answer, "")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.send_header("ETag", '"1"')
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = respond

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def store(endpoint):
    options = {
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET,
        "session_token": TOKEN,
        "endpoint": endpoint,
        "allow_http": "true",
        "timeout": "5s",
        "max_retries": "1",
    }
    return open_store("s3://bucket/t", options)


# --- the outcome of a put ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([TAKEN], ObjectExistsError),
        ([(412, "")], ObjectExistsError),
        ([400], StorageError),
        ([413], StorageError),
        ([401], PermissionDeniedError),
        ([403], PermissionDeniedError),
        ([404], StorageError),
        ([500], PutOutcomeUnknownError),
        ([503], PutOutcomeUnknownError),
        ([RESET], PutOutcomeUnknownError),
        # The first try may have landed, whatever the second is told.
        ([500, TAKEN], PutOutcomeUnknownError),
        ([RESET, TAKEN], PutOutcomeUnknownError),
        ([500, 403], PutOutcomeUnknownError),
        ([500, CONFLICT], PutOutcomeUnknownError),
    ],
)
def test_a_put_says_whether_its_outcome_is_known(store, script, answers, expected):
    script.answers = answers
    with pytest.raises(StorageError) as caught:
        store.put_if_absent("_delta_log/1.json", b"x")
    assert type(caught.value) is expected
    assert "s3://bucket/t/_delta_log/1.json" in str(caught.value)


@pytest.mark.parametrize("answers", [[200], [500, 200], [CONFLICT, 200], [CONFLICT, CONFLICT, CONFLICT, 200]])
def test_a_put_that_is_told_to_try_again_does(store, script, answers):
    tries = len(answers)
    script.answers = answers
    store.put_if_absent("x", b"x")
    assert script.requests == ["PUT"] * tries


def test_a_conflict_that_does_not_end_is_not_called_an_existing_object(store, script):
    script.answers = [CONFLICT]
    with pytest.raises(StorageError, match="other writers keep it busy") as caught:
        store.put_if_absent("x", b"x")
    assert type(caught.value) is StorageError
    assert len(script.requests) == 4


def test_a_conflict_and_then_an_object_is_an_existing_object(store, script):
    script.answers = [CONFLICT, TAKEN]
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("x", b"x")


def test_a_plain_put_that_goes_unanswered_is_unknown_too(store, script):
    script.answers = [RESET]
    with pytest.raises(PutOutcomeUnknownError, match="read it back"):
        store.put("x", b"x")


def test_an_endpoint_that_nobody_serves_is_a_storage_error():
    options = {"endpoint": "http://127.0.0.1:1", "allow_http": "true", "skip_signature": "true", "max_retries": "0"}
    store = open_store("s3://bucket/t", options)
    for operation in (lambda: store.read("x"), lambda: list(store.list("")), lambda: store.delete("x")):
        with pytest.raises(StorageError, match="Could not") as caught:
            operation()
        assert type(caught.value) is StorageError


# --- other operations -------------------------------------------------------------------------------------------------


OPERATIONS = {
    "head": lambda store: store.head("x"),
    "read": lambda store: store.read("x"),
    "read_range": lambda store: store.read_range("x", 0, 1),
    "list": lambda store: list(store.list("d")),
    "list_directory": lambda store: list(store.list_directory("d")),
    "list_directory_from": lambda store: list(store.list_directory("d", start_after="d/a")),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    ("status", "expected"),
    [(401, PermissionDeniedError), (403, PermissionDeniedError), (404, ObjectNotFoundError), (400, StorageError)],
)
def test_a_refusal_has_the_same_type_whatever_was_asked(store, script, name, status, expected):
    script.answers = [status]
    with pytest.raises(StorageError) as caught:
        OPERATIONS[name](store)
    assert type(caught.value) is expected


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_answer_that_is_no_answer_is_a_storage_error(store, script, name):
    script.answers = [(200, "garbage")] if "list" in name else [500]
    with pytest.raises(StorageError):
        OPERATIONS[name](store)


def listing(*keys):
    contents = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified>"
        f"<ETag>1</ETag><Size>{size}</Size></Contents>"
        for key, size in keys
    )
    return 200, f"<ListBucketResult>{contents}</ListBucketResult>"


def test_a_listing_out_of_order_is_refused_rather_than_read(store, script):
    script.answers = [listing(("t/d/2.json", 1), ("t/d/1.json", 1))]
    with pytest.raises(StorageError, match=r"out of order at 'd/1\.json'"):
        list(store.list("d"))


def test_directory_markers_are_not_objects(store, script):
    keys = [("t/d/", 0), ("t/d/a-b", 1), ("t/d/a/", 0), ("t/d/a/x", 1), ("t/d/e-e", 1), ("t/d/e/", 0), ("t/d/f", 0)]
    script.answers = [listing(*keys)]
    assert [meta.path for meta in store.list("d")] == ["d/a-b", "d/a/x", "d/e-e", "d/f"]


def test_a_directory_bucket_is_sorted_here(script, endpoint):
    options = {"endpoint": endpoint, "allow_http": "true", "skip_signature": "true"}
    script.answers = [listing(("t/d/2", 1), ("t/d/1", 1), ("t/d/3", 1))]
    store = open_store("s3://name--use1-az4--x-s3/t", options)
    assert [meta.path for meta in store.list("d", start_after="d/1")] == ["d/2", "d/3"]


def test_a_key_that_obstore_cannot_address_is_a_typed_error(store, script):
    script.answers = [listing(("t/d/a//b", 1))]
    with pytest.raises(DeltaError, match="empty path segment"):
        list(store.list("d"))
    with pytest.raises(RequestError, match="illegal character"):
        store.read("tab\there")


# --- credentials ------------------------------------------------------------------------------------------------------


LEAKY_BODY = (
    "<?xml version='1.0'?><Error><Code>SignatureDoesNotMatch</Code><Message>The signature does not match.</Message>"
    f"<AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId><StringToSign>{TOKEN} {SECRET}</StringToSign>"
    f"<CanonicalRequest>x-amz-security-token:{TOKEN}</CanonicalRequest></Error>"
)


@pytest.mark.parametrize("answer", [(403, LEAKY_BODY), (400, LEAKY_BODY), (500, f"echo {SECRET} {TOKEN} {ACCESS_KEY}")])
@pytest.mark.parametrize("name", ["put_if_absent", "delete", *(name for name in OPERATIONS if name != "head")])
def test_no_credential_leaves_through_an_error_or_a_log(store, script, caplog, name, answer):
    script.answers = [answer]
    operations = OPERATIONS | {
        "put_if_absent": lambda store: store.put_if_absent("x", b""),
        "delete": lambda store: store.delete("x"),
    }
    with caplog.at_level(logging.DEBUG), pytest.raises(StorageError) as caught:
        operations[name](store)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    told = "".join([*traceback.format_exception(error), repr(error), repr(store), caplog.text])
    for secret in (ACCESS_KEY, SECRET, TOKEN):
        assert secret not in told
    if answer[1] is LEAKY_BODY:
        assert "SignatureDoesNotMatch: The signature does not match" in told


@pytest.mark.parametrize(
    "text",
    [
        "GET https://user:hunter2@host/x failed",
        "GET https://host/c?sv=2020&sig=hunter2 failed",
        "Authorization: Bearer hunter2",
        "authorization: SharedKey account:hunter2",
        "sig=hunter2&se=1",
        "X-Amz-Signature=hunter2",
        "key AKIAHUNTER2HUNTER2HU was denied".replace("HUNTER2", "hunter2".upper()),
    ],
)
def test_what_has_the_shape_of_a_credential_is_hidden(text):
    assert "hunter2" not in Scrubber()(text).lower()


def test_a_secret_is_hidden_in_its_quoted_forms_too():
    scrub = Scrubber(["a/b+c d", "a/b"])
    assert scrub("a/b+c d, a%2Fb%2Bc%20d, a%2Fb%2Bc+d, a/b") == "***, ***, ***, ***"
    assert "a/b" not in repr(scrub)


@pytest.mark.parametrize(
    "text",
    [
        "GET https://user:hun@ter2@host/path failed",
        "GET https://user:hun/ter2@host/path failed",
        "GET http://user:a@b@c:hunter2@host failed",
    ],
)
def test_password_with_an_at_sign_is_masked_whole(text):
    scrubbed = Scrubber()(text)
    assert "ter2" not in scrubbed
    assert "host" in scrubbed


@pytest.mark.parametrize(
    "url", ["s3a://key:hun@ter2@bucket/t", "https://user:hun@ter2@host/t", "s3://k:hun/ter2@bucket/t"]
)
def test_password_with_an_at_sign_in_a_location_is_masked_whole(url):
    with pytest.raises(RequestError) as caught:
        open_store(url)
    assert "ter2" not in str(caught.value)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda function: function.__name__)
def test_store_with_credentials_cannot_be_pickled_or_copied(copied):
    options = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET, "aws_region": "eu-central-1"}
    store = open_store("s3://bucket/t", options)
    for secretive in (store, parse_options(options), Scrubber([SECRET])):
        with pytest.raises(TypeError, match="hold"):
            copied(secretive)


# --- deleting many ----------------------------------------------------------------------------------------------------

DELETED = (200, "<DeleteResult><Deleted><Key>t/x</Key></Deleted></DeleteResult>")
REFUSED = "<DeleteResult><Error><Key>t/c</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"


def test_a_thousand_objects_are_deleted_in_one_request(store, script):
    script.answers = [DELETED]
    assert store.delete_all([f"part-{number}.parquet" for number in range(1000)]) == {}
    assert script.requests == ["POST"]


@pytest.mark.parametrize("refusal", [(403, ""), (200, REFUSED)], ids=["request", "object"])
def test_an_object_that_cannot_be_deleted_is_found_by_halves_and_named(store, script, refusal):
    # All four; a and b; c and d; c; d.
    script.answers = [refusal, DELETED, refusal, refusal, DELETED]
    failed = store.delete_all(["a", "b", "c", "d"])
    assert script.requests == ["POST"] * 5
    assert list(failed) == ["c"]
    assert isinstance(failed["c"], StorageError)
    assert "s3://bucket/t/c" in str(failed["c"])
    assert SECRET not in str(failed["c"])


def test_a_service_that_is_gone_fails_for_every_object(store, script):
    script.answers = [(403, "")]
    assert list(store.delete_all(["a", "b", "c"])) == ["a", "b", "c"]
