"""Which session do the tests of this folder share? One that has Hadoop's S3 connector on its class path."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.s3_endpoint import s3_endpoint
from tests.support.spark_session import open_session

JARS = Path(__file__).parents[2] / "build" / "connector"


@pytest.fixture(scope="session")
def event_logs(tmp_path_factory):
    """Where Spark writes down its plans."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(spark_kind, tmp_path_factory, event_logs):
    jars = ":".join(map(str, sorted(JARS.glob("*.jar"))))
    assert jars, "there is no connector in build/connector; `make connector` fetches it"
    more = {
        "spark.driver.extraClassPath": jars,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": event_logs.as_uri(),
    }
    with open_session(spark_kind, tmp_path_factory.mktemp("spark"), more) as session:
        yield session


@pytest.fixture(scope="session")
def endpoint():
    with s3_endpoint() as endpoint:
        yield endpoint
