"""Ebbtide: delete, update and merge rows of Delta Lake tables on plain PySpark.

import ebbtide
df = ebbtide.read(spark, "/data/people")
table = ebbtide.DeltaTable.forPath(spark, "/data/people")
table.delete("city = 'Oslo'")
ebbtide.write(df, "/data/people", mode="append")
ebbtide.sql(spark, "DELETE FROM delta.`/data/people` WHERE city = 'Oslo'")
"""

from ebbtide.changes import read_changes
from ebbtide.config import EngineConfig
from ebbtide.errors import DeltaError
from ebbtide.sql.door import sql
from ebbtide.table import DeltaTable, read
from ebbtide.table_builder import IdentityGenerator
from ebbtide.writer import write

__all__ = ["DeltaError", "DeltaTable", "EngineConfig", "IdentityGenerator", "read", "read_changes", "sql", "write"]
