"""Does replay give the same state as a naive replay, whatever files the log is made of and in whatever order they speak?"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.log_builder import LogBuilder, add, live_keys, metadata, protocol, remove, vector

from ebbtide.log import load_snapshot

HEAD = [protocol(features=["deletionVectors", "v2Checkpoint"]), metadata()]
PATHS = ["a", "p=1/b", "p=a%20b/c", "d%2525", "é", "memory://tests/table/inside", "s3://elsewhere/f"]
LAYOUTS = ["commits", "classic", "multipart", "v2-json", "v2-parquet", "v2-json-sidecars", "v2-parquet-sidecars"]


@dataclass
class NaiveState:
    """Replay as the protocol words it: one action after the other over two dictionaries."""

    live: dict = field(default_factory=dict)
    tombstones: dict = field(default_factory=dict)

    def apply(self, action):
        ((kind, body),) = action.items()
        dv = body.get("deletionVector")
        key = (body["path"], None if dv is None else f"u{dv['pathOrInlineDv']}@{dv['offset']}")
        if kind == "add":
            self.live[key] = action
            self.tombstones.pop(key, None)
        else:
            self.live.pop(key, None)
            self.tombstones[key] = action

    def copy(self):
        return NaiveState(dict(self.live), dict(self.tombstones))

    def actions(self):
        return [*self.live.values(), *self.tombstones.values()]


@dataclass
class History:
    commits: list
    states: list


@st.composite
def histories(draw):
    """Commits that a correct writer could have made, over few paths so that they meet often."""
    state, commits, states = NaiveState(), [], []
    for version in range(draw(st.integers(1, 7))):
        paths = draw(st.lists(st.sampled_from(PATHS), unique=True, max_size=4))
        actions = [action for path in paths for action in draw(_changes(state, path, version))]
        for action in actions:
            state.apply(action)
        commits.append(draw(st.permutations(actions)))
        states.append(state.copy())
    return History(commits, states)


@st.composite
def _changes(draw, state, path, version):
    live = next((action["add"] for (name, _), action in state.live.items() if name == path), None)
    new_vector = draw(st.sampled_from([None, *(vector(offset=offset) for offset in (1, 2, 3))]))
    size = draw(st.integers(0, 9))
    if live is None:
        return [draw(st.sampled_from([add(path, dv=new_vector, size=size), remove(path, dv=new_vector, at=version)]))]
    old_vector = live.get("deletionVector")
    change = draw(st.sampled_from(["remove", "restate", "mark"]))
    if change == "remove":
        return [remove(path, dv=old_vector, at=version)]
    if change == "restate" or new_vector == old_vector:
        return [add(path, dv=old_vector, size=size)]
    return [remove(path, dv=old_vector, at=version), add(path, dv=new_vector, size=size)]


def write(history, layout, checkpoint_version, *, compact_from=None, clean=False):
    log = LogBuilder()
    for version, actions in enumerate(history.commits):
        log.commit(version, [*(HEAD if version == 0 else []), *actions])
    actions = [*HEAD, *history.states[checkpoint_version].actions()]
    kind, _, rest = layout.partition("-")
    if kind == "v2":
        log.v2_checkpoint(
            checkpoint_version, actions, format=rest.removesuffix("-sidecars"), sidecars=2 * ("sidecars" in rest)
        )
    elif kind in {"classic", "multipart"}:
        log.checkpoint(checkpoint_version, actions, parts=1 if kind == "classic" else 3)
    last = len(history.commits) - 1
    if compact_from is not None and compact_from < last:
        before = NaiveState()
        for actions in history.commits[compact_from : last + 1]:
            for action in actions:
                before.apply(action)
        head = HEAD if compact_from == 0 else []
        log.compact(compact_from, last, [*head, *before.actions()])
    if clean and kind != "commits":
        for version in range(checkpoint_version + 1):
            log.delete(f"{version:020d}.json")
    return log


def assert_state(snapshot, state):
    assert live_keys(snapshot) == set(state.live)
    assert sorted(file.size for file in snapshot.add_files()) == sorted(a["add"]["size"] for a in state.live.values())
    tombstones = {(row["path"], row["deletion_timestamp"]) for row in snapshot.tombstones().to_pylist()}
    assert tombstones == {(a["remove"]["path"], a["remove"]["deletionTimestamp"]) for a in state.tombstones.values()}
    assert snapshot.tombstones().num_rows == len(state.tombstones)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.sampled_from(LAYOUTS), st.data())
def test_every_layout_of_a_log_replays_like_a_naive_replay(history, layout, data):
    newest = len(history.commits) - 1
    checkpoint_version = data.draw(st.integers(0, newest), label="checkpoint")
    compact_from = data.draw(st.none() | st.integers(0, newest), label="compacted from")
    log = write(history, layout, checkpoint_version, compact_from=compact_from, clean=data.draw(st.booleans()))
    if data.draw(st.booleans(), label="hint"):
        log.last_checkpoint(checkpoint_version)
    assert_state(load_snapshot(log.store), history.states[-1])


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.sampled_from(LAYOUTS), st.data())
def test_walking_forward_from_any_version_arrives_at_the_same_state(history, layout, data):
    newest = len(history.commits) - 1
    log = write(history, layout, data.draw(st.integers(0, newest), label="checkpoint"))
    start = data.draw(st.integers(0, newest), label="start")
    snapshot = load_snapshot(log.store, version=start)
    for version in range(start, newest + 1):
        snapshot = load_snapshot(log.store, version=version, hint=snapshot)
        assert_state(snapshot, history.states[version])


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.data())
def test_order_inside_a_commit_does_not_matter(history, data):
    shuffled = History([data.draw(st.permutations(actions)) for actions in history.commits], history.states)
    left = load_snapshot(write(history, "commits", 0).store)
    right = load_snapshot(write(shuffled, "commits", 0).store)
    assert live_keys(left) == live_keys(right)
