"""How do rows become files? A DataFrame becomes data files, change data files and statistics, ready for a commit."""

from ebbtide.write.abandoned import discard
from ebbtide.write.assignment import stored
from ebbtide.write.files import write_files
from ebbtide.write.row_counts import footer_statistics
from ebbtide.write.rules import completed, default_value, enforced, generated_columns
from ebbtide.write.target import WriteTarget, WrittenFiles

__all__ = [
    "WriteTarget",
    "WrittenFiles",
    "completed",
    "default_value",
    "discard",
    "enforced",
    "footer_statistics",
    "generated_columns",
    "stored",
    "write_files",
]
