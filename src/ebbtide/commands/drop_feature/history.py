"""Which versions of the past use a feature, and when may they go? DROP FEATURE ... TRUNCATE HISTORY."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Final

from ebbtide.commands.drop_feature.uses import commit_using, version_using
from ebbtide.config import EngineConfig
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.log.cleanup import truncate_log
from ebbtide.log.listing import list_log

__all__ = ["History"]

_MINUTE_MS: Final = 60_000
_RETENTION: Final = "delta.dropFeatureTruncateHistory.retentionDuration"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@dataclass(frozen=True, slots=True)
class History:
    """The versions up to `snapshot`, as they are at `now_ms`."""

    snapshot: Snapshot
    feature: str
    now_ms: int
    config: EngineConfig = field(repr=False)

    @property
    def retention_ms(self) -> int:
        return self.snapshot.properties.drop_feature_retention_ms

    def truncate(self) -> None:
        """Delete the log below the newest checkpoint that is older than the retention."""
        truncate_log(self.snapshot, retention_ms=self.retention_ms, config=self.config, now_ms=self.now_ms)

    def ensure_unused(self) -> None:
        """RequestError when a version that is left uses the feature."""
        version = version_using(self.snapshot, self.feature, config=self.config)
        if version is not None:
            raise self._still_used(version)

    def ensure_unused_since(self, newest: Snapshot) -> None:
        """The same for the versions that others have made meanwhile."""
        later = list(range(self.snapshot.version + 1, newest.version + 1))
        version = commit_using(newest, self.feature, later, config=self.config)
        if version is not None:
            raise self._still_used(version)

    def is_truncated_to_protection(self) -> bool:
        """Whether no version is left that the protection is for."""
        before = self.snapshot.properties.require_checkpoint_protection_before_version
        if before <= 0:
            return True
        listing = list_log(self.snapshot.store)
        has_checkpoint = bool(listing.checkpoints) and listing.checkpoints[-1].version >= before
        return has_checkpoint and all(version >= before for version in listing.commits)

    # --- when to come back --------------------------------------------------------------------------------------------

    def wait_for_retention(self) -> RequestError:
        return RequestError(
            f"The newest version of {self.snapshot.store.url} uses the feature {self.feature} no more, but older "
            f"versions do, and the feature stays until they may go. Run DROP FEATURE {self.feature} TRUNCATE HISTORY "
            f"again {self._after(self.now_ms)}.",
            error_class="DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD",
        )

    def wait_for_protected(self) -> RequestError:
        before = self.snapshot.properties.require_checkpoint_protection_before_version
        return RequestError(
            f"The feature {self.feature} of {self.snapshot.store.url} guards versions before {before}, which use "
            "dropped features and are not old enough to go. Run this again "
            f"{self._after(self._time_of_checkpoint(before))}.",
            error_class="DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD",
        )

    def _still_used(self, version: int) -> RequestError:
        return RequestError(
            f"The feature {self.feature} cannot be dropped yet: version {version} of {self.snapshot.store.url} uses "
            f"it, and is not old enough to go. Run DROP FEATURE {self.feature} TRUNCATE HISTORY again "
            f"{self._after(self._time_of_checkpoint(version + 1))}.",
            error_class="DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST",
        )

    def _time_of_checkpoint(self, version: int) -> int:
        """When the oldest checkpoint from this version on was made: the log can be cut off below it."""
        listing = list_log(self.snapshot.store)
        found = [
            files for files in listing.checkpoints if files.version >= version and files.version in listing.commits
        ]
        return listing.commits[found[-1].version].last_modified_ms if found else self.now_ms

    def _after(self, since_ms: int) -> str:
        # The cutoff is a full minute, and so is the time to come back.
        moment_ms = -(-(since_ms + self.retention_ms) // _MINUTE_MS) * _MINUTE_MS
        try:
            moment = f"after {_EPOCH + dt.timedelta(milliseconds=moment_ms):%Y-%m-%d %H:%M} UTC"
        except OverflowError:
            moment = "later"
        return f"{moment} ({_RETENTION})"
