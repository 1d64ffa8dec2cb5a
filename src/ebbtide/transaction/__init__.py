"""How do staged actions become a version? Checks, attempt, conflicts, rebase, post-commit."""

from ebbtide.transaction.clock import SYSTEM_CLOCK, Clock
from ebbtide.transaction.file_changes import find_file_changes
from ebbtide.transaction.operation import Operation
from ebbtide.transaction.reads import ReadPredicate
from ebbtide.transaction.rebase import Lost, Rebased
from ebbtide.transaction.table_changes import property_changes, protocol_for, required_features
from ebbtide.transaction.transaction import Committed, Transaction
from ebbtide.transaction.winners import WinningCommit

__all__ = [
    "SYSTEM_CLOCK",
    "Clock",
    "Committed",
    "Lost",
    "Operation",
    "ReadPredicate",
    "Rebased",
    "Transaction",
    "WinningCommit",
    "find_file_changes",
    "property_changes",
    "protocol_for",
    "required_features",
]
