"""Which deletion vector belongs to a file, and where is it kept?

`DeletionVectorDescriptor` is the protocol's pointer to a set of row indexes: `deletionVector` of an add or remove
action. It knows names, sizes and identity; it never reads the vector itself (`ebbtide.deletion_vectors` does).
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-descriptor-schema

Three storage types exist:

    u   <prefix><20 Z85 characters of a UUID>   a file below the table root: [prefix/]deletion_vector_<uuid>.bin
    i   <Z85 text>                              the vector itself, inside the log
    p   <absolute URI>                          a file anywhere, percent-encoded

There are two spellings of a path. *Decoded* paths are what Hadoop calls path strings: `s3://bucket/a b`, nothing
escaped, a `%` is a `%`. *Encoded* ones are URIs: `s3://bucket/a%20b`. Table locations given to this module are decoded,
`absolute_path` returns a decoded path, and the text of a `p` descriptor is encoded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from urllib.parse import unquote
from uuid import UUID

from ebbtide.errors import CorruptDeletionVectorError, DeltaError, RequestError
from ebbtide.protocol import base85
from ebbtide.protocol.paths import encode_absolute_path

__all__ = ["INLINE_DV_MARKER", "PATH_DV_MARKER", "UUID_DV_MARKER", "DeletionVectorDescriptor"]

UUID_DV_MARKER = "u"
INLINE_DV_MARKER = "i"
PATH_DV_MARKER = "p"

_ENCODED_UUID_LENGTH = 20
_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1
_MAX_EXACT_FLOAT = 2**53

_CANNOT_RECONSTRUCT_PATH = "DELTA_CANNOT_RECONSTRUCT_PATH_FROM_URI"

# scheme ":" ["//" authority] path; a query or fragment would not be part of the object's name, so neither may follow.
_ABSOLUTE_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/?#]*)(?=/)|(?!//))(/[^?#]*[^/?#])")
_NOT_IN_A_URI = re.compile(r"%(?![0-9A-Fa-f]{2})|[\x00-\x20\x7f\"<>\[\\\]^`{|}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorDescriptor:
    """A pointer to one deletion vector. Every instance keeps these promises:

    - the storage type is `u`, `i` or `p`, and the path or inline text is well formed for it;
    - sizes, offset and cardinality are not negative and fit the integers of the protocol;
    - an inline vector has no offset and at least `size_in_bytes` bytes of data;
    - a `u` prefix is one plain directory name: it cannot lead out of the table.

    Breaking one raises `RequestError` (a `ValueError`), or `CorruptDeletionVectorError` when it came from a log.
    `max_row_index` is only a note by the writer: never written to the log, not part of equality.
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None = None
    size_in_bytes: int
    cardinality: int
    max_row_index: int | None = field(default=None, compare=False)

    EMPTY: ClassVar[DeletionVectorDescriptor]

    def __post_init__(self) -> None:
        _check_integer("sizeInBytes", self.size_in_bytes, _MAX_INT32)
        _check_integer("cardinality", self.cardinality, _MAX_INT64)
        if self.offset is not None:
            _check_integer("offset", self.offset, _MAX_INT32)
        if self.max_row_index is not None:
            _check_integer("maxRowIndex", self.max_row_index, _MAX_INT64)
        if not isinstance(self.path_or_inline_dv, str):
            raise RequestError(f"pathOrInlineDv must be text, not {self.path_or_inline_dv!r}.")
        if self.storage_type == UUID_DV_MARKER:
            _check_uuid_path(self.path_or_inline_dv)
        elif self.storage_type == INLINE_DV_MARKER:
            _check_inline(self.path_or_inline_dv, self.size_in_bytes, self.offset)
        elif self.storage_type == PATH_DV_MARKER:
            _split_absolute_uri(self.path_or_inline_dv)
        else:
            raise RequestError(
                f"Storage type {self.storage_type!r} of a deletion vector is not one of 'u', 'i', 'p'.",
                error_class=_CANNOT_RECONSTRUCT_PATH,
            )

    # --- making one ---------------------------------------------------------------------------------------------------

    @classmethod
    def on_disk_with_relative_path(
        cls,
        id: UUID,
        *,
        size_in_bytes: int,
        cardinality: int,
        random_prefix: str = "",
        offset: int | None = None,
        max_row_index: int | None = None,
    ) -> DeletionVectorDescriptor:
        """A vector in `[random_prefix/]deletion_vector_<id>.bin` below the table root."""
        return cls(
            storage_type=UUID_DV_MARKER,
            path_or_inline_dv=cls.encode_uuid(id, random_prefix),
            offset=offset,
            size_in_bytes=size_in_bytes,
            cardinality=cardinality,
            max_row_index=max_row_index,
        )

    @classmethod
    def on_disk_with_absolute_path(
        cls,
        path: str,
        *,
        size_in_bytes: int,
        cardinality: int,
        offset: int | None = None,
        max_row_index: int | None = None,
    ) -> DeletionVectorDescriptor:
        """A vector in the file at `path`, an absolute URI that is already percent-encoded."""
        return cls(
            storage_type=PATH_DV_MARKER,
            path_or_inline_dv=path,
            offset=offset,
            size_in_bytes=size_in_bytes,
            cardinality=cardinality,
            max_row_index=max_row_index,
        )

    @classmethod
    def inline_in_log(cls, data: bytes, cardinality: int) -> DeletionVectorDescriptor:
        """A vector whose serialized bytes `data` travel inside the descriptor."""
        return cls(
            storage_type=INLINE_DV_MARKER,
            path_or_inline_dv=cls.encode_data(data),
            size_in_bytes=len(data),
            cardinality=cardinality,
        )

    def copy_with_absolute_path(self, table_location: str) -> DeletionVectorDescriptor:
        """The same vector with an absolute path: `u` becomes `p`. The decoded `table_location` needs a scheme."""
        if not self.is_relative:
            return replace(self)
        return self.on_disk_with_absolute_path(
            encode_absolute_path(self.absolute_path(table_location)),
            size_in_bytes=self.size_in_bytes,
            cardinality=self.cardinality,
            offset=self.offset,
            max_row_index=self.max_row_index,
        )

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def is_inline(self) -> bool:
        return self.storage_type == INLINE_DV_MARKER

    @property
    def is_on_disk(self) -> bool:
        return not self.is_inline

    @property
    def is_relative(self) -> bool:
        return self.storage_type == UUID_DV_MARKER

    @property
    def is_absolute(self) -> bool:
        return self.storage_type == PATH_DV_MARKER

    @property
    def is_empty(self) -> bool:
        return self.cardinality == 0

    @property
    def unique_file_id(self) -> str:
        """Identifies the file (or inline text). Purely textual: one file described as `u` and as `p` has two ids."""
        return self.storage_type + self.path_or_inline_dv

    @property
    def unique_id(self) -> str:
        """Identifies the vector. Together with the data file's path it identifies a live file in log replay."""
        return self.unique_file_id if self.offset is None else f"{self.unique_file_id}@{self.offset}"

    @property
    def inline_data(self) -> bytes:
        """The serialized vector of an inline descriptor."""
        if not self.is_inline:
            raise RequestError(f"The deletion vector {self.unique_id!r} is not inline: its data is in a file.")
        return self.decode_data(self.path_or_inline_dv, self.size_in_bytes)

    # --- where it is --------------------------------------------------------------------------------------------------

    @property
    def random_prefix_and_uuid(self) -> tuple[str, UUID]:
        """The two parts of a `u` descriptor's path."""
        if not self.is_relative:
            raise RequestError(f"Only a deletion vector of type 'u' has a UUID; this one is {self.storage_type!r}.")
        prefix, encoded_uuid = _split_uuid_path(self.path_or_inline_dv)
        return prefix, self.decode_uuid(encoded_uuid)

    @property
    def relative_path(self) -> str:
        """Decoded path below the table root of a `u` descriptor's file."""
        prefix, uuid = self.random_prefix_and_uuid
        return _file_path(uuid, prefix)

    def absolute_path(self, table_location: str) -> str:
        """Decoded path of the vector's file; `table_location` is decoded too. An inline vector has none."""
        if self.is_inline:
            raise RequestError("An inline deletion vector has no path.")
        if self.is_relative:
            prefix, uuid = self.random_prefix_and_uuid
            return self.assemble_deletion_vector_path(table_location, uuid, prefix)
        scheme, authority, decoded_path = _split_absolute_uri(self.path_or_inline_dv)
        return f"{scheme}://{authority}{decoded_path}" if authority else f"{scheme}:{decoded_path}"

    @staticmethod
    def assemble_deletion_vector_path(parent: str, id: UUID, prefix: str = "") -> str:
        """`parent[/prefix]/deletion_vector_<id>.bin`, decoded like `parent`."""
        return f"{parent.rstrip('/')}/{_file_path(id, prefix)}"

    # --- text forms ---------------------------------------------------------------------------------------------------

    @staticmethod
    def encode_uuid(id: UUID, random_prefix: str = "") -> str:
        return random_prefix + base85.encode(id.bytes)

    @staticmethod
    def decode_uuid(encoded_uuid: str) -> UUID:
        """The UUID of exactly 20 Z85 characters."""
        if len(encoded_uuid) != _ENCODED_UUID_LENGTH:
            raise RequestError(f"A UUID has {_ENCODED_UUID_LENGTH} characters in Z85, not {len(encoded_uuid)}.")
        return UUID(bytes=base85.decode(encoded_uuid))

    @staticmethod
    def encode_data(data: bytes) -> str:
        return base85.encode(data)

    @staticmethod
    def decode_data(encoded_data: str, size_in_bytes: int) -> bytes:
        """The first `size_in_bytes` bytes of the text (fewer when it holds fewer): the rest is padding."""
        return base85.decode(encoded_data)[:size_in_bytes]

    def to_json(self) -> dict[str, str | int]:
        """The log's JSON object: absent options are left out, and `max_row_index` always is."""
        fields: dict[str, str | int] = {
            "storageType": self.storage_type,
            "pathOrInlineDv": self.path_or_inline_dv,
        }
        if self.offset is not None:
            fields["offset"] = self.offset
        fields["sizeInBytes"] = self.size_in_bytes
        fields["cardinality"] = self.cardinality
        return fields

    @classmethod
    def from_json(cls, obj: Any) -> DeletionVectorDescriptor:
        """A descriptor from a log or checkpoint; `CorruptDeletionVectorError` when it breaks a promise."""
        if not isinstance(obj, Mapping):
            raise CorruptDeletionVectorError(f"deletionVector must be an object, not {_shorten(obj)}.")
        try:
            return cls(
                storage_type=_require(obj, "storageType"),
                path_or_inline_dv=_require(obj, "pathOrInlineDv"),
                offset=_as_integer(obj.get("offset")),
                size_in_bytes=_as_integer(_require(obj, "sizeInBytes")),
                cardinality=_as_integer(_require(obj, "cardinality")),
            )
        except RequestError as error:
            raise CorruptDeletionVectorError(_message_of(error), error_class=error.error_class) from error


