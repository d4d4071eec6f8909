"""A Dockerfile that patches an image, with the same rules and no museorch in the image."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib.resources import files
from typing import Literal

from backends import BACKENDS
from backends.base import PORT, Drafter, LaunchPlan, ServeSpec, Weights
from backends.patch import Patch
from orchestrator.environments.engines import default_version

_PORT = "8000"
_MARK = "MUSEORCH"
_MEASURING = "--per-request-spec-decode-metrics"

_TARGET = "meta-models/Muse-Glimmer-30B"
_LAYERS = (1, 13, 25, 37, 49)


def _drafter(family: Literal["dflash", "dspark"]) -> Drafter:
    """The published drafters, by their configs."""
    if family == "dflash":
        name, most, anchor = "meta-models/Muse-Glimmer-30B-assistant", 15, None
    else:
        name, most, anchor = "abstract-extraordinary/Muse-Glimmer-30B-DSpark", 16, False
    return Drafter(family, Weights(name, "hf", "bf16", name), 16, most, _LAYERS, anchor)


def launch(
    engine: str,
    version: str | None,
    family: Literal["dflash", "dspark"],
    *,
    slots: int,
    context: int,
) -> LaunchPlan:
    """How the published model is served with a drafter in a container on one or more GPUs."""
    drafter = _drafter(family)
    spec = ServeSpec(
        executable="python3",
        engine_version=version or default_version(engine, "cuda"),
        device="cuda",
        target=Weights(_TARGET, "hf", "bf16", _TARGET),
        drafter=drafter,
        draft_tokens=drafter.max_draft_tokens,
        context_length=context,
        slots=slots,
        host="0.0.0.0",  # inside the container; publish the port on 127.0.0.1
    )
    return BACKENDS[engine].plan(spec)


def dockerfile(base: str, engine: str, patches: Iterable[Patch], plan: LaunchPlan) -> str:
    """The Dockerfile's text. Its build stops where a patch does not fit `base`."""
    chosen = list(patches)
    data = [
        {
            "id": patch.id,
            "edits": [asdict(edit) for edit in patch.edits],
            "precondition": [asdict(evidence) for evidence in patch.precondition],
            "fixed_by": [asdict(evidence) for evidence in patch.fixed_by],
        }
        for patch in chosen
    ]
    script = files("orchestrator.patching").joinpath("image_script.py").read_text(encoding="utf-8")
    # JSON made of lists, objects and strings is Python as well.
    script = script.replace("PATCHES: list = []", f"PATCHES = {json.dumps(data, indent=1)}")
    script = script.replace('ENGINE = ""', f"ENGINE = {json.dumps(engine)}")
    argv = [_PORT if word == PORT else word for word in plan.argv]
    if _MEASURING in argv:
        # Only museorch's own client reads it, and vLLM has it from 0.29 on.
        place = argv.index(_MEASURING)
        del argv[place : place + 2]
    lines = [
        "# syntax=docker/dockerfile:1",
        "# Written by `museorch patch dockerfile`. Build it with BuildKit, then run it with",
        f"#   docker run --gpus all --ipc=host -p 127.0.0.1:{_PORT}:{_PORT} IMAGE",
        "# The build applies each patch whose fault the base image has, and stops where one does",
        "# not fit:",
        *(f"#   {patch.id}: {patch.title} ({patch.upstream})" for patch in chosen),
        *(f"# {finding.level}: {finding.text}" for finding in plan.findings),
        f"FROM {base}",
        f"RUN python3 - <<'{_MARK}'",
        script.rstrip("\n"),
        _MARK,
        *(f"ENV {name}={json.dumps(value)}" for name, value in plan.env.items()),
        f"EXPOSE {_PORT}",
        f"ENTRYPOINT {json.dumps(argv)}",
        "CMD []",
    ]
    return "\n".join(lines) + "\n"


def script_of(text: str) -> str:
    """The Python script inside a Dockerfile made here."""
    return text.split(f"<<'{_MARK}'\n", 1)[1].split(f"\n{_MARK}\n", 1)[0] + "\n"
