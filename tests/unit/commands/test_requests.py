"""Are switches that mean nothing refused where they are given?"""

from __future__ import annotations

import pytest

from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError


@pytest.mark.parametrize("options", [{"deletion_vectors": "yes"}, {"conflicts": "ignore"}])
def test_unknown_choice_is_refused_with_the_choices(options):
    [(name, value)] = options.items()
    with pytest.raises(RequestError, match=f"{name}='{value}' is not known; expected one of"):
        WriteOptions(**options)


@pytest.mark.parametrize("options", [{"txn_app_id": "job"}, {"txn_version": 3}])
def test_half_an_application_transaction_is_refused(options):
    with pytest.raises(RequestError) as caught:
        WriteOptions(**options)
    assert caught.value.error_class == "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"


def test_defaults_mark_rows_and_follow_other_writers():
    assert (WriteOptions().deletion_vectors, WriteOptions().conflicts) == ("on", "rebase")
    assert WriteOptions(txn_app_id="job", txn_version=0).txn_version == 0
