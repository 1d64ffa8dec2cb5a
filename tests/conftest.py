"""Which options and fixtures does every test folder share?

`--spark=classic|connect` chooses the kind of the one Spark session of this process (see `tests/support/spark_session.py`).
Whatever asks for the `spark` fixture runs on that kind. Tests below `tests/connect` are about Connect itself, so a classic
run does not collect them; `make test` runs pytest a second time with `--spark=connect` for them and for `tests/spark`.

That second run says `--second-kind`, and then leaves out what the first has settled: tests that ask for no session, tests
marked `one_kind`, and all but the first parameters of tests marked `one_value`. Where that mark names parameters beside its
reason, their first values run with every value of the others. A test without a mark runs on both kinds.
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
# A test that asks for neither meets no session of the process.
SESSION_FIXTURES = frozenset({"spark", "spark_kind"})


def pytest_addoption(parser):
    parser.addoption("--spark", choices=SESSION_KINDS, default="classic", help="kind of Spark session the tests run on")
    parser.addoption(
        "--second-kind", action="store_true", help="leave out tests for which the other kind of session is enough"
    )
    parser.addoption(
        "--compact-golden",
        choices=["none", "few", "all"],
        default="few",
        help="compact and purge golden tables in Spark: a few that have all features between them, or all",
    )


def pytest_configure(config):
    # PySpark warns about pandas >= 3 on import of its Connect half; nothing here goes through pandas.
    config.addinivalue_line("filterwarnings", "ignore:PySpark does not yet fully support pandas:FutureWarning")


def pytest_ignore_collect(collection_path, config):
    if config.getoption("--spark") == "classic" and collection_path.is_relative_to(CONNECT_ONLY):
        return True
    return None


def pytest_collection_modifyitems(config, items):
    for item in items:
        check_marks(item)
    if config.getoption("--second-kind"):
        left_out = set(settled_by_one_kind(items))
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def check_marks(item):
    """A mark has a reason, and the parameters that it names are those of its test."""
    for mark in (*item.iter_markers("one_kind"), *item.iter_markers("one_value")):
        if not mark.args or (mark.name == "one_kind" and len(mark.args) > 1):
            raise pytest.UsageError(f"{item.nodeid}: the mark `{mark.name}` has no reason, or more than one")
        unknown = set(mark.args[1:]) - set(parameters_of(item))
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: the mark `{mark.name}` names {unknown}, which are no parameters")


def parameters_of(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


def settled_by_one_kind(items):
    """The tests to which a second kind of session adds nothing."""
    first_parameters = {}
    for item in items:
        name, parameters = item.nodeid.partition("[")[0], parameters_of(item)
        first = first_parameters.setdefault(name, parameters)
        if item.get_closest_marker("one_kind") or not SESSION_FIXTURES & set(item.fixturenames):
            yield item
        elif mark := item.get_closest_marker("one_value"):
            compared = mark.args[1:] or parameters
            if any(parameters[each] is not first[each] for each in compared):
                yield item


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
