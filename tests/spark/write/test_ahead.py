"""Is what was written ahead kept when it is taken, and gone when it is not?"""

from __future__ import annotations

from threading import Event

import pytest
from tests.support.write_targets import struct, write_target

from ebbtide.write import write_files
from ebbtide.write.ahead import write_ahead

pytestmark = pytest.mark.spark


@pytest.fixture
def target(tmp_path):
    return write_target(tmp_path, struct(id="long"))


def files(tmp_path):
    return [path for path in tmp_path.rglob("*") if path.is_file()]


def write(spark, target):
    return write_files(spark, spark.range(3).coalesce(1), target)


def test_what_is_taken_stays(spark, target, tmp_path):
    with write_ahead(spark, target.store, lambda: write(spark, target)) as ahead:
        written = ahead.take()
    assert [add.path for add in written.adds] == [path.name for path in files(tmp_path)]


def test_what_is_not_taken_goes(spark, target, tmp_path):
    with write_ahead(spark, target.store, lambda: write(spark, target)):
        pass
    assert not files(tmp_path)


def test_block_that_fails_takes_the_write_with_it(spark, target, tmp_path):
    with pytest.raises(KeyboardInterrupt), write_ahead(spark, target.store, lambda: write(spark, target)):
        raise KeyboardInterrupt
    assert not files(tmp_path)


@pytest.mark.timeout(120)
def test_block_that_fails_stops_the_jobs_of_the_write_on_connect(spark, spark_kind, target, tmp_path):
    if spark_kind == "classic":
        pytest.skip("a classic session does not hand its tags to the jobs of a write")
    begun = Event()

    def forever():
        begun.set()
        hours = spark.range(1 << 50).selectExpr("id + length(repeat('x', 100)) AS id")
        return write_files(spark, hours, target)

    with pytest.raises(KeyError), write_ahead(spark, target.store, forever):
        assert begun.wait(60)
        wait_for_a_task(tmp_path)
        raise KeyError
    assert not files(tmp_path)


def wait_for_a_task(tmp_path):
    """Until Spark writes; a job that has not begun cannot be stopped."""
    pause = Event()
    for _ in range(600):
        if any(path.suffix == ".parquet" for path in files(tmp_path)):
            return
        pause.wait(0.1)
    raise AssertionError("Spark never began to write.")


def test_failure_of_the_write_is_raised_to_whoever_takes_it(spark, target, tmp_path):
    def fails():
        raise ValueError("no space")

    with pytest.raises(ValueError, match="no space"), write_ahead(spark, target.store, fails) as ahead:
        ahead.take()


def test_failure_of_a_write_that_nobody_takes_is_nobodys(spark, target):
    def fails():
        raise ValueError("no space")

    with write_ahead(spark, target.store, fails):
        pass
