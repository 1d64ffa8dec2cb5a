"""How does a test make storage go wrong at one call of a command, in every way that storage can?"""

from __future__ import annotations

from itertools import count
from threading import Lock

from tests.support.stores import HookedStore, SimulatedCrash

from ebbtide.errors import CommitOutcomeUnknownError, DeltaError, StorageError
from ebbtide.storage import PutOutcomeUnknownError

__all__ = ["FAULTS", "FaultyStore", "outcome_of"]

FAULTS = ["refused", "lost before", "lost after", "sent twice", "crash before", "crash after"]


class FaultyStore(HookedStore):
    """Call number `at` goes wrong in the way that `fault` names; after a crash every later one raises as well."""

    def __init__(self, inner, fault, at):
        super().__init__(inner)
        self.fault = fault
        self.at = at
        self.numbers = count()
        self.lock = Lock()

    def _call(self, op, path, call):
        with self.lock:
            number = next(self.numbers)
            self.calls.append((op, path))
        if number > self.at and self.fault.startswith("crash"):
            raise SimulatedCrash
        if number != self.at:
            return call()
        if self.fault == "crash before":
            raise SimulatedCrash
        if self.fault == "refused":
            raise StorageError("refused")
        no_answer = PutOutcomeUnknownError("no answer") if op.startswith("put") else StorageError("no answer")
        if self.fault == "lost before":
            raise no_answer
        call()
        if self.fault == "crash after":
            raise SimulatedCrash
        if self.fault == "lost after":
            raise no_answer
        return call()


def outcome_of(run):
    """`landed`, `refused` (certainly not landed), `unknown` or `crashed`."""
    try:
        assert run().version is not None
    except SimulatedCrash:
        return "crashed"
    except CommitOutcomeUnknownError:
        return "unknown"
    except DeltaError:
        return "refused"
    return "landed"
