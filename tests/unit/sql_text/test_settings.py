"""Does the page say what the code says about settings that change the meaning of a text?"""

from __future__ import annotations

from pathlib import Path

from ebbtide.sql_text import TEXT_SETTINGS

PAGE = Path(__file__).parents[3] / "docs" / "reading.md"


def test_every_setting_that_changes_a_text_is_on_the_page_with_its_answer():
    page = PAGE.read_text(encoding="utf-8")
    missing = [item.key for item in TEXT_SETTINGS if f"| `{item.key}` | {item.changes} | {item.answer} |" not in page]
    assert missing == []
