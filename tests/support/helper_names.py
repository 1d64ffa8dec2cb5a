"""What would the engine call its helper columns first, if nothing stood in the way?

The subjects are read from the source, so that a helper column which is added later is in the tests already.
"""

from __future__ import annotations

import re
from pathlib import Path

from ebbtide.spark_border import HelperNames

__all__ = ["first_helper_names"]

SOURCE = Path(__file__).parents[2] / "src" / "ebbtide"
_PICKED = re.compile(r'\bpick\(f?"([^"]+)"\)')
_LISTED = re.compile(r"\.pick\(subject\) for subject in \(([^)]+)\)")


def first_helper_names() -> list[str]:
    """Where a name holds a number, that of the first."""
    text = "\n".join(path.read_text() for path in sorted(SOURCE.rglob("*.py")))
    subjects = _PICKED.findall(text)
    for listed in _LISTED.findall(text):
        subjects += re.findall(r'"(\w+)"', listed)
    subjects += ["row_index", "file_size", "file_path"]
    names = dict.fromkeys(re.sub(r"{\w+}", "0", subject) for subject in subjects)
    assert len(names) > 20, "the way helper columns are named has changed: read it here as well"
    return [HelperNames().pick(subject) for subject in names]
