"""Where is the compiler for GPUs?

NVRTC comes with the CUDA toolkit, or as a package of Python (``pip install simjoin[cuda]``, for drivers of
CUDA 12 ``simjoin[cuda12]``). The engine looks for the toolkit by itself, and for packages in the usual places; the
folder of *this* interpreter's packages is known only here. The engine learns it from ``SIMJOIN_NVRTC``, a variable
that users can set as well: one path or several. The engine takes the first one that suits the driver.
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
    """Lists the NVRTC libraries among this interpreter's packages, the newest first."""
    spec = importlib.util.find_spec("nvidia")
    places = (spec.submodule_search_locations or []) if spec is not None else []
    libraries = []
    for folder in FOLDERS:
        for place in places:
            found = sorted((Path(place) / folder).glob("libnvrtc.so.*"))
            # A library built for another interface has a longer name.
            libraries += [path for path in found if ".alt." not in path.name][-1:]
    return libraries


def offer_for(engine: str) -> None:
    """Tells the engine where the compiler is, if it may need one."""
    if engine != "cpu":
        offer()


@cache
def offer() -> None:
    """Tells the engine, once, unless the user has."""
    if os.environ.get(VARIABLE):
        return
    found = nvrtc()
    if found:
        os.environ[VARIABLE] = os.pathsep.join(map(str, found))
