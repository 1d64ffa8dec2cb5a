"""Which folder is to be converted?"""

from __future__ import annotations

from ebbtide.errors import RequestError
from ebbtide.sql_text import is_sign, tokenize

__all__ = ["parquet_path"]


def parquet_path(identifier: str) -> str:
    """The path in parquet.`path`, or in delta.`path`, which is a table already; RequestError for anything else."""
    tokens = tokenize(identifier, is_substituted=False) or ()
    is_path = len(tokens) == 3 and is_sign(tokens, 1, ".") and tokens[2].kind == "quoted_name"
    if not is_path or not tokens[0].value or not tokens[2].value:
        raise RequestError(
            f"{identifier[:200]!r} names no folder. Write it like parquet.`/path/to/folder`: there is no catalog here.",
            error_class="DELTA_MISSING_PROVIDER_FOR_CONVERT",
        )
    provider = tokens[0].value.lower()
    if provider not in {"parquet", "delta"}:
        raise RequestError(
            f"Only folders of Parquet files can be converted, not {provider!r}. Read the folder with Spark and write "
            "the rows with ebbtide.write.",
            error_class="DELTA_CONVERT_NON_PARQUET_TABLE",
        )
    return tokens[2].value
