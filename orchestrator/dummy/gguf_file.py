"""A GGUF file of random blocks: written as it goes, whole or not at all."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUFWriter
from gguf import GGMLQuantizationType as Type

from backends.errors import EngineError
from orchestrator.dummy.blocks import Pool
from orchestrator.dummy.layout import Layout, layout
from orchestrator.dummy.mixture import FILE_TYPES, types
from orchestrator.dummy.place import Role
from orchestrator.inputs.models import LoadedModel

ROOM = 64 << 20
"""Bytes for the metadata and to spare."""


def write_gguf(
    path: Path, model: LoadedModel, role: Role, quantisation: str, report: Callable[[str], None]
) -> None:
    """Raises EngineError where the disk is too small, before anything is written."""
    plan = layout(model, role)
    kinds = types(plan, quantisation)
    sizes = {one.name: _bytes(one.shape, kinds[one.name]) for one in plan.tensors}
    _check_room(path.parent, sum(sizes.values()) + ROOM)
    report(f"writing dummy weights, {sum(sizes.values()) / 1e9:.1f} GB: {path}")
    part = path.with_name(f".{path.name}.part")  # one name, so that a kill leaves one file
    try:
        _write(part, plan, kinds, sizes, _general(path.stem, quantisation))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise EngineError(
            f"dummy weights take {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free.",
            where=str(folder),
            fix="Make room, or set MUSEORCH_HOME to a folder on another disk.",
        )


def _general(name: str, quantisation: str) -> dict[str, Any]:
    return {
        "general.type": "model",
        "general.name": name,
        "general.description": "Random values in the shape of a model, to time it.",
        "general.file_type": FILE_TYPES[quantisation],
        "general.quantization_version": 2,
    }


def _write(
    path: Path,
    plan: Layout,
    kinds: dict[str, Type],
    sizes: dict[str, int],
    general: dict[str, Any],
) -> None:
    writer = GGUFWriter(None, plan.architecture)
    try:
        for key, value in {**general, **plan.keys}.items():
            _add(writer, key, value)
        for one in plan.tensors:
            kind = kinds[one.name]
            writer.add_tensor_info(one.name, one.shape, np.dtype(np.float32), sizes[one.name], kind)
        writer.write_header_to_file(path)
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        assert writer.fout is not None
        out = writer.fout[0]
        writer.write_padding(out, out.tell())
        totals: Counter[Type] = Counter()
        for one in plan.tensors:
            totals[kinds[one.name]] += sizes[one.name]
        pools: dict[Type, Pool] = {
            kind: Pool(kind, total) for kind, total in totals.items() if kind != Type.F32
        }
        for one in plan.tensors:
            if one.fill is not None:
                out.write(np.full(one.shape, one.fill, dtype="<f4").tobytes())
            else:
                pools[kinds[one.name]].pour(out, sizes[one.name])
            writer.write_padding(out, sizes[one.name])
    finally:
        writer.close()


def _bytes(shape: tuple[int, ...], kind: Type) -> int:
    block, size = GGML_QUANT_SIZES[kind]
    return prod(shape) // block * size


def _add(writer: GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)
