"""What does a log say about the table itself?

`SmallActions` takes the protocol, metadata, transaction identifiers and domains of log files and checkpoints, oldest
first, and holds the newest of each: everything but file actions.

Only actions that count are validated. A malformed action is kept as its error, and a later action about the same thing
replaces it like any other. The error is raised when a caller asks for the action.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ebbtide.errors import CorruptTableError
from ebbtide.protocol.actions import (
    Action,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
    Sidecar,
    parse_action,
)

__all__ = ["SMALL_ACTIONS", "SmallActions"]

SMALL_ACTIONS = frozenset(
    {"protocol", "metaData", "txn", "domainMetadata", "commitInfo", "checkpointMetadata", "sidecar"}
)
# The field that tells two actions of one kind apart; of every other kind only the newest counts.
_IDENTITY = {"txn": "appId", "domainMetadata": "domain"}
_T = TypeVar("_T", Protocol, Metadata, SetTransaction, DomainMetadata, CommitInfo)
# An action, or the error that it raised when it was parsed.
_Stated = Action | CorruptTableError


class SmallActions:
    def __init__(self) -> None:
        # The newest of each kind: by the name of the action and by its application or domain.
        self._stated: dict[tuple[str, str], _Stated] = {}
        # Of the log file read last.
        self._commit_info: _Stated | None = None
        # By path.
        self.sidecars: dict[str, Sidecar] = {}
        self.checkpoint_metadata: CheckpointMetadata | None = None

    def take(self, entries: Iterable[tuple[str, Any]], source: str) -> None:
        """Take in the actions of one log file or checkpoint, each as its name and its JSON object."""
        stated: dict[tuple[str, str], _Stated] = {}
        self._commit_info = None
        for name, body in entries:
            action = _parse(name, body, source)
            if name == "commitInfo":
                self._commit_info = action
            elif name in {"sidecar", "checkpointMetadata"}:
                self._take_part_of_checkpoint(action, source)
            else:
                key = (name, _identity(name, body, action))
                stated[key] = _combine(stated.get(key), action, name, source)
        self._stated.update(stated)

    def after(self, older: SmallActions) -> SmallActions:
        """Both together; these are the newer ones."""
        merged = SmallActions()
        merged._stated = {**older._stated, **self._stated}
        merged._commit_info = self._commit_info
        return merged

    def ensure_well_formed(self) -> None:
        """CorruptTableError when one of the actions that count does not follow the protocol."""
        for action in (*self._stated.values(), self._commit_info):
            if isinstance(action, CorruptTableError):
                raise action

    @property
    def protocol(self) -> Protocol | None:
        return _value(self._stated.get(("protocol", "")), Protocol)

    @property
    def metadata(self) -> Metadata | None:
        return _value(self._stated.get(("metaData", "")), Metadata)

    @property
    def transactions(self) -> dict[str, SetTransaction]:
        return dict(self._all_of("txn", SetTransaction))

    @property
    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """Includes removed domains, which hide those of an older checkpoint."""
        return dict(self._all_of("domainMetadata", DomainMetadata))

    @property
    def commit_info(self) -> CommitInfo | None:
        """Of the log file read last."""
        return _value(self._commit_info, CommitInfo)

    def _all_of(self, name: str, kind: type[_T]) -> Iterator[tuple[str, _T]]:
        for (found, identity), action in self._stated.items():
            value = _value(action, kind) if found == name else None
            if value is not None:
                yield identity, value

    def _take_part_of_checkpoint(self, action: _Stated, source: str) -> None:
        if isinstance(action, CorruptTableError):
            raise action
        if isinstance(action, CheckpointMetadata):
            self.checkpoint_metadata = action
        elif isinstance(action, Sidecar):
            if action.path in self.sidecars:
                raise CorruptTableError(f"{source} names the sidecar '{action.path}' twice")
            self.sidecars[action.path] = action


def _parse(name: str, body: Any, source: str) -> _Stated:
    try:
        action = parse_action({name: body}, source=source)
    except CorruptTableError as error:
        return error
    assert action is not None, "only actions that have a parser are asked for"
    return action


def _identity(name: str, body: Any, action: _Stated) -> str:
    """The application or domain of the action. Nothing replaces a malformed action without one."""
    if name not in _IDENTITY:
        return ""
    value = body.get(_IDENTITY[name]) if isinstance(body, Mapping) else None
    return value if isinstance(value, str) else f"\x00{id(action)}"


def _combine(known: _Stated | None, action: _Stated, name: str, source: str) -> _Stated:
    """What two actions of one log file mean together; their order does not matter."""
    if known is None or known == action:
        return action
    if isinstance(known, SetTransaction) and isinstance(action, SetTransaction):
        return max(known, action, key=lambda transaction: transaction.version)
    for statement in (known, action):
        if isinstance(statement, CorruptTableError):
            return statement
    return CorruptTableError(
        f"{source} holds two different '{name}' actions; a commit may state each only once",
        error_class="DELTA_DUPLICATE_ACTIONS_FOUND",
    )


def _value(action: _Stated | None, kind: type[_T]) -> _T | None:
    if isinstance(action, CorruptTableError):
        raise action
    return action if isinstance(action, kind) else None
