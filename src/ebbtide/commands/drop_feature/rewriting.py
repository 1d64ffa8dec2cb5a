"""Which files are rewritten before a feature can go, and by what?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import SparkSession

from ebbtide.commands.drop_feature.older_types import TypeRewrite
from ebbtide.commands.drop_feature.unmapping import UnmapPass, unmapping_request
from ebbtide.commands.optimize.request import OptimizeSettings
from ebbtide.commands.purge.command import PurgeCommand, PurgeRequest
from ebbtide.commands.requests import WriteOptions
from ebbtide.storage import ObjectStore

__all__ = ["Rewriting"]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Passes of the machine of OPTIMIZE; each finds its files by what they hold, and none if there are none."""

    spark: SparkSession
    store: ObjectStore
    settings: OptimizeSettings
    options: WriteOptions
    on_phase: Callable[[str], None]

    PURGE: ClassVar[type[PurgeCommand]] = PurgeCommand
    TYPES: ClassVar[type[PurgeCommand]] = TypeRewrite

    def purge(self) -> None:
        """Files with marked rows, or dropped columns."""
        self.PURGE(self.spark, self._request(), on_phase=self.on_phase).run()

    def rewrite_types(self) -> None:
        """Files that have a column with a type of before."""
        self.TYPES(self.spark, self._request(), on_phase=self.on_phase).run()

    def unmap(self) -> None:
        """All files, with the names that columns have now; the mapping is gone with them."""
        request = unmapping_request(self.store, settings=self.settings, options=self.options)
        UnmapPass(self.spark, request, on_phase=self.on_phase, keeps_mode=False).run()

    def _request(self) -> PurgeRequest:
        return PurgeRequest(self.store, settings=self.settings, options=self.options)
