"""Which row ids do the files of a commit get?

A table that supports row tracking numbers the rows of every new file. The highest number given so far is kept in the
log as the domain `delta.rowTracking`; a file takes as many numbers as it has physical rows, deleted ones included. A
file that is added again keeps its numbers. See "Row Tracking" in PROTOCOL.md.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from ebbtide.errors import InternalError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, AddFile, DomainMetadata
from ebbtide.protocol.features import is_feature_supported
from ebbtide.protocol.json_fields import JsonFields, load_json_object
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.statistics import num_records
from ebbtide.transaction.isolation import ROW_TRACKING_DOMAIN
from ebbtide.transaction.proposal import Proposal

__all__ = ["high_water_mark", "with_row_ids"]

_MARK: Final = "rowIdHighWaterMark"
_NO_ROW_YET: Final = -1


def high_water_mark(snapshot: Snapshot | None) -> int:
    """The highest row id given so far; -1 when none was."""
    domain = None if snapshot is None else snapshot.domain_metadata.get(ROW_TRACKING_DOMAIN)
    return _NO_ROW_YET if domain is None else _mark(domain)


def with_row_ids(actions: tuple[Action, ...], proposal: Proposal, version: int) -> tuple[Action, ...]:
    """The actions with every missing row id and commit version filled in, and the new high-water mark."""
    properties = TableProperties.parse(proposal.metadata.configuration)
    if not is_feature_supported(proposal.protocol, "rowTracking") or properties.row_tracking_suspended:
        return actions
    staged_marks = [_mark(action) for action in actions if _is_row_tracking(action)]
    old_mark = high_water_mark(proposal.base)
    mark = max([old_mark, *staged_marks])
    numbered: list[Action] = []
    for action in actions:
        if isinstance(action, AddFile):
            action, mark = _number_rows(_carry_row_ids_over(action, proposal), mark, version)
        if not _is_row_tracking(action):
            numbered.append(action)
    if mark != old_mark or staged_marks:
        configuration = json.dumps({_MARK: mark}, separators=(",", ":"))
        numbered.append(DomainMetadata(ROW_TRACKING_DOMAIN, configuration, removed=False))
    return tuple(numbered)


def _carry_row_ids_over(add: AddFile, proposal: Proposal) -> AddFile:
    """A live file that is added again keeps its row ids, even if it got them in the meantime."""
    live = proposal.live_at(add)
    if live is None or add.base_row_id is not None:
        return add
    return replace(add, base_row_id=live.base_row_id, default_row_commit_version=live.default_row_commit_version)


def _number_rows(add: AddFile, mark: int, version: int) -> tuple[AddFile, int]:
    commit_version = version if add.default_row_commit_version is None else add.default_row_commit_version
    if add.base_row_id is not None:
        return replace(add, default_row_commit_version=commit_version), mark
    rows = num_records(add.stats)
    if rows is None:
        raise InternalError(
            f"the file '{add.path}' needs row ids, but its statistics do not say how many rows it has",
            error_class="DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS",
        )
    return replace(add, base_row_id=mark + 1, default_row_commit_version=commit_version), mark + rows


def _is_row_tracking(action: Action) -> bool:
    return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN


def _mark(action: Action) -> int:
    if not isinstance(action, DomainMetadata) or action.removed:
        return _NO_ROW_YET
    source = f"the domain {ROW_TRACKING_DOMAIN}"
    fields = JsonFields(load_json_object(action.configuration, source=source), subject=source)
    return fields.integer(_MARK, minimum=_NO_ROW_YET)
