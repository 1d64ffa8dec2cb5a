"""Which rows does a descriptor mark, once its vector has been read and checked?

Takes descriptors and a table's store, returns `RowIndexSet`s. Makes every check of the protocol (version, size,
checksum, structure, cardinality, and the highest row where the file's row count is known); each failure is a
`CorruptDeletionVectorError` with Delta's error class. A vector that cannot be read never means "no rows": there is no
lenient mode. Vectors of one file are fetched with as few reads as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.deletion_vectors.bitmap import RowIndexSet
from ebbtide.deletion_vectors.container import DEFAULT_OFFSET, FRAMING_BYTES, check_version, unframe
from ebbtide.errors import CorruptDeletionVectorError, MissingDataFileError, ObjectNotFoundError, RequestError
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.paths import resolve_data_path
from ebbtide.storage import ObjectStore, open_store
from ebbtide.storage.prefetch import prefetch

__all__ = ["load", "load_all"]

# A second request costs more than reading this many unneeded bytes.
_MAX_GAP_BYTES = 64 * 1024
# One read fetches at most about this much, so that a file full of vectors is not held whole.
_MAX_READ_BYTES = 16 * 1024 * 1024
_MAX_THREADS = 8


def load(
    store: ObjectStore,
    table_url: str,
    descriptor: DeletionVectorDescriptor,
    *,
    num_records: int | None = None,
    config: EngineConfig = DEFAULT_CONFIG,
    storage_options: Mapping[str, str] | None = None,
) -> RowIndexSet:
    """The rows that `descriptor` marks in a file of `num_records` physical rows (None: unknown, not checked).

    `store` holds the table, `table_url` is its encoded URL. A missing file raises `MissingDataFileError`, a path into
    another store `UnsupportedFeatureError` unless the config allows it.
    """
    [rows] = load_all(
        store, table_url, [descriptor], num_records=[num_records], config=config, storage_options=storage_options
    )
    return rows


def load_all(
    store: ObjectStore,
    table_url: str,
    descriptors: Sequence[DeletionVectorDescriptor],
    *,
    num_records: Sequence[int | None] | None = None,
    config: EngineConfig = DEFAULT_CONFIG,
    storage_options: Mapping[str, str] | None = None,
) -> list[RowIndexSet]:
    """The rows of each descriptor, in their order. Vectors of one file share reads; files are read side by side."""
    if num_records is not None and len(num_records) != len(descriptors):
        raise RequestError(f"{len(num_records)} row counts were given for {len(descriptors)} deletion vectors.")
    loaded: dict[int, RowIndexSet] = {}
    on_disk: dict[str, list[_Request]] = {}
    for index, descriptor in enumerate(descriptors):
        if descriptor.is_empty:
            loaded[index] = RowIndexSet()
            continue
        _check_size(descriptor, config)
        if descriptor.is_on_disk:
            on_disk.setdefault(descriptor.unique_file_id, []).append(_Request(index, descriptor))
        else:
            loaded[index] = _parse(descriptor.inline_data, descriptor, where=f"An inline vector in {table_url}")
    files = [_VectorFile.locate(store, table_url, group, config, storage_options) for group in on_disk.values()]
    for of_one_file in prefetch(_VectorFile.load, files, ahead=_MAX_THREADS):
        loaded.update(of_one_file)
    for index, known_rows in enumerate(num_records or ()):
        if known_rows is not None:
            loaded[index].check_rows_below(known_rows)
    return [loaded[index] for index in range(len(descriptors))]


@dataclass(frozen=True, slots=True)
class _Request:
    """One wanted vector, and the position of its result."""

    index: int
    descriptor: DeletionVectorDescriptor

    @property
    def start(self) -> int:
        return DEFAULT_OFFSET if self.descriptor.offset is None else self.descriptor.offset

    @property
    def stop(self) -> int:
        return self.start + self.descriptor.size_in_bytes + FRAMING_BYTES


@dataclass(frozen=True, slots=True)
class _VectorFile:
    """One `.bin` file and the vectors wanted from it."""

    store: ObjectStore
    relative_path: str
    requests: tuple[_Request, ...]

    @classmethod
    def locate(
        cls,
        store: ObjectStore,
        table_url: str,
        requests: list[_Request],
        config: EngineConfig,
        storage_options: Mapping[str, str] | None,
    ) -> _VectorFile:
        descriptor = requests[0].descriptor
        ordered = tuple(sorted(requests, key=lambda request: request.start))
        if descriptor.is_relative:
            return cls(store, descriptor.relative_path, ordered)
        location = resolve_data_path(descriptor.path_or_inline_dv, table_url, allow_foreign=config.allow_foreign_paths)
        if location.relative_path is not None:
            return cls(store, location.relative_path, ordered)
        # `open_store` takes decoded names, which is what `absolute_path` gives.
        directory, _, file_name = descriptor.absolute_path(table_url).rpartition("/")
        try:
            return cls(open_store(directory, storage_options), file_name, ordered)
        except RequestError as error:
            raise CorruptDeletionVectorError(f"The path of a deletion vector cannot be opened. {error}") from error

    def load(self) -> dict[int, RowIndexSet]:
        where = f"The deletion-vector file '{self.relative_path}' in {self.store.url}"
        loaded: dict[int, RowIndexSet] = {}
        try:
            spans = list(_spans(self.requests))
            if spans[0].start != 0:
                check_version(self.store.read_range(self.relative_path, 0, 1), where=where)
            for span in spans:
                data = self.store.read_range(self.relative_path, span.start, span.stop - span.start)
                if span.start == 0:
                    check_version(data[:1], where=where)
                for request in span.requests:
                    framed = data[request.start - span.start : request.stop - span.start]
                    payload = unframe(framed, request.descriptor.size_in_bytes, where=where)
                    loaded[request.index] = _parse(payload, request.descriptor, where=where)
        except ObjectNotFoundError as error:
            raise MissingDataFileError(
                f"{where} is named by the log but is not there. It may have been vacuumed or lost."
            ) from error
        return loaded


@dataclass(slots=True)
class _Span:
    """Bytes of a file that are fetched by one read."""

    start: int
    stop: int
    requests: list[_Request]


def _spans(requests: Iterable[_Request]) -> Iterator[_Span]:
    """Requests in order of offset, joined where they lie close; the first span takes the version byte if it is near."""
    span = _Span(0, 1, [])
    for request in requests:
        is_near = request.start - span.stop <= _MAX_GAP_BYTES
        is_small = max(span.stop, request.stop) - span.start <= _MAX_READ_BYTES
        if is_near and (is_small or not span.requests):
            span.stop = max(span.stop, request.stop)
        else:
            if span.requests:
                yield span
            span = _Span(request.start, request.stop, [])
        span.requests.append(request)
    yield span


def _check_size(descriptor: DeletionVectorDescriptor, config: EngineConfig) -> None:
    limit = config.max_deletion_vector_bytes
    if descriptor.size_in_bytes > limit:
        raise CorruptDeletionVectorError(
            f"A deletion vector claims {descriptor.size_in_bytes} bytes; EngineConfig.max_deletion_vector_bytes "
            f"allows {limit}."
        )
    if descriptor.cardinality > config.max_deletion_vector_rows:
        raise CorruptDeletionVectorError(
            f"A deletion vector claims to mark {descriptor.cardinality} rows; EngineConfig.max_deletion_vector_rows "
            f"allows {config.max_deletion_vector_rows}."
        )


def _parse(payload: bytes, descriptor: DeletionVectorDescriptor, *, where: str) -> RowIndexSet:
    try:
        rows = RowIndexSet.deserialize(payload)
    except CorruptDeletionVectorError as error:
        raise CorruptDeletionVectorError(f"{where}: {error}") from error
    if len(rows) != descriptor.cardinality:
        raise CorruptDeletionVectorError(
            f"{where} marks {len(rows)} rows, the log says {descriptor.cardinality}.",
            error_class="DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH",
        )
    return rows
