"""Which features can be dropped, and may this one?"""

from __future__ import annotations

from typing import Final

from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.protocol.features import FEATURES, supported_features
from ebbtide.protocol.properties import TableProperties

__all__ = ["IN_HISTORY", "PROTECTION", "droppable_feature"]

PROTECTION: Final = "checkpointProtection"
# What older versions of the table may hold: a reader who does not know the feature would misread them.
IN_HISTORY: Final = frozenset(
    {"deletionVectors", "columnMapping", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"}
)
_FOR_WRITERS: Final = frozenset(
    {
        "checkConstraints",
        "domainMetadata",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "materializePartitionColumns",
    }
)
_DROPPABLE: Final = IN_HISTORY | _FOR_WRITERS | {PROTECTION}


def droppable_feature(snapshot: Snapshot, name: str, *, truncates: bool) -> str:
    """The feature's own spelling; RequestError for one that cannot be dropped, or not in this way."""
    feature = next((known for known in FEATURES if known.lower() == name.strip().lower()), None)
    supported = supported_features(snapshot.protocol)
    if feature is None:
        raise _unknown_feature(name)
    if feature not in supported:
        raise RequestError(
            f"The table at {snapshot.store.url} does not have the feature {feature}.",
            error_class="DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT",
        )
    if feature not in _DROPPABLE:
        raise RequestError(
            f"The feature {feature} cannot be dropped. Features that can: {', '.join(sorted(_DROPPABLE))}.",
            error_class="DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
        )
    if truncates and feature in _FOR_WRITERS:
        raise RequestError(
            f"The feature {feature} leaves nothing in the history that would have to go. Leave TRUNCATE HISTORY out.",
            error_class="DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED",
        )
    if feature == PROTECTION and not truncates:
        raise RequestError(
            f"The feature {PROTECTION} guards older versions that use dropped features, so it can go only together "
            f"with them: DROP FEATURE {PROTECTION} TRUNCATE HISTORY.",
            error_class="DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION",
        )
    dependents = sorted(one for one in supported if one in FEATURES and feature in FEATURES[one].requires)
    if dependents:
        raise RequestError(
            f"The feature {feature} cannot be dropped while the table has {', '.join(dependents)}, which needs it.",
            error_class="DELTA_FEATURE_DROP_DEPENDENT_FEATURE",
        )
    return feature


def _unknown_feature(name: str) -> RequestError:
    if any(name.strip().lower() == declared.name.lower() for declared in TableProperties.declarations()):
        return RequestError(
            f"{name} is a property of the table and not a feature. Use UNSET TBLPROPERTIES, or name the feature.",
            error_class="DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY",
        )
    return RequestError(
        f"{name!r} is not a table feature that Ebbtide knows, so it cannot be dropped.",
        error_class="DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE",
    )
