"""Would we read what we are about to commit?

The second line of defence behind the argument checks: `ensure_readable_commit` reads the exact bytes of a commit with
the engine's own strict reader before they are put. A value of the wrong type, however it got past the checks, stops
here. In a table it could make the log unreadable for good. The reader is lenient with other writers; what we write must
be spelled exactly as the protocol says. So a value that only leniency would accept (a number where a string belongs) is
refused too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any, Final

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError, InternalError
from ebbtide.log.commit_scan import CommitScan
from ebbtide.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    parse_commit,
    serialize_actions,
)
from ebbtide.protocol.features import ensure_readable
from ebbtide.protocol.json_fields import INT64_MAX
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import (
    CHAR_VARCHAR,
    COLUMN_ID,
    PHYSICAL_NAME,
    StructType,
    all_fields,
    parse_schema,
    partition_fields,
    physical_schema,
)
from ebbtide.transaction.proposal import Proposal

__all__ = ["ensure_readable_commit"]

# These take the definition of a table as it is, or was.
_COPYING_OPERATIONS: Final = frozenset({"RESTORE", "CLONE"})
_TEXT: Final[frozenset[type]] = frozenset({str, NoneType})
_NUMBER: Final[frozenset[type]] = frozenset({int, NoneType})
_FLAG: Final[frozenset[type]] = frozenset({bool, NoneType})
_ADD_FIELDS: Final[Mapping[str, frozenset[type]]] = {
    "path": frozenset({str}),
    "size": frozenset({int}),
    "modification_time": frozenset({int}),
    "data_change": frozenset({bool}),
    "stats": _TEXT,
    "base_row_id": _NUMBER,
    "default_row_commit_version": _NUMBER,
    "clustering_provider": _TEXT,
}
_REMOVE_FIELDS: Final[Mapping[str, frozenset[type]]] = {
    "path": frozenset({str}),
    "deletion_timestamp": _NUMBER,
    "data_change": frozenset({bool}),
    "extended_file_metadata": _FLAG,
    "size": _NUMBER,
    "stats": _TEXT,
    "base_row_id": _NUMBER,
    "default_row_commit_version": _NUMBER,
}
_FILE_FIELDS: Final[Mapping[type, Mapping[str, frozenset[type]]]] = {
    AddFile: _ADD_FIELDS,
    RemoveFile: _REMOVE_FIELDS,
    AddCDCFile: {"path": frozenset({str}), "size": frozenset({int})},
}
# What engines keep in the metadata of a column, and the type they read it as.
_FIELD_METADATA: Final[Mapping[str, type]] = {
    "comment": str,
    "CURRENT_DEFAULT": str,
    "EXISTS_DEFAULT": str,
    "delta.generationExpression": str,
    "delta.invariants": str,
    CHAR_VARCHAR: str,
    COLUMN_ID: int,
    PHYSICAL_NAME: str,
}
_INFO_FIELDS: Final[Mapping[str, type]] = {
    "inCommitTimestamp": int,
    "timestamp": int,
    "operation": str,
    "operationParameters": dict,
    "operationMetrics": dict,
    "userMetadata": str,
    "tags": dict,
    "engineInfo": str,
    "txnId": str,
}


def ensure_readable_commit(
    data: bytes, written: Sequence[Action], proposal: Proposal, *, source: str, config: EngineConfig
) -> None:
    """InternalError unless a reader of `data` gets exactly the actions `written`, in a state it may read.

    CorruptTableError where the commit copies the definition of a table, so that the table is at fault.
    """
    try:
        scan = _scan_commit(data, source, config)
        _check_state(scan, proposal)
    except CorruptTableError as error:
        if proposal.operation.name in _COPYING_OPERATIONS:
            raise CorruptTableError(
                f"{proposal.operation.name} would copy what cannot be read: {error}. Nothing was changed. Mend the "
                "table with the engine that made it, or choose another version."
            ) from error
        raise _refusal(str(error)) from error
    for kind, fields in _FILE_FIELDS.items():
        files = [action for action in written if type(action) is kind]
        _check_fields(files, fields)
        _check_maps(files)
    _check_info(scan.small.commit_info)
    _check_small_actions(scan, written)


def _scan_commit(data: bytes, source: str, config: EngineConfig) -> CommitScan:
    scan = CommitScan(config)
    scan.read(data, version=0, source=source)
    scan.small.ensure_well_formed()
    scan.file_actions()
    if b'\n{"cdc"' in data:
        # Change data is not part of the state, so the scan skips it.
        changes = b"\n".join(line for line in data.split(b"\n") if line.startswith(b'{"cdc"'))
        parse_commit(changes, source=source, max_line_bytes=config.max_log_line_bytes)
    return scan


def _check_state(scan: CommitScan, proposal: Proposal) -> None:
    """The table after the commit must pass our own gate, and Spark must be able to hold its columns."""
    if not (proposal.changes_metadata or proposal.changes_protocol):
        return
    protocol = scan.small.protocol or proposal.protocol
    metadata = scan.small.metadata or proposal.metadata
    ensure_readable(protocol, metadata)
    TableProperties.check(metadata.configuration)
    schema = parse_schema(metadata.schema_string)
    partition_fields(schema, metadata.partition_columns)
    physical_schema(schema, TableProperties.parse(metadata.configuration).column_mapping_mode)
    known = set() if proposal.base is None else set(_strange_metadata(proposal.base.schema))
    strange = next((found for found in _strange_metadata(schema) if found not in known), None)
    if strange is not None:
        raise CorruptTableError(strange)


def _check_small_actions(scan: CommitScan, written: Sequence[Action]) -> None:
    """What is read must be what was meant, down to the bytes: a lenient reader may accept another type."""
    for action in written:
        read: Action | None
        match action:
            case Protocol():
                read = scan.small.protocol
            case Metadata():
                read = scan.small.metadata
            case SetTransaction():
                read = scan.small.transactions.get(action.app_id)
            case DomainMetadata():
                read = scan.small.domain_metadata.get(action.domain)
            case _:
                continue
        if read is None or serialize_actions([read]) != serialize_actions([action]):
            raise _refusal(f"{action} would be read as {read}")


def _check_fields(files: Sequence[Any], fields: Mapping[str, frozenset[type]]) -> None:
    for name, kinds in fields.items():
        get = attrgetter(name)
        if not set(map(type, map(get, files))) <= kinds:
            file = next(file for file in files if type(get(file)) not in kinds)
            raise _refusal(f"'{name}' of the file '{file.path}' is {get(file)!r}, a {type(get(file)).__name__}")


def _check_maps(files: Sequence[Any]) -> None:
    for file in files:
        if file.partition_values:
            for key, value in file.partition_values.items():
                if type(value) not in _TEXT:
                    raise _refusal(f"the partition value '{key}' of the file '{file.path}' is {value!r}, not a string")
        if file.tags:
            for key, value in file.tags.items():
                if type(value) is not str:
                    raise _refusal(f"the tag '{key}' of the file '{file.path}' is {value!r}, not a string")


def _check_info(info: CommitInfo | None) -> None:
    if info is None:
        raise _refusal("it has no commitInfo")
    for name, kind in _INFO_FIELDS.items():
        value = info.fields.get(name)
        if value is not None and type(value) is not kind:
            raise _refusal(f"'{name}' of commitInfo is {value!r}, a {type(value).__name__}")
    for name in ("operationMetrics", "tags"):
        for key, value in (info.fields.get(name) or {}).items():
            if type(value) is not str:
                raise _refusal(f"'{key}' in '{name}' of commitInfo is {value!r}, not a string")


def _strange_metadata(schema: StructType) -> Iterator[str]:
    """Entries in the metadata of columns that other engines could not read."""
    for field in all_fields(schema):
        for key, value in field.metadata.items():
            kind = _FIELD_METADATA.get(key)
            if (kind is not None and type(value) is not kind) or not _is_spark_metadata(value):
                yield f"'{key}' in the metadata of the column '{field.name}' is {value!r}, a {type(value).__name__}"


def _is_spark_metadata(value: object) -> bool:
    """Whether Spark's own Metadata can hold the value; it reads arrays by the type of their first element."""
    if isinstance(value, dict):
        return all(_is_spark_metadata(item) for item in value.values())
    if isinstance(value, list):
        return len(set(map(type, value))) <= 1 and all(item is not None and _is_spark_metadata(item) for item in value)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return True
    if isinstance(value, int):
        return -INT64_MAX - 1 <= value <= INT64_MAX
    return isinstance(value, float) and math.isfinite(value)


def _refusal(problem: str) -> InternalError:
    return InternalError(
        f"This commit could not be read again, so it was not made: {problem}. Nothing was changed. Give the value with "
        "the type that the call asks for; if you did, please report this message."
    )
