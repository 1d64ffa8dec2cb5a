"""How can a torture look at versions whose files a VACUUM has deleted?

The VACUUM works on a `GraveyardStore`: whatever it deletes is really gone for everybody, but a copy is kept elsewhere. The
model reads old versions from the table and the graveyard together, and knows which of them each file must be in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.stores import HookedStore

from ebbtide.errors import StorageError
from ebbtide.storage import ObjectStore

__all__ = ["GraveyardStore"]


class GraveyardStore(HookedStore):
    def __init__(self, inner: ObjectStore, graveyard: Path) -> None:
        super().__init__(inner)
        self.graveyard = graveyard

    def delete_all(self, paths: Sequence[str]) -> Mapping[str, StorageError]:
        for path in paths:
            copy = self.graveyard / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                copy.write_bytes(self.inner.read(path))
            except StorageError:
                continue  # another VACUUM was here first
        return self.inner.delete_all(paths)
