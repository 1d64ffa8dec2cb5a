"""Which numbers describe a version, so that others can check their replay of it?

The version checksum `<version>.crc` is one JSON object beside the commit, optional and never overwritten. Everything in
it is computed from the whole snapshot and nothing is carried over from an older checksum: the numbers are right, or
there is no file. See "Version Checksum File" in PROTOCOL.md.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.config import EngineConfig
from ebbtide.errors import ObjectExistsError
from ebbtide.log.commit_times import in_commit_times, read_commit_info
from ebbtide.log.snapshot import Snapshot
from ebbtide.protocol.actions import CommitInfo
from ebbtide.protocol.features import deletion_vectors_readable
from ebbtide.protocol.json_fields import INT64_MAX
from ebbtide.protocol.log_names import checksum_name, log_path

__all__ = ["version_checksum", "write_checksum"]

_MAX_TRANSACTIONS: Final = 100
_MAX_DOMAINS: Final = 10
# Histograms sort the sizes of all files; with more files than this, a small commit would have to wait.
_MAX_FILES_IN_HISTOGRAMS: Final = 200_000
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_GIB: Final = 1024 * _MIB


def _steps(first: int, last: int, step: int) -> list[int]:
    return [size * _MIB for size in range(first, last + 1, step)]


# The bins of the reference, so that its histograms and ours can be compared: fine around 128 MiB, 512 MiB and 1 GiB.
_FILE_SIZE_BINS: Final = [
    0,
    *(8 * _KIB * 2**power for power in range(10)),
    *_steps(8, 40, 4),
    *_steps(48, 120, 8),
    *_steps(124, 144, 4),
    *_steps(160, 576, 16),
    *_steps(640, 1408, 64),
    *_steps(1536, 2048, 128),
    *_steps(2304, 4096, 256),
    *(8 * _GIB * 2**power for power in range(6)),
]
_DELETED_RECORDS_BINS: Final = [0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 2**31 - 1]


def write_checksum(snapshot: Snapshot, *, config: EngineConfig) -> bool:
    """Write the checksum of the snapshot's version; False when there is one already or a number is uncertain."""
    commit = snapshot.segment.commit
    info = None if commit is None else read_commit_info(snapshot.store, commit, config)
    checksum = version_checksum(snapshot, info)
    if checksum is None:
        return False
    data = orjson.dumps(checksum, option=orjson.OPT_APPEND_NEWLINE)
    try:
        snapshot.store.put_if_absent(log_path(checksum_name(snapshot.version)), data)
    except ObjectExistsError:
        return False
    return True


def version_checksum(snapshot: Snapshot, commit_info: CommitInfo | None) -> dict[str, Any] | None:
    """The content of the file; None when it cannot be known. `commit_info` is from the version's commit."""
    files = snapshot.files
    sizes = files.column("size")
    size_in_bytes = _exact_sum(sizes)
    timestamp = None if commit_info is None else commit_info.in_commit_timestamp
    has_timestamp = _has_in_commit_timestamp(snapshot)
    if size_in_bytes is None or (has_timestamp and timestamp is None):
        return None
    checksum = {
        "txnId": None if commit_info is None else commit_info.txn_id,
        "tableSizeBytes": size_in_bytes,
        "numFiles": files.num_rows,
        **_deleted_records(snapshot, files),
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": timestamp if has_timestamp else None,
        "setTransactions": _transactions(snapshot),
        "domainMetadata": _domains(snapshot),
        "metadata": snapshot.metadata.to_json(),
        "protocol": snapshot.protocol.to_json(),
        "fileSizeHistogram": _file_sizes(sizes) if files.num_rows <= _MAX_FILES_IN_HISTOGRAMS else None,
    }
    return {name: value for name, value in checksum.items() if value is not None}


def _has_in_commit_timestamp(snapshot: Snapshot) -> bool:
    times = in_commit_times(snapshot.protocol, snapshot.metadata)
    return times is not None and snapshot.version >= times.first_version


def _transactions(snapshot: Snapshot) -> list[dict[str, Any]] | None:
    transactions = snapshot.transactions
    # With a retention, readers drop old ones by their own clocks, so two readers would not agree on the list.
    if len(transactions) > _MAX_TRANSACTIONS or snapshot.properties.set_transaction_retention_ms is not None:
        return None
    return [transaction.to_json() for transaction in transactions.values()]


def _domains(snapshot: Snapshot) -> list[dict[str, Any]] | None:
    domains = snapshot.domain_metadata
    return None if len(domains) > _MAX_DOMAINS else [domain.to_json() for domain in domains.values()]


def _deleted_records(snapshot: Snapshot, files: pa.Table) -> dict[str, Any]:
    """How many rows deletion vectors hide; nothing for a table that cannot have them, or where a sum is too large."""
    if not deletion_vectors_readable(snapshot.protocol, snapshot.metadata):
        return {}
    cardinalities = pc.struct_field(files.column("deletion_vector"), "cardinality").drop_null()
    total = _exact_sum(cardinalities)
    if total is None:
        return {}
    numbers: dict[str, Any] = {"numDeletedRecordsOpt": total, "numDeletionVectorsOpt": len(cardinalities)}
    if files.num_rows <= _MAX_FILES_IN_HISTOGRAMS:
        counts, _ = _fill_bins(cardinalities, _DELETED_RECORDS_BINS)
        # A file without a vector has no deleted rows.
        counts[0] += files.num_rows - len(cardinalities)
        numbers["deletedRecordCountsHistogramOpt"] = {"deletedRecordCounts": counts}
    return numbers


def _file_sizes(sizes: pa.ChunkedArray) -> dict[str, Any]:
    counts, totals = _fill_bins(sizes, _FILE_SIZE_BINS)
    return {"sortedBinBoundaries": _FILE_SIZE_BINS, "fileCounts": counts, "totalBytes": totals}


def _fill_bins(values: pa.ChunkedArray, bins: list[int]) -> tuple[list[int], list[int]]:
    """The count and the sum of the values per bin; a bin ends where the next one starts."""
    ordered = values.combine_chunks().sort().to_pylist()
    ends = [bisect_left(ordered, boundary) for boundary in bins[1:]]
    sums = [0, *accumulate(ordered)]
    edges = list(pairwise([0, *ends, len(ordered)]))
    return [end - start for start, end in edges], [sums[end] - sums[start] for start, end in edges]


def _exact_sum(values: pa.ChunkedArray) -> int | None:
    """The sum; None when it does not fit 64 bits. Arrow's own sum would wrap around silently."""
    largest = pc.max(values).as_py() or 0
    if largest * len(values) <= INT64_MAX:
        return int(pc.sum(values).as_py() or 0)
    total = sum(values.to_pylist())
    return total if total <= INT64_MAX else None