def _check_integer(name: str, value: object, maximum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
        raise RequestError(
            f"{name} of a deletion vector must be an integer from 0 to {maximum}, not {_shorten(value)}."
        )


def _check_uuid_path(path: str) -> None:
    prefix, encoded_uuid = _split_uuid_path(path)
    DeletionVectorDescriptor.decode_uuid(encoded_uuid)
    # The prefix becomes a directory below the table root, and the log it came from is not trusted.
    if prefix in {".", ".."} or "/" in prefix or "\\" in prefix or ".." in prefix or _has_control_character(prefix):
        raise RequestError(f"The prefix {_shorten(prefix)} of a deletion vector is not a plain directory name.")


def _check_inline(text: str, size_in_bytes: int, offset: int | None) -> None:
    if offset is not None:
        raise RequestError(f"An inline deletion vector has no offset, yet {offset} is given.")
    available = len(base85.decode(text))
    if available < size_in_bytes:
        raise RequestError(f"An inline deletion vector of {size_in_bytes} bytes holds only {available}.")


def _split_uuid_path(path: str) -> tuple[str, str]:
    if len(path) < _ENCODED_UUID_LENGTH:
        raise RequestError(
            f"The path {path!r} of a deletion vector is too short: a UUID alone has {_ENCODED_UUID_LENGTH} characters."
        )
    return path[:-_ENCODED_UUID_LENGTH], path[-_ENCODED_UUID_LENGTH:]


def _split_absolute_uri(uri: str) -> tuple[str, str, str]:
    """Scheme, authority and decoded path of an encoded absolute URI."""
    match = _ABSOLUTE_URI.fullmatch(uri)
    # Messages leave the URI out: its authority may carry credentials.
    if match is None or _NOT_IN_A_URI.search(uri):
        raise RequestError(
            "The path of an absolute deletion vector must be a percent-encoded URI with a scheme, like s3://bucket/a%20b.",
            error_class=_CANNOT_RECONSTRUCT_PATH,
        )
    scheme, authority, encoded_path = match[1], match[2] or "", match[3]
    try:
        decoded_path = unquote(encoded_path, errors="strict")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"The path {encoded_path!r} of an absolute deletion vector is not UTF-8 when decoded.",
            error_class=_CANNOT_RECONSTRUCT_PATH,
        ) from error
    if _has_control_character(decoded_path) or not {".", ".."}.isdisjoint(decoded_path.split("/")):
        raise RequestError(
            f"The path {encoded_path!r} of an absolute deletion vector has a control character or a dot segment.",
            error_class=_CANNOT_RECONSTRUCT_PATH,
        )
    return scheme, authority, decoded_path


def _has_control_character(text: str) -> bool:
    # Cc: control characters. Cs: lone surrogates, which no file name can hold.
    return any(unicodedata.category(character) in {"Cc", "Cs"} for character in text)


def _file_path(id: UUID, prefix: str) -> str:
    file_name = f"deletion_vector_{id}.bin"
    return f"{prefix}/{file_name}" if prefix else file_name


def _require(obj: Mapping[str, Any], name: str) -> Any:
    value = obj.get(name)
    if value is None:
        raise RequestError(f"The field {name} of a deletion vector is missing.")
    return value


def _as_integer(value: Any) -> Any:
    """JSON knows one kind of number: 36.0 is the integer 36. Anything else is left for the checks to refuse."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT_FLOAT:
        return int(value)
    return value


def _message_of(error: DeltaError) -> str:
    return str(error).removeprefix(f"[{error.error_class}] ")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


DeletionVectorDescriptor.EMPTY = DeletionVectorDescriptor.inline_in_log(b"", 0)
