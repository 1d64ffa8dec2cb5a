"""Are the names that we share with delta-spark still delta-spark's own? Looked up in its JAR; no session is started."""

from __future__ import annotations

import json
import zipfile

import pytest
from tests.support.reference_session import jars

from ebbtide.sql_states import SQL_STATES

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def error_classes():
    [jar] = [jar for jar in jars() if jar.name.startswith("delta-spark")]
    with zipfile.ZipFile(jar) as archive:
        return json.loads(archive.read("error/delta-error-classes.json"))


def test_sql_states_are_those_of_delta_spark(error_classes):
    ours = {name: state for name, state in SQL_STATES.items() if name.startswith("DELTA_")}
    assert ours
    assert ours == {name: error_classes[name]["sqlState"] for name in ours}
