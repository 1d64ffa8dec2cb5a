"""Which options and fixtures does every test folder share?

`--spark=classic|connect` chooses the kind of the one Spark session of this process (see `tests/support/spark_session.py`).
Whatever asks for the `spark` fixture runs on that kind. Tests below `tests/connect` are about Connect itself, so a classic
run does not collect them; `make test` runs pytest a second time with `--spark=connect` for them and for `tests/spark`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from tests.support.spark_session import SESSION_KINDS, open_session

# A busy machine makes no test wrong: pytest-timeout ends what hangs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

CONNECT_ONLY = Path(__file__).parent / "connect"


def pytest_addoption(parser):
    parser.addoption("--spark", choices=SESSION_KINDS, default="classic", help="kind of Spark session the tests run on")


def pytest_configure(config):
    # PySpark warns about pandas >= 3 on import of its Connect half; nothing here goes through pandas.
    config.addinivalue_line("filterwarnings", "ignore:PySpark does not yet fully support pandas:FutureWarning")


def pytest_ignore_collect(collection_path, config):
    if config.getoption("--spark") == "classic" and collection_path.is_relative_to(CONNECT_ONLY):
        return True
    return None


def pytest_report_header(config):
    return f"spark session: {config.getoption('--spark')}"


@pytest.fixture(scope="session")
def spark_kind(request):
    """`classic` or `connect`: for the few tests whose expectation differs."""
    return request.config.getoption("--spark")


@pytest.fixture(scope="session")
def spark(spark_kind, tmp_path_factory):
    """The one Spark session of this process, started by the first test that asks for it."""
    with open_session(spark_kind, tmp_path_factory.mktemp("spark")) as session:
        yield session
