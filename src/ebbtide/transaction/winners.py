"""What did the commits that came before ours do, and who wrote them?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from ebbtide.config import EngineConfig
from ebbtide.errors import ConcurrentWriteException, ObjectNotFoundError
from ebbtide.log import read_commit
from ebbtide.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from ebbtide.storage import ObjectStore
from ebbtide.storage.prefetch import choose_read_ahead, prefetch

__all__ = ["WinningCommit", "read_winners"]

_A = TypeVar("_A", bound=Action)


@dataclass(frozen=True, slots=True)
class WinningCommit:
    """One version that landed after the snapshot we read."""

    version: int
    actions: tuple[Action, ...]
    commit_info: CommitInfo | None = None

    @property
    def adds(self) -> tuple[AddFile, ...]:
        return self._of(AddFile)

    @property
    def removes(self) -> tuple[RemoveFile, ...]:
        return self._of(RemoveFile)

    @property
    def paths(self) -> set[str]:
        """Paths of every file that was added or removed, as the log spells them."""
        return {action.path for action in self.actions if isinstance(action, AddFile | RemoveFile)}

    @property
    def protocol(self) -> Protocol | None:
        return next(iter(self._of(Protocol)), None)

    @property
    def metadata(self) -> Metadata | None:
        return next(iter(self._of(Metadata)), None)

    @property
    def transactions(self) -> tuple[SetTransaction, ...]:
        return self._of(SetTransaction)

    @property
    def domains(self) -> tuple[DomainMetadata, ...]:
        return self._of(DomainMetadata)

    @property
    def description(self) -> str:
        """Which commit it is, what it did and who wrote it, for the middle of a sentence."""
        info = self.commit_info
        if info is None:
            return f"version {self.version} (its writer left no commitInfo)"
        writer = (info.engine_info or "an unnamed engine")[:80]
        words = [f"{(info.operation or 'an unnamed operation')[:80]} by {writer}"]
        if info.txn_id:
            words.append(f"txnId {info.txn_id[:80]}")
        if info.user_metadata:
            words.append(f"userMetadata {info.user_metadata[:80]!r}")
        return f"version {self.version} ({', '.join(words)})"

    def _of(self, kind: type[_A]) -> tuple[_A, ...]:
        return tuple(action for action in self.actions if isinstance(action, kind))


def read_winners(store: ObjectStore, first: int, last: int, *, config: EngineConfig) -> tuple[WinningCommit, ...]:
    """The commits `first` to `last`, both included."""
    read = partial(_read_winner, store, config)
    return tuple(prefetch(read, range(first, last + 1), ahead=choose_read_ahead(store)))


def _read_winner(store: ObjectStore, config: EngineConfig, version: int) -> WinningCommit:
    try:
        actions = read_commit(store, version, config=config)
    except ObjectNotFoundError as error:
        raise ConcurrentWriteException(
            f"The table at {store.url} moved on while this operation ran, and version {version}, which came after the "
            "version it had read, was cleaned up already. What it did is no longer known. Run the operation again."
        ) from error
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    return WinningCommit(version, tuple(actions), info)
