"""Tests plan for a fixed machine, and leave the user's cache folder alone."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

CACHE = tempfile.mkdtemp(prefix="simjoin-tests-")

# A machine that was asked for outside stays, as long as it is a fixed one.
if not os.environ.get("SIMJOIN_MACHINE", "").startswith("fixed"):
    os.environ["SIMJOIN_MACHINE"] = "fixed"
os.environ["XDG_CACHE_HOME"] = CACHE


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(CACHE, ignore_errors=True)
