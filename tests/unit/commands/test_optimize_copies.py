"""Are the copies of an OPTIMIZE stopped when one of them fails, or when the user presses Ctrl-C?"""

from __future__ import annotations

from threading import Event

import pytest

from ebbtide.commands.optimize.work import copy_groups

PATIENCE_SECONDS = 30


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_copies_that_run_are_stopped_when_another_ends_in_an_error(error):
    begun, stopped = Event(), Event()
    was_stopped, left = [], []

    def copy_for_hours():
        begun.set()
        was_stopped.append(stopped.wait(PATIENCE_SECONDS))
        return "a copy"

    def fail():
        begun.wait(PATIENCE_SECONDS)
        raise error

    groups = [(copy_for_hours, stopped.set), (fail, lambda: None), (pytest.fail, lambda: None)]
    with pytest.raises(error):
        copy_groups(groups, threads=2, on_done=pytest.fail, on_left=left.append)
    assert was_stopped == [True]
    assert left == ["a copy"]
