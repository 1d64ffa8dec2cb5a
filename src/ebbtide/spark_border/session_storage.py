"""Which settings for object stores does the session have, that the log can be read with?

Spark reads the data files with its `fs.*` settings. A user who gave them to the session need not give them again: they
are added to the storage options under their own names, and `storage.option_names` knows what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from ebbtide.spark_border.settings import settings_below
from ebbtide.storage.option_names import SESSION_PREFIX

__all__ = ["with_session_storage"]

_SETTINGS: Final = {"s3": "fs.s3a.", "gs": "fs.gs.auth.", "ab": "fs.azure.", "az": "fs.azure."}
_CLOUD_PATH = re.compile(r"\b(s3|gs|ab|az)(?:a|n|fss?)?://", re.IGNORECASE)


def with_session_storage(
    spark: SparkSession, text: str, storage_options: Mapping[str, str] | None
) -> Mapping[str, str] | None:
    """The options, and what the session has for the object stores that `text` names: a path, or a statement.

    Text that names none costs nothing: the session is not asked.
    """
    prefixes = {_SETTINGS[found[1].lower()] for found in _CLOUD_PATH.finditer(text)}
    settings: dict[str, str] = {}
    for prefix in sorted(prefixes):
        # `spark.conf.set("fs.s3a...")` reaches Hadoop too, and was said later.
        for spelled in (f"{SESSION_PREFIX}{prefix}", prefix):
            for name, value in settings_below(spark, spelled).items():
                settings[f"{SESSION_PREFIX}{name.removeprefix(SESSION_PREFIX)}"] = value
    return {**settings, **(storage_options or {})} if settings else storage_options
