"""What can one line of the transaction log say?

Each action of the Delta protocol is a frozen value here, with the protocol's words in snake case. `parse_commit` turns
the bytes of a commit into actions and `serialize_actions` turns actions into bytes. Reading is lenient: unknown actions
and fields are ignored, null means absent. Writing is strict: absent options are omitted, never null (only a partition
value may be null), and fields are in the reference writer's order. Nothing here does I/O or reads the clock.

Paths stay as the log has them (URI-encoded); `ebbtide.protocol.paths` resolves them.
See "Actions" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import orjson

from ebbtide.errors import CorruptTableError, RequestError
from ebbtide.protocol.file_actions import AddCDCFile, AddFile, RemoveFile, Sidecar
from ebbtide.protocol.json_fields import INT32_MAX, JsonFields, as_dict, ensure_shallow, load_json_object, without_none

__all__ = [
    "Action",
    "AddCDCFile",
    "AddFile",
    "CheckpointMetadata",
    "CommitInfo",
    "DomainMetadata",
    "Metadata",
    "Protocol",
    "RemoveFile",
    "SetTransaction",
    "Sidecar",
    "parse_action",
    "parse_commit",
    "serialize_actions",
]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Metadata:
    """Schema, partitioning and properties of the table. `schema_string` is parsed by `ebbtide.protocol.schema`."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    name: str | None = None
    description: str | None = None
    format_provider: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict)
    created_time: int | None = None

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> Metadata:
        fields = JsonFields(obj, subject="metaData", source=source)
        file_format = JsonFields(fields.optional_object("format") or {}, subject="metaData.format", source=source)
        return cls(
            id=fields.string("id"),
            schema_string=fields.string("schemaString"),
            partition_columns=fields.optional_strings("partitionColumns") or (),
            configuration=fields.optional_string_map("configuration") or {},
            name=fields.optional_string("name"),
            description=fields.optional_string("description"),
            format_provider=file_format.optional_string("provider") or "parquet",
            format_options=file_format.optional_string_map("options") or {},
            created_time=fields.optional_integer("createdTime"),
        )

    def to_json(self) -> dict[str, Any]:
        return without_none(
            id=self.id,
            name=self.name,
            description=self.description,
            format={"provider": self.format_provider, "options": dict(self.format_options)},
            schemaString=self.schema_string,
            partitionColumns=list(self.partition_columns),
            configuration=dict(self.configuration),
            createdTime=self.created_time,
        )


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a reader and a writer must understand. `ebbtide.protocol.features` decides whether we do."""

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> Protocol:
        fields = JsonFields(obj, subject="protocol", source=source)
        reader_features = fields.optional_strings("readerFeatures")
        writer_features = fields.optional_strings("writerFeatures")
        return cls(
            min_reader_version=fields.integer("minReaderVersion", minimum=0, maximum=INT32_MAX),
            min_writer_version=fields.integer("minWriterVersion", minimum=0, maximum=INT32_MAX),
            reader_features=None if reader_features is None else frozenset(reader_features),
            writer_features=None if writer_features is None else frozenset(writer_features),
        )

    def to_json(self) -> dict[str, Any]:
        return without_none(
            minReaderVersion=self.min_reader_version,
            minWriterVersion=self.min_writer_version,
            readerFeatures=None if self.reader_features is None else sorted(self.reader_features),
            writerFeatures=None if self.writer_features is None else sorted(self.writer_features),
        )


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """The last version that an application's idempotent writer committed."""

    app_id: str
    version: int
    last_updated: int | None = None

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> SetTransaction:
        fields = JsonFields(obj, subject="txn", source=source)
        return cls(fields.string("appId"), fields.integer("version"), fields.optional_integer("lastUpdated"))

    def to_json(self) -> dict[str, Any]:
        return without_none(appId=self.app_id, version=self.version, lastUpdated=self.last_updated)


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    """Configuration that belongs to one named domain; `removed` hides it."""

    domain: str
    configuration: str
    removed: bool

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> DomainMetadata:
        fields = JsonFields(obj, subject="domainMetadata", source=source)
        return cls(
            domain=fields.string("domain"),
            configuration=fields.optional_string("configuration") or "",
            removed=fields.boolean("removed", default=False),
        )

    def to_json(self) -> dict[str, Any]:
        return {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Provenance of a commit: free-form JSON, so only the few fields that matter to us have a property.

    A merely informative field of the wrong type reads as None. `in_commit_timestamp` decides what time travel returns,
    so a wrong value there is refused.
    """

    fields: Mapping[str, Any]

    @property
    def timestamp(self) -> int | None:
        return _value_of_type(self.fields.get("timestamp"), int)

    @property
    def in_commit_timestamp(self) -> int | None:
        return JsonFields(self.fields, subject="commitInfo").optional_integer("inCommitTimestamp")

    @property
    def operation(self) -> str | None:
        return _value_of_type(self.fields.get("operation"), str)

    @property
    def operation_parameters(self) -> Mapping[str, Any]:
        return _value_of_type(self.fields.get("operationParameters"), dict) or {}

    @property
    def operation_metrics(self) -> Mapping[str, Any]:
        return _value_of_type(self.fields.get("operationMetrics"), dict) or {}

    @property
    def read_version(self) -> int | None:
        return _value_of_type(self.fields.get("readVersion"), int)

    @property
    def isolation_level(self) -> str | None:
        return _value_of_type(self.fields.get("isolationLevel"), str)

    @property
    def is_blind_append(self) -> bool | None:
        return _value_of_type(self.fields.get("isBlindAppend"), bool)

    @property
    def engine_info(self) -> str | None:
        return _value_of_type(self.fields.get("engineInfo"), str)

    @property
    def txn_id(self) -> str | None:
        return _value_of_type(self.fields.get("txnId"), str)

    @property
    def user_metadata(self) -> str | None:
        return _value_of_type(self.fields.get("userMetadata"), str)

    @property
    def tags(self) -> Mapping[str, Any]:
        return _value_of_type(self.fields.get("tags"), dict) or {}

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> CommitInfo:
        JsonFields(obj, subject="commitInfo", source=source)
        ensure_shallow(obj, what=f"'commitInfo' in {source}")
        return cls(obj)

    def to_json(self) -> dict[str, Any]:
        return without_none(**self.fields)


@dataclass(frozen=True, slots=True)
class CheckpointMetadata:
    """Header of a V2 checkpoint."""

    version: int
    tags: Mapping[str, str] | None = None

    @classmethod
    def from_json(cls, obj: Any, *, source: str = "") -> CheckpointMetadata:
        fields = JsonFields(obj, subject="checkpointMetadata", source=source)
        return cls(fields.integer("version", minimum=0), fields.optional_string_map("tags"))

    def to_json(self) -> dict[str, Any]:
        return without_none(version=self.version, tags=as_dict(self.tags))


Action: TypeAlias = (
    AddFile
    | RemoveFile
    | AddCDCFile
    | Metadata
    | Protocol
    | SetTransaction
    | DomainMetadata
    | CommitInfo
    | CheckpointMetadata
    | Sidecar
)

_ACTION_CLASSES: Final[Mapping[str, type[Action]]] = {
    "add": AddFile,
    "remove": RemoveFile,
    "cdc": AddCDCFile,
    "metaData": Metadata,
    "protocol": Protocol,
    "txn": SetTransaction,
    "domainMetadata": DomainMetadata,
    "commitInfo": CommitInfo,
    "checkpointMetadata": CheckpointMetadata,
    "sidecar": Sidecar,
}
_ACTION_KEYS: Final[Mapping[type[Action], str]] = {cls: key for key, cls in _ACTION_CLASSES.items()}
_PARSERS: Final[Mapping[str, Callable[..., Action]]] = {key: cls.from_json for key, cls in _ACTION_CLASSES.items()}


def parse_action(obj: Mapping[str, Any], *, source: str = "") -> Action | None:
    """The action in one wrapper object such as `{"add": {...}}`; None when it holds no action we know.

    Two actions in one wrapper are refused: the reference would silently drop one of them.
    """
    known = [key for key, value in obj.items() if value is not None and key in _PARSERS]
    if not known:
        return None
    if len(known) > 1:
        where = f" in {source}" if source else ""
        raise CorruptTableError(f"one log entry{where} holds several actions: {', '.join(sorted(known))}")
    return _PARSERS[known[0]](obj[known[0]], source=source)


def parse_commit(data: bytes, *, source: str, max_line_bytes: int) -> list[Action]:
    """The actions of a commit file, compacted log file or JSON checkpoint, in file order."""
    actions = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line or line.isspace():
            continue
        line_source = f"line {number} of {source}"
        if len(line) > max_line_bytes:
            raise CorruptTableError(
                f"{line_source} is {len(line)} bytes long; the limit for one action is {max_line_bytes} bytes "
                "(EngineConfig.max_log_line_bytes)"
            )
        action = parse_action(load_json_object(line, source=line_source), source=line_source)
        if action is not None:
            actions.append(action)
    return actions


def serialize_actions(actions: Iterable[Action]) -> bytes:
    """One line per action, in the given order, each ending with a newline."""
    lines = []
    for action in actions:
        key = _ACTION_KEYS[type(action)]
        try:
            lines.append(orjson.dumps({key: action.to_json()}, option=orjson.OPT_APPEND_NEWLINE))
        except orjson.JSONEncodeError as error:
            raise RequestError(f"the '{key}' action cannot be written as JSON: {error}") from error
    return b"".join(lines)


def _value_of_type(value: Any, expected: type[_T]) -> _T | None:
    # bool is an int to Python but not to JSON.
    if isinstance(value, bool) and expected is not bool:
        return None
    return value if isinstance(value, expected) else None
