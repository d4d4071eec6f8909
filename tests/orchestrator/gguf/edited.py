"""Copies of the bundled GGUF files with something changed, written by the gguf package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from numpy.typing import NDArray

from orchestrator.inputs.models import RECIPES

TINY = RECIPES / "tiny-muse" / "model"
TARGET = TINY / "gguf" / "target-bf16.gguf"
DFLASH = TINY / "gguf" / "dflash-bf16.gguf"
DSPARK = TINY / "gguf" / "dspark-bf16.gguf"

Change = Callable[[NDArray[Any]], NDArray[Any]]


def edited(
    source: Path,
    out: Path,
    *,
    values: Mapping[str, Any] | None = None,
    architecture: str | None = None,
    without: Collection[str] = (),
    tensors: Mapping[str, Change] | None = None,
) -> Path:
    """`values` by key, without keys of other types; `tensors` change what is stored."""
    reader = GGUFReader(source)
    before = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(out, architecture or before)
    changes = dict(values or {})
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = changes.pop(key, field.contents())
        kinds = field.types
        inner = kinds[-1] if kinds[0] == GGUFValueType.ARRAY else None
        name = key.replace(f"{before}.", f"{architecture}.", 1) if architecture else key
        writer.add_key_value(name, value, kinds[0], sub_type=inner)
    assert not changes, changes
    for tensor in reader.tensors:
        if tensor.name in without:
            continue
        stored = np.array(tensor.data)
        if tensors and tensor.name in tensors:
            stored = tensors[tensor.name](stored)
        writer.add_tensor(tensor.name, stored, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out
