"""Where is the compiler for GPUs?

NVRTC comes with the CUDA toolkit, or as a package of Python (``pip install simjoin[cuda]``). The engine looks for
the toolkit by itself, and for packages in the usual places; the folder of *this* interpreter's packages is known
only here. It is told through the variable that people can set as well, ``SIMJOIN_NVRTC``.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path

VARIABLE = "SIMJOIN_NVRTC"

# Packages for CUDA 13, and those for 12.
FOLDERS = ("cu13/lib", "cuda_nvrtc/lib")


def nvrtc() -> Path | None:
    """NVRTC among this interpreter's packages, the newest one."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        for folder in FOLDERS:
            found = sorted((Path(place) / folder).glob("libnvrtc.so.*"))
            # One that was built against another interface has a longer name.
            found = [path for path in found if ".alt." not in path.name]
            if found:
                return found[-1]
    return None


def offer_for(engine: str) -> None:
    """Tells the engine where the compiler is, if it may need one."""
    if engine != "cpu":
        offer()


@cache
def offer() -> None:
    """Tells the engine, once, unless a person has."""
    if os.environ.get(VARIABLE):
        return
    found = nvrtc()
    if found is not None:
        os.environ[VARIABLE] = str(found)
