"""Which fixtures do the tests of this folder share? What they write is read by other engines, too."""

from __future__ import annotations

from tests.support.peer_fixture import peers_see_our_rows

__all__ = ["peers_see_our_rows"]
