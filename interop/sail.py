"""How is Sail asked? Through a Spark Connect client, on the server that the same process runs.

A Connect client cannot live beside a classic Spark session, so this is loaded in a process of its own
(`interop.remote`). Sail has no INSERT into a path; a DataFrame's writer appends. Tables are made under a name and at
a location.
"""

from __future__ import annotations

import warnings
from importlib.metadata import version

import pyarrow as pa

from interop.features import Definition
from interop.spark_steps import SparkSteps
from interop.statements import created, with_checks

__all__ = ["Sail"]


class Sail(SparkSteps):
    offers = frozenset({"create", "append", "delete", "update", "merge"})

    def __init__(self) -> None:
        from pysail.spark import SparkConnectServer

        # PySpark 4.2 warns of pandas 3; nothing here touches pandas.
        warnings.simplefilter("ignore", FutureWarning)
        from pyspark.sql import SparkSession

        self._server = SparkConnectServer()
        self._server.start(background=True)
        address = self._server.listening_address
        if address is None:
            raise RuntimeError("its server has no address")
        self.spark = SparkSession.builder.remote(f"sc://{address[0]}:{address[1]}").getOrCreate()
        self.spark.conf.set("spark.sql.session.timeZone", "UTC")
        self._tables = 0

    def version(self) -> str:
        return version("pysail")

    def create(self, path: str, definition: Definition) -> None:
        self._tables += 1
        name = f"interop_{self._tables}"
        for statement in (created(name, definition, location=path), *with_checks(name, definition)):
            self.spark.sql(statement).collect()

    def changes(self, path: str) -> pa.Table:
        raise NotImplementedError(path)

    def close(self) -> None:
        self.spark.stop()
        self._server.stop()
