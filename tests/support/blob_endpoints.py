"""Small HTTP endpoints that speak as much of Google's XML API and of Azure Blob as a table needs.

There is no emulator of either in Python. These are enough to run obstore's real clients, and so our use of them, through
the store contract; what the services themselves promise is not tested here. Pages are tiny so that every listing is paged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 3
MODIFIED_HTTP = "Tue, 14 Nov 2023 22:13:20 GMT"
MODIFIED_ISO = "2023-11-14T22:13:20.000Z"


@dataclass
class Blobs:
    objects: dict[str, bytes] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


class BlobHandler(BaseHTTPRequestHandler):
    """Objects at `/<container>/<key>`; subclasses know the headers and the listing of their service."""

    protocol_version = "HTTP/1.1"
    # One packet an answer; headers and body apart would each wait for the other side's delayed acknowledgement.
    wbufsize = 1 << 20
    disable_nagle_algorithm = True
    blobs: ClassVar[Blobs]
    exists_status = 412

    def is_create(self) -> bool:
        raise AssertionError

    def listing(self, query: dict[str, str]) -> str:
        raise AssertionError

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.blobs.lock:
            taken = self.is_create() and self.key() in self.blobs.objects
            if not taken:
                self.blobs.objects[self.key()] = body
        if taken:
            self.answer(self.exists_status, b"<Error><Code>Exists</Code><Message>taken</Message></Error>")
        else:
            self.answer(201)

    def do_GET(self):
        if not self.key():
            query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            self.answer(200, self.listing(query).encode())
            return
        data = self.blobs.objects.get(self.key())
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or self.headers.get("x-ms-range") or "")
        if data is None:
            self.answer(404, b"<Error><Code>NotFound</Code><Message>none</Message></Error>")
        elif asked is None:
            self.answer(200, data)
        elif int(asked[1]) >= len(data):
            self.answer(416, b"<Error><Code>InvalidRange</Code><Message>no</Message></Error>")
        else:
            part = data[int(asked[1]) : int(asked[2] or len(data)) + 1]
            first = int(asked[1])
            self.answer(206, part, {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(data)}"})

    do_HEAD = do_GET

    def do_DELETE(self):
        with self.blobs.lock:
            found = self.blobs.objects.pop(self.key(), None)
        self.answer(404 if found is None else 204)

    def key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix("/").partition("/")[2]

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        sent = {"ETag": '"1"', "Last-Modified": MODIFIED_HTTP, "x-goog-generation": "1", **(headers or {})}
        for name, value in sent.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def page(self, names: list[str], query: dict[str, str], marker: str) -> tuple[list[str], list[str], str]:
        """Keys, common prefixes and the next marker of one page of `names`."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        start = int(query.get(marker, "0"))
        entries: list[str] = []
        for name in (name for name in names if name.startswith(prefix)):
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            entry = name if cut < 0 else name[: cut + 1]
            if entry not in entries:
                entries.append(entry)
        now = entries[start : start + PAGE]
        following = str(start + PAGE) if start + PAGE < len(entries) else ""
        directories = [entry for entry in now if delimiter and entry.endswith(delimiter)]
        return [entry for entry in now if entry not in directories], directories, following

    def log_message(self, *arguments: object) -> None:
        pass


class GoogleHandler(BlobHandler):
    def is_create(self) -> bool:
        return self.headers.get("x-goog-if-generation-match") == "0"

    def listing(self, query: dict[str, str]) -> str:
        names = sorted(name for name in self.blobs.objects if name > query.get("start-after", ""))
        keys, directories, following = self.page(names, query, "continuation-token")
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{MODIFIED_ISO}</LastModified>"
            f"<ETag>1</ETag><Size>{len(self.blobs.objects[key])}</Size></Contents>"
            for key in keys
        )
        prefixes = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in directories)
        token = f"<NextContinuationToken>{following}</NextContinuationToken>" if following else ""
        return f"<ListBucketResult>{contents}{prefixes}{token}</ListBucketResult>"


class AzureHandler(BlobHandler):
    exists_status = 409

    def is_create(self) -> bool:
        return self.headers.get("If-None-Match") == "*"

    def do_POST(self):
        """A batch of deletes: HTTP requests as the parts of a multipart body, answered in the same shape."""
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        parts = []
        for number, path in enumerate(re.findall(r"^DELETE (\S+) HTTP", asked, re.MULTILINE)):
            key = unquote(urlsplit(path).path).removeprefix("/").partition("/")[2]
            with self.blobs.lock:
                found = self.blobs.objects.pop(key, None)
            status = "404 The specified blob does not exist." if found is None else "202 Accepted"
            code = "x-ms-error-code: BlobNotFound\r\n" if found is None else ""
            parts.append(
                f"--answer\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
                f"HTTP/1.1 {status}\r\n{code}\r\n\r\n"
            )
        body = "".join(parts) + "--answer--\r\n"
        self.answer(202, body.encode(), {"Content-Type": "multipart/mixed; boundary=answer"})

    def listing(self, query: dict[str, str]) -> str:
        # A hierarchical namespace walks directories first, which is not the order of the full names' bytes.
        names = sorted(self.blobs.objects, key=lambda name: name.split("/"))
        keys, directories, following = self.page(names, query, "marker")
        blobs = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>{MODIFIED_HTTP}</Last-Modified>"
            f"<Content-Length>{len(self.blobs.objects[key])}</Content-Length><Content-Type>a/b</Content-Type>"
            "<Etag>1</Etag></Properties></Blob>"
            for key in keys
        )
        prefixes = "".join(f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in directories)
        return (
            f"<EnumerationResults><Blobs>{blobs}{prefixes}</Blobs><NextMarker>{following}</NextMarker>"
            "</EnumerationResults>"
        )


@contextmanager
def blob_endpoint(handler: type[BlobHandler]) -> Iterator[str]:
    """The URL of an empty endpoint of that kind."""
    serving = type(handler.__name__, (handler,), {"blobs": Blobs()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), serving)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
