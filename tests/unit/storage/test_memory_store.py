from __future__ import annotations

from uuid import uuid4

from ebbtide.storage import open_store


def test_two_names_are_two_stores_and_two_paths_are_two_tables():
    name = uuid4().hex
    open_store(f"memory://{name}/t").put_if_absent("x", b"1")
    assert list(open_store(f"memory://{name}other/t").list("")) == []
    assert list(open_store(f"memory://{name}/t2").list("")) == []
    assert [meta.path for meta in open_store(f"memory://{name}").list("")] == ["t/x"]
