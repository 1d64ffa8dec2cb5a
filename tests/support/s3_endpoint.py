"""A real HTTP endpoint that speaks S3, on loopback: moto's threaded server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

ACCESS_KEY = "AKIAEBBTIDETESTS0001"
SECRET_KEY = "ebbtide/tests+secret/key0000000000000001"
REGION = "us-east-1"


@dataclass(frozen=True)
class S3Endpoint:
    url: str
    client: Any
    # The WSGI server; `app` answers its requests.
    server: Any = None

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_region": REGION,
            "aws_endpoint": self.url,
            "allow_http": "true",
            "max_retries": "1",
        }

    def create_bucket(self, name: str) -> str:
        self.client.create_bucket(Bucket=name)
        return name


@contextmanager
def s3_endpoint() -> Iterator[S3Endpoint]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _serialise(server)
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name=REGION,
    )
    try:
        yield S3Endpoint(url, client, server._server)
    finally:
        client.close()
        server.stop()


def _serialise(server: ThreadedMotoServer) -> None:
    """One request at a time: moto checks If-None-Match first and stores later, and S3 does both at once."""
    application, lock = server._server.app, Lock()

    def one_at_a_time(environment, start_response):
        with lock:
            return application(environment, start_response)

    server._server.app = one_at_a_time
