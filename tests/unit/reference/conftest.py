from __future__ import annotations

import pytest

from kit.reference import write


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    return write("llama", tmp_path_factory.mktemp("reference"))
