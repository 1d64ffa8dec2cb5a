"""Whatever range of commits is compacted, does every later version stay what it was?"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_replay import HEAD, histories
from tests.support.log_builder import LogBuilder, live_keys

from ebbtide.log import load_snapshot
from ebbtide.log.compaction import compact_log


def shown(store, version):
    snapshot = load_snapshot(store, version=version)
    return live_keys(snapshot), sorted(map(str, snapshot.tombstones().to_pylist()))


@settings(deadline=None)
@given(history=histories(), data=st.data())
def test_versions_are_the_same_with_a_compaction_in_place_of_its_commits(history, data):
    log = LogBuilder()
    for version, actions in enumerate([HEAD, *history.commits]):
        log.commit(version, actions)
    newest = len(history.commits)
    end = data.draw(st.integers(1, newest))
    start = data.draw(st.integers(0, end - 1))
    before = [shown(log.store, version) for version in range(newest + 1)]
    compact_log(load_snapshot(log.store), start, end)
    assert [shown(log.store, version) for version in range(newest + 1)] == before
    for version in range(start, end):
        log.delete(f"{version:020d}.json")
    assert [shown(log.store, version) for version in range(end, newest + 1)] == before[end:]
