"""The cause shown for a failed step, out of what the tools print."""

from __future__ import annotations

import pytest

from orchestrator.environments.engine_steps import first_cause

PIP_BUILD = """\
  error: subprocess-exited-with-error
  × Getting requirements to build wheel did not run successfully.
  ModuleNotFoundError: No module named 'wheel_builder'
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed"""
PIP_OFFLINE = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /x/
ERROR: Could not find a version that satisfies the requirement torch==9 (from versions: none)
ERROR: No matching distribution found for torch==9"""
PIP_HALF_OFFLINE = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /x/
Processing /wheels/torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl
ERROR: Cannot install torchvision==0.28.0 because these package versions have conflicting parts."""
CMAKE = """\
-- The CXX compiler identification is GNU 12.2.0
CMake Error at CMakeLists.txt:3 (message):
  CUDA Toolkit not found

-- Configuring incomplete, errors occurred!"""
NINJA = """\
[3/9] Building CXX object a.o
FAILED: [code=1] a.o
/usr/bin/c++ -o a.o -c a.cpp
a.cpp:3:1: error: 'foo' does not name a type
ninja: build stopped: subcommand failed."""
VENV = """\
The virtual environment was not created successfully because ensurepip is not
available.
Failing command: /usr/bin/python3"""


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (PIP_BUILD, "ModuleNotFoundError: No module named 'wheel_builder'"),
        (PIP_OFFLINE, "(from versions: none) (the package index could not be reached)"),
        (PIP_HALF_OFFLINE, "conflicting parts. (the package index could not be reached)"),
        (CMAKE, "CMake Error at CMakeLists.txt:3 (message): CUDA Toolkit not found"),
        (NINJA, "a.cpp:3:1: error: 'foo' does not name a type"),
        (VENV, "The virtual environment was not created successfully because ensurepip is not"),
        ("OSError: [Errno 28] No space left on device", "No space left on device"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "Killed signal terminated"),
        ("one\ntwo\n", "two"),
        ("", "it printed nothing"),
    ],
)
def test_first_cause(output: str, cause: str) -> None:
    assert cause in first_cause(output.splitlines())


def test_a_warning_is_no_cause() -> None:
    output = ["WARNING: Location 'x' is ignored: cannot be read", "ERROR: no torch here"]
    assert first_cause(output) == "ERROR: no torch here"
