"""Stores that watch, pause or fail, for tests of concurrency and of faults.

All of them wrap a real store. `op` is the method's name; `path` its first argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event

from ebbtide.errors import StorageError
from ebbtide.storage import ObjectMeta, ObjectStore

Hook = Callable[[str, str], None]


class SimulatedCrash(BaseException):
    """The process died here. Not an `Exception`, so that no error handling of the engine runs as it would not run then."""


class HookedStore:
    """Calls `before(op, path)` and `after(op, path)` around every operation, and keeps `calls`.

    An `after` that raises stands for an answer that was lost: the operation itself has happened.
    """

    def __init__(self, inner: ObjectStore, *, before: Hook | None = None, after: Hook | None = None) -> None:
        self.inner = inner
        self.calls: list[tuple[str, str]] = []
        self._before = before
        self._after = after

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def spark_path(self) -> str:
        return self.inner.spark_path

    @property
    def spark_options(self) -> Mapping[str, str]:
        return self.inner.spark_options

    def before(self, op: str, path: str) -> None:
        if self._before is not None:
            self._before(op, path)

    def after(self, op: str, path: str) -> None:
        if self._after is not None:
            self._after(op, path)

    def list(self, prefix: str, *, start_after: str | None = None, in_order: bool = True) -> Iterator[ObjectMeta]:
        return iter(self._call("list", prefix, lambda: [*self.inner.list(prefix, start_after=start_after)]))

    def list_directory(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        found = self._call(
            "list_directory", prefix, lambda: [*self.inner.list_directory(prefix, start_after=start_after)]
        )
        return iter(found)

    def head(self, path: str) -> ObjectMeta:
        return self._call("head", path, lambda: self.inner.head(path))

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return self._call("read", path, lambda: self.inner.read(path, max_bytes=max_bytes))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._call("read_range", path, lambda: self.inner.read_range(path, offset, length))

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._call("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def put(self, path: str, data: bytes) -> None:
        self._call("put", path, lambda: self.inner.put(path, data))

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self.inner.delete(path))

    def delete_all(self, paths: Sequence[str]) -> Mapping[str, StorageError]:
        return self._call("delete_all", "".join(paths[:1]), lambda: self.inner.delete_all(paths))

    def _call(self, op, path, operation):
        self.calls.append((op, path))
        self.before(op, path)
        result = operation()
        self.after(op, path)
        return result


class PausingStore(HookedStore):
    """Stops before the first `op` whose path ends with `suffix`, until `resume()`; later ones pass.

    writer = Thread(target=delete, args=(PausingStore(store),))
    writer.start(); paused.wait_until_reached(); ...another writer commits...; paused.resume(); writer.join()
    """

    def __init__(self, inner: ObjectStore, *, op: str = "put_if_absent", suffix: str = "", timeout: float = 60) -> None:
        super().__init__(inner)
        self._op = op
        self._suffix = suffix
        self._timeout = timeout
        self._reached = Event()
        self._resumed = Event()

    def before(self, op: str, path: str) -> None:
        if op == self._op and path.endswith(self._suffix) and not self._reached.is_set():
            self._reached.set()
            if not self._resumed.wait(self._timeout):
                raise AssertionError(f"nobody resumed {op} of {path!r}")

    def wait_until_reached(self) -> None:
        if not self._reached.wait(self._timeout):
            raise AssertionError(f"{self._op} was never called for a path that ends with {self._suffix!r}")

    def resume(self) -> None:
        self._resumed.set()


class FailingStore(HookedStore):
    """Raises `error` at call number `at` (from 0) among the calls of `op` (None: of any), before or after it happens.

    With `SimulatedCrash` every later call raises too: a dead process makes no more calls.
    """

    def __init__(
        self,
        inner: ObjectStore,
        error: BaseException,
        *,
        op: str | None = None,
        at: int = 0,
        happens: bool = False,
    ) -> None:
        super().__init__(inner)
        self.failed = False
        self._error = error
        self._op = op
        self._left = at
        self._happens = happens
        self._is_due = False

    def before(self, op: str, path: str) -> None:
        if self.failed and isinstance(self._error, SimulatedCrash):
            raise self._error
        if not self.failed and self._op in {None, op}:
            self._is_due = self._left == 0
            self._left -= 1
            if self._is_due and not self._happens:
                self._fail()

    def after(self, op: str, path: str) -> None:
        if self._is_due and not self.failed:
            self._fail()

    def _fail(self) -> None:
        self.failed = True
        raise self._error
