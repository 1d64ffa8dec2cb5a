"""Does the matrix choose the right releases and pins without asking anybody?"""

from __future__ import annotations

import pytest

import matrix

PINS = 'pandas==3.1.1 ; python_version >= "3.11"\npandas==2.3.3 ; python_version < "3.11"\npy4j==0.10.9.9\npyarrow==26.0.1\npyspark==4.2.0\n'


@pytest.mark.parametrize(
    ("published", "chosen"),
    [
        (["4.3.0", "4.10.0", "4.2.1", "4.0.0", "3.5.9", "5.0.0"], ["4.0.0", "4.10.0"]),
        (["4.1.0", "4.1.0.dev1", "4.2.0rc1"], ["4.1.0"]),
        (["3.5.9"], []),
    ],
    ids=["numbers-not-text", "no-previews", "none"],
)
def test_releases_are_the_two_ends_of_the_supported_line(published, chosen):
    assert matrix.oldest_and_newest(published) == chosen


def test_old_release_gets_its_own_pins_and_keeps_the_rest():
    assert matrix.constraints_for("4.0.0", PINS).splitlines() == [
        "pyarrow==26.0.1",
        "pyspark==4.0.0",
        *matrix.OLDER_LIBRARIES[4, 0],
    ]


def test_new_release_keeps_every_pin_but_spark():
    assert matrix.constraints_for("4.3.0", PINS).splitlines() == [
        *PINS.splitlines()[:2],
        "pyarrow==26.0.1",
        "pyspark==4.3.0",
    ]


def test_short_matrix_tries_each_kind_of_session_on_one_release_and_the_whole_one_on_all():
    classic, connect = matrix.RUNS
    assert matrix.chosen_runs(["4.0.0", "4.3.0"], short=True) == [("4.0.0", (classic,)), ("4.3.0", (connect,))]
    assert matrix.chosen_runs(["4.0.0", "4.3.0"], short=False) == [
        ("4.0.0", (classic, connect)),
        ("4.3.0", (classic, connect)),
    ]
