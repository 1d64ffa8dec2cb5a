"""What makes a Spark session one of delta-spark's, the reference engine?

Its JARs, which `scripts/reference_jars.py` puts into `build/reference`, and two settings. Whoever starts a session adds
`delta_spark()` to its own; where no JAR is, that raises.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["delta_spark", "jars"]

JARS = Path(__file__).parents[2] / "build" / "reference"
EXTENSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def jars() -> list[Path]:
    return sorted(JARS.glob("*.jar"))


def delta_spark() -> dict[str, str]:
    found = jars()
    if not found:
        raise RuntimeError(f"the JARs of delta-spark are not in {JARS}: `make reference` fetches them with Maven.")
    return EXTENSION | {"spark.jars": ",".join(map(str, found))}
