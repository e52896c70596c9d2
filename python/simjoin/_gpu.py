"""Where is the compiler for GPUs?

NVRTC comes with the CUDA toolkit, or as a Python package (``pip install simjoin[cuda]``; for drivers of
CUDA 12 ``simjoin[cuda12]``). The engine itself looks for the toolkit, and for packages in the usual places.
Only Python knows the folder of *this* interpreter's packages, so it passes the paths in ``SIMJOIN_NVRTC``, a
variable that users can also set. The engine uses the first path that suits the driver.
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


def set_variable_for(engine: str) -> None:
    """Sets the variable, if the engine may need the compiler."""
    if engine != "cpu":
        set_variable()


@cache
def set_variable() -> None:
    """Sets the variable once, unless the user has set it."""
    if os.environ.get(VARIABLE):
        return
    found = nvrtc()
    if found:
        os.environ[VARIABLE] = os.pathsep.join(map(str, found))
