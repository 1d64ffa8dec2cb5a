"""How do rows become files? A DataFrame becomes data files, change data files and statistics, ready for a commit."""

from ebbtide.write.abandoned import discard
from ebbtide.write.assignment import cast_for_column
from ebbtide.write.file_statistics import indexed_columns
from ebbtide.write.files import write_files
from ebbtide.write.identity import UsedNumbers
from ebbtide.write.live_footers import footer_of, stats_from_footer
from ebbtide.write.rules import complete_rows, default_value, enforce_rules, generated_columns
from ebbtide.write.target import WriteTarget, WrittenFiles

__all__ = [
    "UsedNumbers",
    "WriteTarget",
    "WrittenFiles",
    "cast_for_column",
    "complete_rows",
    "default_value",
    "discard",
    "enforce_rules",
    "footer_of",
    "stats_from_footer",
    "generated_columns",
    "indexed_columns",
    "write_files",
]
