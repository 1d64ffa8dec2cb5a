"""Does a symbolic link lead out of a table's directory?

Only local directories have links; other stores have none to find. Links that stay inside the root are fine, and the
root itself may be one: the user named it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from ebbtide.errors import UnsupportedFeatureError
from ebbtide.storage.failures import os_failure
from ebbtide.storage.store import ObjectStore, is_local

__all__ = ["ensure_no_links_outside", "is_same_place", "linked_paths", "paths_outside", "relative_through_links"]


def ensure_no_links_outside(store: ObjectStore) -> None:
    """UnsupportedFeatureError when a link anywhere below the root leads out of it, whoever may follow it later."""
    if not is_local(store):
        return
    root = _root(store)
    real_root = os.path.realpath(root)
    for link in _links(root):
        target = os.path.realpath(link)
        if not _is_below(target, real_root):
            raise UnsupportedFeatureError(
                f"the table at {store.url} holds the link {os.path.relpath(link, root)!r}, which leads out of it to "
                f"{target!r}; EngineConfig(inside_root_only=True), or --untrusted, refuses such links. Delete it, or "
                "read without that switch if the table can be trusted.",
                error_class="",
            )


def paths_outside(store: ObjectStore, relative_paths: Iterable[str]) -> Iterator[str]:
    """The paths that lead out of the root through a link."""
    if not is_local(store):
        return
    root = _root(store)
    real_root = os.path.realpath(root)
    is_inside: dict[str, bool] = {}
    for path in relative_paths:
        directory = os.path.dirname(path)  # noqa: PTH120 - these are names of the store, and may be a million
        if directory not in is_inside:
            is_inside[directory] = _is_below(os.path.realpath(root / directory), real_root)
        full = root / path
        if not is_inside[directory] or (full.is_symlink() and not _is_below(os.path.realpath(full), real_root)):
            yield path


def relative_through_links(store: ObjectStore, absolute_url: str) -> str | None:
    """The path below the root of a file that a URL names by another way: the root, or the URL, may be a link's.

    None when the file is elsewhere; that of a directory that does not exist is elsewhere, too.
    """
    if not is_local(store) or not absolute_url.startswith("file://"):
        return None
    real_root = os.path.realpath(_root(store))
    parent, _, name = unquote(absolute_url.removeprefix("file://")).rpartition("/")
    real_parent = os.path.realpath(parent)
    return os.path.relpath(f"{real_parent}/{name}", real_root) if _is_below(real_parent, real_root) else None


def is_same_place(url: str, other_url: str) -> bool:
    """Whether two roots are one: spelled alike, or one local directory that is reached through links."""
    if url == other_url:
        return True
    if not (url.startswith("file://") and other_url.startswith("file://")):
        return False
    one, other = (os.path.realpath(unquote(each.removeprefix("file://"))) for each in (url, other_url))
    return one == other


def linked_paths(store: ObjectStore, relative_paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The paths that lead through a link below the root, each with where it really leads: below the root if it can."""
    if not is_local(store):
        return
    root = os.path.realpath(_root(store))
    real_directories: dict[str, str] = {}
    for path in relative_paths:
        directory, name = os.path.split(path)
        if directory not in real_directories:
            real_directories[directory] = os.path.realpath(os.path.join(root, directory))  # noqa: PTH118 - many names
        real = os.path.join(real_directories[directory], name)  # noqa: PTH118
        if os.path.islink(real):  # noqa: PTH114
            real = os.path.realpath(real)
        if real != os.path.join(root, path):  # noqa: PTH118
            yield path, os.path.relpath(real, root) if _is_below(real, root) else real


def _root(store: ObjectStore) -> Path:
    return Path(unquote(store.url.removeprefix("file://")))


def _links(root: Path) -> Iterator[str]:
    # A stack of its own instead of recursion: a path can be deeper than Python's call stack.
    directories = [str(root)]
    while directories:
        directory = directories.pop()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield entry.path
                    elif entry.is_dir(follow_symlinks=False):
                        directories.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise os_failure(error, "look for links in", directory) from error


def _is_below(path: str, real_root: str) -> bool:
    return path == real_root or path.startswith(real_root.rstrip("/") + "/")
