"""Where is the compiler for GPUs?

NVRTC comes with the CUDA toolkit, or as a package of Python (``pip install simjoin[cuda]``, for drivers of
CUDA 12 ``simjoin[cuda12]``). The engine looks for the toolkit by itself, and for packages in the usual places; the
folder of *this* interpreter's packages is known only here. It is told through the variable that people can set as
well, ``SIMJOIN_NVRTC``: one path or several, of which the engine takes the first one that suits the driver.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path

VARIABLE = "SIMJOIN_NVRTC"

# Packages for CUDA 13, and those for 12.
FOLDERS = ("cu13/lib", "cuda_nvrtc/lib")


def nvrtc() -> list[Path]:
    """NVRTC among this interpreter's packages, the newest first."""
    spec = importlib.util.find_spec("nvidia")
    places = (spec.submodule_search_locations or []) if spec is not None else []
    libraries = []
    for folder in FOLDERS:
        for place in places:
            found = sorted((Path(place) / folder).glob("libnvrtc.so.*"))
            # One that was built against another interface has a longer name.
            libraries += [path for path in found if ".alt." not in path.name][-1:]
    return libraries


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
    if found:
        os.environ[VARIABLE] = os.pathsep.join(map(str, found))
