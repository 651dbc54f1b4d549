"""The vectors of the store's tests: one per item, or several."""

import pytest

from support.stored_vectors import make_rows


@pytest.fixture(params=["one vector", "several vectors"])
def rows(request):
    """Make vectors of n items: ``rows(n, seed, dim)``."""

    def make(n, seed=0, dim=8):
        return make_rows(n, seed, dim, several=request.param == "several vectors")

    make.several = request.param == "several vectors"
    return make
