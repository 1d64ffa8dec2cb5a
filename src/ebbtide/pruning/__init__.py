"""Which files can matter? Partition values and min/max bounds, evaluated on the driver."""

from ebbtide.pruning.conjuncts import (
    is_partition_only,
    nondeterministic_functions,
    partition_only_conjuncts,
    split_conjuncts,
)
from ebbtide.pruning.harmless import harmless_part
from ebbtide.pruning.prune import prune
from ebbtide.pruning.scope import Scope

__all__ = [
    "Scope",
    "harmless_part",
    "is_partition_only",
    "nondeterministic_functions",
    "partition_only_conjuncts",
    "prune",
    "split_conjuncts",
]
