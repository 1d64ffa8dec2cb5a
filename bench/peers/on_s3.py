"""How many requests does the same work make on an object store?

An endpoint of moto's on loopback, which is in no hurry: requests are counted and nothing is timed. Only work that
starts no Spark job can be looked at so, because a Spark without further JARs does not reach S3.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.client import EngineError
from bench.peers.engines import EBBTIDE, Engine, named
from bench.peers.measure import Case
from bench.peers.run import Run

__all__ = ["count_requests"]

ENGINES = (EBBTIDE, named("deltalake"))


def count_requests(
    run: Run, case: Case, table: Callable[[Path, Engine], object], task: dict[str, Any], engines: tuple = ENGINES
) -> None:
    """Write the numbers into the case, for the engines that it has measured."""
    with bucket() as store:
        for engine in run.present(engines):
            result = case.of(engine.name)
            if result is None or result.trouble:
                continue
            with run.place(f"{engine.slug}-s3") as path:
                table(path, engine)
                url = store.put(path, engine.slug)
            process = run.start(engine)
            asked = task | {"path": url, "options": store.options}
            before = store.requests
            try:
                process.ask(asked)
                result.requests = store.requests - before
            except EngineError as error:
                result.trouble = f"on S3: {error}"
            run.release(process)


@dataclass
class Bucket:
    """A bucket of moto's; what is put into it here makes no request."""

    name: str
    options: dict[str, str]
    requests: int = 0

    def put(self, table: Path, at: str) -> str:
        """The table as it is on disk; where it is now. Times are kept: a VACUUM looks at them."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        for file in sorted(table.rglob("*")):
            if file.is_file():
                placed = store.put_object(self.name, f"{at}/{file.relative_to(table)}", file.read_bytes())
                placed.last_modified = dt.datetime.fromtimestamp(file.stat().st_mtime, dt.timezone.utc)
        return f"s3://{self.name}/{at}"


@contextmanager
def bucket(name: str = "bench") -> Iterator[Bucket]:
    """On loopback, for as long as the block runs."""
    from tests.support.s3_endpoint import s3_endpoint

    with s3_endpoint() as endpoint:
        made_bucket = Bucket(endpoint.create_bucket(name), endpoint.storage_options)
        with _counted(endpoint.server, made_bucket):
            yield made_bucket


@contextmanager
def _counted(server: Any, told: Bucket) -> Iterator[None]:
    application = server.app

    def counting(environment: Any, start_response: Any) -> Any:
        told.requests += 1
        return application(environment, start_response)

    server.app = counting
    try:
        yield
    finally:
        server.app = application
