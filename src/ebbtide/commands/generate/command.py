"""How are manifests of a table written for readers that do not know its log?

GENERATE writes them once, for the newest version. With the table property
`delta.compatibility.symlinkFormatManifest.enabled` every later commit keeps them up to date, after it has landed
(`transaction.post_commit`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.commands.results import format_count
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.manifests import manifests_of, write_manifests
from ebbtide.storage import ObjectStore

__all__ = ["GenerateResult", "generate_manifests"]

_MODE = "symlink_format_manifest"


@dataclass(frozen=True, slots=True)
class GenerateResult:
    """How many manifests were written and deleted for `version`; in a dry run, how many would be."""

    version: int
    num_written: int
    num_deleted: int
    table_url: str


def generate_manifests(
    store: ObjectStore,
    mode: str,
    *,
    config: EngineConfig = DEFAULT_CONFIG,
    hint: Snapshot | None = None,
    dry_run: bool = False,
    on_phase: Callable[[str], None] = lambda _: None,
) -> GenerateResult:
    """Write the manifests of the newest version, and delete those of partitions that are gone."""
    if mode.lower() != _MODE:
        raise RequestError(
            f"There is no mode {mode[:80]!r} of GENERATE; the only one is {_MODE}.",
            error_class="DELTA_MODE_NOT_SUPPORTED",
        )
    snapshot = load_snapshot(store, config=config, hint=hint)
    manifests = manifests_of(snapshot)
    if not dry_run:
        on_phase(f"Writing {format_count(len(manifests.contents), 'manifest')}")
        write_manifests(snapshot, manifests)
    return GenerateResult(snapshot.version, len(manifests.contents), len(manifests.stale), store.url)
