"""Is a GPU used if there is one, and is its compiler found?"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import simjoin as sj
from simjoin import _gpu

ROOT = Path(__file__).parents[2]


def run(text: str, **environment: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def done_by(engine: str) -> list[str]:
    """Lists the engines that may run a join: `hybrid` runs small joins on one side only."""
    return ["hybrid", "cpu", "gpu"] if engine == "hybrid" else [engine]


@pytest.mark.parametrize("engine", ["gpu", "hybrid"])
def test_simulated_device_gives_the_same_answer(engine: str) -> None:
    """A process looks for devices only once, so the join runs in a separate process."""
    text = f"""
        import simjoin as sj
        assert len(sj.devices()) == 1 and sj.devices()[0].memory is None
        rows = [[(at * 7 + k * k) % 97 for k in range(9)] for at in range(400)]
        cpu = sj.self_join(rows, jaccard=0.4, engine="cpu")
        gpu = sj.self_join(rows, jaccard=0.4, engine="{engine}")
        assert sorted(gpu.rows()) == sorted(cpu.rows()) and len(cpu) > 100
        print(gpu.stats["engine"])
    """
    assert run(text, SIMJOIN_SIMULATED_GPU="speed=5") in done_by(engine)


@pytest.mark.parametrize("engine", ["gpu", "hybrid"])
def test_simulated_device_finds_the_same_vectors(engine: str) -> None:
    text = f"""
        import simjoin as sj
        points = [[float(at * 7 % 31), float(at * at % 29)] for at in range(300)]
        cpu = sj.vector_join(points, within=2.5, engine="cpu")
        gpu = sj.vector_join(points, within=2.5, engine="{engine}", device_memory="64M")
        assert sorted(gpu.rows()) == sorted(cpu.rows()) and len(cpu) > 100
        assert cpu.stats["engine"] == "cpu"
        print(gpu.stats["engine"])
    """
    assert run(text, SIMJOIN_SIMULATED_GPU="speed=5") in done_by(engine)


def test_failing_device_is_a_warning() -> None:
    text = """
        import warnings
        import simjoin as sj
        rows = [[(at * 7 + k * k) % 97 for k in range(9)] for at in range(400)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gpu = sj.self_join(rows, jaccard=0.4, engine="gpu")
        assert sorted(gpu.rows()) == sorted(sj.self_join(rows, jaccard=0.4, engine="cpu").rows())
        assert len(caught) >= 1 and list(gpu.stats["warnings"])
        print(caught[0].message)
    """
    said = run(text, SIMJOIN_SIMULATED_GPU="speed=5,fail=1")
    assert said.startswith("simjoin: ") and said.endswith("the CPU did its work")
    vectors = text.replace("self_join(rows, jaccard=0.4", "vector_join(rows, within=40")
    assert run(vectors, SIMJOIN_SIMULATED_GPU="speed=5,fail=1") == said


def test_variable_names_nvrtc_of_the_packages(tmp_path: Path) -> None:
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    for name in ("libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0"):
        (folder / name).touch()
    environment = {name: value for name, value in os.environ.items() if name != _gpu.VARIABLE}
    for call in ("self_join([['a']], jaccard=1", "vector_join([[0.0]], within=1"):
        text = f"""
            import os, sys
            sys.path.insert(0, {str(tmp_path)!r})
            import simjoin as sj
            assert "SIMJOIN_NVRTC" not in os.environ
            sj.{call}, engine="cpu")
            assert "SIMJOIN_NVRTC" not in os.environ
            sj.{call})
            print(os.environ["SIMJOIN_NVRTC"])
        """
        process = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
        )
        assert process.stdout.strip() == str(folder / "libnvrtc.so.13"), process.stderr
    # A variable that the user has set is kept.
    assert (
        run(
            "import os, simjoin as sj; sj.self_join([['a']], jaccard=1); print(os.environ['SIMJOIN_NVRTC'])",
            SIMJOIN_NVRTC="/somewhere/else.so",
        )
        == "/somewhere/else.so"
    )


def test_variable_names_nvrtc_for_both_driver_versions(tmp_path: Path) -> None:
    """The engine uses the first library that suits the driver, so the newest comes first."""
    libraries = [
        tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13",
        tmp_path / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12",
    ]
    for library in libraries:
        library.parent.mkdir(parents=True)
        library.touch()
    text = f"""
        import os, sys
        os.environ.pop("SIMJOIN_NVRTC", None)
        sys.path.insert(0, {str(tmp_path)!r})
        from simjoin import _gpu
        _gpu.set_variable()
        print(os.environ["SIMJOIN_NVRTC"])
    """
    assert run(text) == os.pathsep.join(map(str, libraries))


def test_engine_finds_nvrtc_of_the_packages() -> None:
    """The checks of kernels have installed the package in an unusual folder."""
    packages = ROOT / "target" / "nvrtc"
    if not (packages / "nvidia").is_dir():
        pytest.skip("nvidia-cuda-nvrtc is not installed in target/nvrtc")
    text = f"""
        import os, sys
        os.environ.pop("SIMJOIN_NVRTC", None)
        sys.path.insert(0, {str(packages)!r})
        import simjoin as sj
        from simjoin import _gpu, _native
        _gpu.set_variable()
        assert os.environ["SIMJOIN_NVRTC"].startswith({str(packages)!r})
        print(_native.nvrtc_version()[0])
    """
    assert run(text) == "13"


def test_hidden_devices_are_an_empty_list_and_joins_report_why() -> None:
    text = """
        import os
        os.environ.pop("SIMJOIN_SIMULATED_GPU", None)
        import simjoin as sj
        assert sj.devices() == []
        try:
            sj.self_join([["a"]], jaccard=1, engine="gpu")
        except sj.UnavailableError as error:
            print(error)
    """
    why = run(text, CUDA_VISIBLE_DEVICES="-1")
    assert "NVIDIA driver" in why or "no CUDA-capable device" in why


def test_real_device_gives_the_same_answer() -> None:
    if os.environ.get("SIMJOIN_SIMULATED_GPU") or not sj.devices():
        pytest.skip("no GPU")
    rows = [[(at * 7919 + k * k * 31) % 4001 for k in range(30)] for at in range(5000)]
    cpu = sj.self_join(rows, jaccard=0.1, engine="cpu")
    for engine in ("gpu", "hybrid"):
        gpu = sj.self_join(rows, jaccard=0.1, engine=engine)
        assert sorted(gpu.rows()) == sorted(cpu.rows()) and len(cpu) > 1000
