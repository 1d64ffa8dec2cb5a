"""How does a table become the start of another one without copying its files?

    the source at a version -> its definition as a table of its own, its files by absolute paths
                            -> one commit at the target: a new table, or a new version of an empty one

Only logs are read and written, and the source's is only read: what happens to the clone later (marks, rewrites, VACUUM)
happens in the clone's own directory. The other way round there is no such promise: VACUUM of the source deletes
files that only the clone still needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ebbtide.commands.clone.definition import CloneDefinition, define_clone
from ebbtide.commands.clone.files import cloned_files, ensure_apart
from ebbtide.commands.clone.results import CloneMetrics, CloneResult
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.restore.availability import find_missing_files
from ebbtide.commands.restore.difference import find_difference
from ebbtide.errors import RequestError, TableAlreadyExistsError, TableNotFoundError, UnsupportedFeatureError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.file_retention import ensure_files_retained
from ebbtide.protocol.actions import Action, AddFile
from ebbtide.protocol.features import ensure_writable, is_feature_supported
from ebbtide.protocol.statistics import num_records
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation, Transaction

__all__ = ["CloneHow", "CloneRequest", "clone_table", "refuse_deep_clone"]

# create: where there is no table; create_if_not_exists: leave an existing one alone; replace: an existing, empty one;
# create_or_replace: whichever of the two is possible.
CloneHow = Literal["create", "create_if_not_exists", "replace", "create_or_replace"]

_REMEDY = "Clone a version whose files are still there."


@dataclass(frozen=True, slots=True)
class CloneRequest:
    """Clone `source`, now or at a version or time, to `target`. `properties` override those of the source."""

    source: ObjectStore
    target: ObjectStore
    version: int | None = None
    timestamp_ms: int | None = None
    how: CloneHow = "create"
    properties: Mapping[str, str] = field(default_factory=dict)
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None
    may_downgrade: bool = False
    dry_run: bool = False
    # Whether a version is refused that is older than the time for which the source keeps removed files.
    enforces_retention: bool = False


def _ignore(phase: str) -> None:
    del phase


def clone_table(request: CloneRequest, *, on_phase: Callable[[str], None] = _ignore) -> CloneResult:
    """Make the clone, in one commit; `on_phase` is told the current step."""
    on_phase("Reading the log of the source")
    ensure_apart(request.source, request.target)
    source = _source_snapshot(request)
    on_phase("Reading the log of the target")
    transaction = _target_transaction(request)
    if transaction is not None and request.how == "create_if_not_exists":
        return _result(request, source, None)
    replaced = None if transaction is None else transaction.snapshot
    definition = define_clone(source, replaced, request.properties, may_downgrade=request.may_downgrade)
    adds = tuple(cloned_files(source))
    _check(source, definition, adds)
    if request.dry_run:
        return _result(request, source, None)
    on_phase("Committing")
    return _result(request, source, _commit(request, source, transaction, definition, adds))


def refuse_deep_clone(is_shallow: bool) -> None:
    if not is_shallow:
        raise UnsupportedFeatureError(
            "Only shallow clones can be made, as in open-source Delta: a deep clone copies the files too. Pass "
            "isShallow=True, or write SHALLOW CLONE; for a copy of the rows, ebbtide.write(table.toDF(), path).",
            error_class="DELTA_UNSUPPORTED_DEEP_CLONE",
        )


def _source_snapshot(request: CloneRequest) -> Snapshot:
    config = request.options.config
    newest = load_snapshot(request.source, config=config, hint=request.hint)
    if request.version is None and request.timestamp_ms is None:
        return newest
    source = load_snapshot(request.source, version=request.version, timestamp_ms=request.timestamp_ms, config=config)
    if request.enforces_retention:
        ensure_files_retained(source, newest=newest)
    missing = find_missing_files(
        request.source,
        find_difference(source, newest).adds(),
        config=config,
        storage_options=request.options.storage_options,
    )
    if missing.data or missing.vectors:
        raise missing.refusal(request.source.url, source.version, _REMEDY)
    return source


def _target_transaction(request: CloneRequest) -> Transaction | None:
    """A transaction on the table that is to be replaced; None where there is no table."""
    url = request.target.url
    try:
        transaction = Transaction.begin(request.target, config=request.options.config)
    except TableNotFoundError:
        if request.how == "replace":
            raise TableNotFoundError(
                f"There is no Delta table at {url} to replace by a clone. CREATE OR REPLACE makes one.",
                error_class="DELTA_CANNOT_REPLACE_MISSING_TABLE",
            ) from None
        return None
    if request.how == "create":
        raise TableAlreadyExistsError(
            f"There is a Delta table at {url} already, and nothing was changed. Clone to another place; replace=True "
            "(--replace) puts the clone in the place of an empty table."
        )
    snapshot = transaction.snapshot
    if request.how != "create_if_not_exists":
        ensure_writable(snapshot.protocol, snapshot.metadata)
        if snapshot.num_files:
            raise RequestError(
                f"The table at {url} has {snapshot.num_files} files, and a clone replaces only an empty table. Clone "
                "to another place, or delete its rows first.",
                error_class="DELTA_UNSUPPORTED_NON_EMPTY_CLONE",
            )
    return transaction


def _check(source: Snapshot, definition: CloneDefinition, adds: tuple[AddFile, ...]) -> None:
    ensure_writable(definition.protocol, definition.metadata)
    if not is_feature_supported(definition.protocol, "rowTracking"):
        return
    uncounted = next((add.path for add in adds if num_records(add.stats) is None), None)
    if uncounted is not None:
        raise RequestError(
            f"The table at {source.store.url} cannot be cloned with row tracking: the statistics of its file "
            f"'{uncounted}' do not say how many rows it has, so they cannot be numbered. Rewrite the file first.",
            error_class="DELTA_CLONE_WITH_ROW_TRACKING_WITHOUT_STATS",
        )


def _commit(
    request: CloneRequest,
    source: Snapshot,
    transaction: Transaction | None,
    definition: CloneDefinition,
    adds: tuple[AddFile, ...],
) -> int:
    changes: list[Action] = []
    if transaction is None:
        config = request.options.config
        transaction = Transaction.create(request.target, definition.metadata, definition.protocol, config=config)
    else:
        changes.append(definition.metadata)
        if definition.protocol != transaction.snapshot.protocol:
            changes.append(definition.protocol)
    # Somebody who writes to the target meanwhile makes it a table that is not empty.
    transaction.record_read_whole_table()
    operation = Operation(
        "CLONE",
        {"source": f"delta.`{source.store.spark_path}`", "sourceVersion": source.version},
        _metrics(source).operation_metrics,
        user_metadata=request.options.user_metadata,
    )
    return transaction.commit((*changes, *definition.domains, *adds), operation).version


def _metrics(source: Snapshot) -> CloneMetrics:
    return CloneMetrics(source.size_in_bytes, source.num_files)


def _result(request: CloneRequest, source: Snapshot, version: int | None) -> CloneResult:
    return CloneResult(version, _metrics(source), request.target.url, request.source.url, source.version)
