"""The name of every model of the zoo."""

import pytest

from support.zoo_cases import BUILDERS


@pytest.fixture(params=BUILDERS)
def name(request):
    return request.param
