"""How does a table get a higher protocol?"""

from __future__ import annotations

import orjson

from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, Protocol
from ebbtide.protocol.features import implied_features, supported_features, weakest_protocol
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation

__all__ = ["upgrade_table_protocol"]


def upgrade_table_protocol(
    store: ObjectStore, reader_version: int, writer_version: int, *, options: WriteOptions, hint: Snapshot | None = None
) -> AlterResult:
    """Support everything that these protocol versions stand for. A protocol never gets less."""
    if not 1 <= reader_version <= 3 or not 1 <= writer_version <= 7:
        raise RequestError(
            f"There are no protocol versions ({reader_version}, {writer_version}): reader versions are 1 to 3, writer "
            "versions 1 to 7."
        )
    if reader_version == 3 and writer_version < 7:
        raise RequestError(
            f"Reader version 3 needs writer version 7, not {writer_version}.",
            error_class="DELTA_READ_FEATURE_PROTOCOL_REQUIRES_WRITE",
        )
    versions = {"delta.minReaderVersion": str(reader_version), "delta.minWriterVersion": str(writer_version)}
    operation = Operation(
        "SET TBLPROPERTIES", {"properties": orjson.dumps(versions).decode()}, user_metadata=options.user_metadata
    )

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        before = snapshot.protocol
        # Versions 3 and 7 stand for lists of features, so they imply none.
        wanted = implied_features(Protocol(reader_version, writer_version))
        missing = wanted - supported_features(before)
        after = weakest_protocol(supported_features(before) | wanted) if missing else before
        return [snapshot.metadata] if after == before else [after, snapshot.metadata], operation

    return commit_change(store, change, options, hint)
