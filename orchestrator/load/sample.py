"""What one request brought back, and the file it is kept in.

A Sample holds facts only: when bytes arrived, which tokens they held, what the server said.
Everything derived from them is computed later, so a new metric needs no new run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import json

from backends.base import RequestSpeculation
from backends.errors import InputError

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True)
class Sample:
    """One request. Times are monotonic nanoseconds of the client's machine."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    request_id: str
    """Unique in a run and the same when the run is resumed."""
    prompt_id: str
    arm: str
    mode: str
    concurrency: int
    repeat: int
    seed: int
    prompt_tokens: int
    """As sent."""
    t_send_ns: int
    chunks: tuple[tuple[int, tuple[int, ...]], ...]
    """(arrival, token ids) of every event that held tokens."""
    t_end_ns: int
    """When the stream ended or broke."""
    finish: str | None
    """The server's word for why it stopped."""
    server: RequestSpeculation | None
    server_prompt_tokens: int | None
    server_completion_tokens: int | None
    error: str | None

    @cached_property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(chain.from_iterable(ids for _, ids in self.chunks))

    @property
    def t_first_ns(self) -> int | None:
        """Arrival of the first token, None without one."""
        return self.chunks[0][0] if self.chunks else None

    @property
    def t_last_ns(self) -> int | None:
        """Arrival of the last token, None without one."""
        return self.chunks[-1][0] if self.chunks else None

    def to_json(self) -> str:
        """One line, without the newline."""
        return json.encode({name: getattr(self, name) for name in _names()}).decode()

    @classmethod
    def from_json(cls, line: str | bytes) -> Sample:
        """Raises ValueError naming the fields that are wrong."""
        from pydantic import ValidationError

        try:
            return _adapter().validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None


@cache
def _names() -> tuple[str, ...]:
    return tuple(field.name for field in fields(Sample))


@cache
def _adapter() -> TypeAdapter[Sample]:
    from pydantic import TypeAdapter

    return TypeAdapter(Sample)


def append(path: Path, sample: Sample) -> None:
    """Add one line to `path`, in one write; a torn line left by a kill is removed first."""
    with path.open("a+b") as file:
        size = file.tell()
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                os.truncate(path, _whole_size(path, size))
        file.write(sample.to_json().encode() + b"\n")


def read(path: Path, notice: Callable[[str], None] | None = None) -> list[Sample]:
    """All samples in `path`.

    A last line without its newline was cut off by a kill: it is left out, and `notice` (stderr by
    default) is told. Any other line that is not a sample is an InputError with file and line.
    """
    data = path.read_bytes()
    whole, _, torn = data.rpartition(b"\n")
    if torn:
        tell = notice if notice is not None else _to_stderr
        tell(f"{path}: the last line was cut off and is left out")
    samples = []
    for number, line in enumerate(whole.split(b"\n") if whole else [], start=1):
        try:
            samples.append(Sample.from_json(line))
        except ValueError as error:
            raise InputError(f"not a sample: {error}", where=f"{path}:{number}") from None
    return samples


def paired(a: Sequence[Sample], b: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """Samples of the same prompt and seed, in prompt order."""
    right = {(sample.prompt_id, sample.seed): sample for sample in b}
    keys = ((sample, (sample.prompt_id, sample.seed)) for sample in a)
    return [(sample, right[key]) for sample, key in keys if key in right]


def _whole_size(path: Path, size: int) -> int:
    """Bytes of `path` up to and including its last newline."""
    with path.open("rb") as file:
        end = size
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)
