"""What was asked for?"""

from __future__ import annotations

from dataclasses import dataclass, field

from ebbtide.commands.requests import WriteOptions
from ebbtide.storage import ObjectStore

__all__ = ["FsckRequest"]


@dataclass(frozen=True, slots=True)
class FsckRequest:
    """Check the newest version of the table, and with `repair` repair what can be: that is the consent to lose rows
    that are lost already."""

    store: ObjectStore
    repair: bool = False
    options: WriteOptions = field(default_factory=WriteOptions)
