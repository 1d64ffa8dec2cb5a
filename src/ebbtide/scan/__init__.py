"""Which rows does a table hold? Live files to a Spark DataFrame, rows marked by a deletion vector dropped."""

from ebbtide.scan.dataframe import PositionedScan, scan_files, scan_rows, scan_with_positions
from ebbtide.scan.files import ScanFile, resolve_adds, resolve_file, resolve_files
from ebbtide.scan.flagged_rows import scan_flagged
from ebbtide.scan.kept_rows import without_rows
from ebbtide.scan.row_ids import RowIdColumns

__all__ = [
    "PositionedScan",
    "RowIdColumns",
    "ScanFile",
    "resolve_adds",
    "resolve_file",
    "resolve_files",
    "scan_files",
    "scan_flagged",
    "scan_rows",
    "scan_with_positions",
    "without_rows",
]
