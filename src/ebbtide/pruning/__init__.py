"""Which files can matter? Partition values and min/max bounds, judged on the driver."""

from ebbtide.pruning.conjuncts import (
    Conjuncts,
    classify_conjuncts,
    is_partition_only,
    nondeterministic_functions,
    partition_only_conjuncts,
    referenced_columns,
    split_conjuncts,
)
from ebbtide.pruning.harmless import harmless_part
from ebbtide.pruning.prune import PruneResult, prune
from ebbtide.pruning.scope import Scope

__all__ = [
    "Conjuncts",
    "PruneResult",
    "Scope",
    "classify_conjuncts",
    "harmless_part",
    "is_partition_only",
    "nondeterministic_functions",
    "partition_only_conjuncts",
    "prune",
    "referenced_columns",
    "split_conjuncts",
]
