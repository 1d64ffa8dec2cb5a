"""Does `make test` say what it should about the tests that ran?"""

from __future__ import annotations

import run_tests

REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.log.test_changes.TestBounds" name="a" time="1.5"/>
<testcase classname="tests.unit.log.test_changes" name="b" time="0.25"/>
<testcase classname="tests.spark.test_table" name="c" time="1.0"><failure message="no"/></testcase>
</testsuite></testsuites>"""


def test_time_of_a_file_is_that_of_all_its_tests_and_classes(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(REPORT, encoding="utf-8")
    assert run_tests.seconds_of_files(report) == {
        "tests/unit/log/test_changes.py": 1.75,
        "tests/spark/test_table.py": 1.0,
    }
    assert run_tests.outcomes(report) == {"passed": 2, "failed": 1}


def test_run_that_died_before_its_report_took_no_time(tmp_path):
    assert not run_tests.seconds_of_files(tmp_path / "missing.xml")
