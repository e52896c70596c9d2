"""Tests plan for a fixed machine, and do not use the user's cache folder."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

CACHE = tempfile.mkdtemp(prefix="simjoin-tests-")

# A fixed machine that the environment names is kept.
if not os.environ.get("SIMJOIN_MACHINE", "").startswith("fixed"):
    os.environ["SIMJOIN_MACHINE"] = "fixed"
os.environ["XDG_CACHE_HOME"] = CACHE


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(CACHE, ignore_errors=True)
