"""Conversion: bf16 first, then each quantisation; every file checked before it gets its name."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backends.errors import EngineError, InputError
from backends.llamacpp.convert import BUFFER_MIB, QUANTISATIONS, converter, quantiser
from orchestrator.convert import manifest, step
from orchestrator.convert.checkpoints import Checkpoint
from orchestrator.convert.tools import Tools
from orchestrator.environments.engine_build import stoppable
from orchestrator.gguf.verify import verify
from orchestrator.measuring.environment import museorch_version

BASE = "BF16"
SPARE_BYTES = 1 << 30
"""Left free on the disk."""
METADATA_BYTES = 32 << 20
"""A GGUF's header with its vocabulary, at most."""
WRITABLE = "Name a folder with --out that can be written and has room."
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}

Watch = Callable[[str, int, int], None]
"""Told: what is made, bytes so far, bytes expected."""


@dataclass(frozen=True)
class Made:
    path: Path
    manifest: dict[str, Any]
    kept: bool
    """It was there already, from the same source and settings."""


def quantisations(words: str) -> tuple[str, ...]:
    """`q4_k_m,Q8_0` to the quantiser's names, without repeats. Raises InputError."""
    found = []
    for word in words.split(","):
        name = word.strip().upper()
        if name not in QUANTISATIONS:
            raise InputError(
                f'there is no quantisation "{word.strip()}".',
                where="--quant",
                fix=f"Known: {', '.join(QUANTISATIONS)}.",
            )
        found.append(name)
    return tuple(dict.fromkeys(found))


def convert(
    found: Sequence[Checkpoint],
    wanted: Sequence[str],
    out: Path,
    tools: Tools,
    *,
    threads: int,
    watch: Watch,
) -> Iterator[Made]:
    """Each file as soon as it is there. A bf16 file that nobody ever asked for goes at the end.

    Raises InputError for a folder that cannot take the files, EngineError where a program fails or
    a file is not what its source says.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with _alone(out), stoppable():
            for left in out.glob(".*.part"):
                left.unlink()
            jobs = [
                _Job(item, tuple(wanted), out, tools, threads, manifest.origin(item, tools.version))
                for item in found
            ]
            kept = {job.checkpoint.name: job.kept() for job in jobs}
            _check_disk(out, sum(job.needed_bytes(kept[job.checkpoint.name]) for job in jobs))
            for job in jobs:
                yield from job.run(kept[job.checkpoint.name], watch)
    except OSError as error:
        where = Path(error.filename) if error.filename else out
        fix = WRITABLE if where.is_relative_to(out) else None
        raise InputError(f"{error.strerror}.", where=str(where), fix=fix) from None


@dataclass(frozen=True)
class _Job:
    checkpoint: Checkpoint
    wanted: tuple[str, ...]
    out: Path
    tools: Tools
    threads: int
    origin: manifest.Origin

    def path(self, quantisation: str) -> Path:
        return self.out / f"{self.checkpoint.name}-{quantisation}.gguf"

    def made_as(self, quantisation: str) -> dict[str, Any]:
        settings: dict[str, Any] = {"outtype": "bf16"}
        if quantisation != BASE:
            settings |= {"buffer_mib": BUFFER_MIB, "imatrix": None}
        return self.origin.made_as(quantisation, settings)

    def kept(self) -> dict[str, dict[str, Any]]:
        """Finished files by quantisation. Raises InputError where another's file is in the way."""
        found = {}
        for quantisation in dict.fromkeys((BASE, *self.wanted)):
            path = self.path(quantisation)
            if path.exists() and not manifest.path_of(path).exists():
                raise InputError(
                    "is there, and museorch did not make it: it has no manifest.",
                    where=str(path),
                    fix="Move it away, or name another folder with --out.",
                )
            if done := manifest.finished(path, self.made_as(quantisation)):
                found[quantisation] = done
        return found

    def missing(self, kept: dict[str, dict[str, Any]]) -> tuple[str, ...]:
        left = [name for name in self.wanted if name not in kept and name != BASE]
        base = BASE not in kept and (bool(left) or BASE in self.wanted)
        return (*((BASE,) if base else ()), *left)

    def needed_bytes(self, kept: dict[str, dict[str, Any]]) -> int:
        return sum(self.expected_bytes(name) for name in self.missing(kept))

    def expected_bytes(self, quantisation: str) -> int:
        """At most."""
        bits = QUANTISATIONS[quantisation]
        return int(self.checkpoint.text_bytes * bits / 16) + METADATA_BYTES

    def run(self, kept: dict[str, dict[str, Any]], watch: Watch) -> Iterator[Made]:
        todo = self.missing(kept)
        sources = self._source_hashes(watch) if todo else {}
        for quantisation in dict.fromkeys((BASE, *self.wanted)):
            path = self.path(quantisation)
            if quantisation in todo:
                made = Made(path, self._make(quantisation, sources, watch), kept=False)
            elif quantisation in kept:
                made = Made(path, kept[quantisation], kept=True)
            else:
                continue
            if quantisation in self.wanted:
                yield made
        if BASE in self.wanted:
            manifest.keep(self.path(BASE))
        elif (manifest.read(self.path(BASE)) or {}).get("intermediate"):
            self.path(BASE).unlink(missing_ok=True)
            manifest.path_of(self.path(BASE)).unlink()

    def _make(self, quantisation: str, sources: dict[str, str], watch: Watch) -> dict[str, Any]:
        checkpoint, path = self.checkpoint, self.path(quantisation)
        part = path.with_name(f".{path.name}.part")
        log = path.with_name(f"{path.name}.log")
        if quantisation == BASE:
            argv = converter(
                self.tools.python, self.tools.source, checkpoint.folder, part, checkpoint.target
            )
        else:
            binary = self.tools.quantiser
            argv = quantiser(binary, self.path(BASE), part, quantisation, self.threads)
        expected = self.expected_bytes(quantisation) - METADATA_BYTES
        log.unlink(missing_ok=True)
        try:
            done = step.run(
                argv,
                title=path.name,
                out=part,
                log=log,
                env=OFFLINE,
                on_bytes=lambda size: watch(path.name, size, expected),
            )
            self._check(part, path.name)
            made = manifest.finish(
                part,
                path,
                {
                    "intermediate": quantisation not in self.wanted,
                    "origin": self.made_as(quantisation),
                    "source_files": sources,
                    "made": {
                        "by": f"museorch {museorch_version()}",
                        "at": datetime.now(UTC).isoformat(timespec="seconds"),
                        "argv": list(argv),
                        "seconds": round(done.seconds, 2),
                        "peak_rss_bytes": done.peak_rss_bytes,
                    },
                },
            )
        except (KeyboardInterrupt, SystemExit):
            log.unlink(missing_ok=True)  # it stays only where it says why something failed
            raise
        finally:
            part.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        return made

    def _check(self, part: Path, name: str) -> None:
        checkpoint = self.checkpoint
        found = verify(part, source=checkpoint.folder, target=checkpoint.target)
        if errors := [finding for finding in found if finding.level == "error"]:
            raise EngineError(
                f"what was made is not what its source says: {errors[0].text}",
                where=name,
                fix=errors[0].fix,
            )

    def _source_hashes(self, watch: Watch) -> dict[str, str]:
        files = sorted(self.checkpoint.folder.glob("*.safetensors"))
        total, read, hashes = sum(file.stat().st_size for file in files), 0, {}
        for file in files:
            watch(f"hashing {self.checkpoint.name}", read, total)
            hashes[file.name] = manifest.sha256(file)
            read += file.stat().st_size
        return hashes


def _check_disk(out: Path, needed: int) -> None:
    free = shutil.disk_usage(out).free
    if needed and free < needed + SPARE_BYTES:
        raise InputError(
            f"what is to be made takes up to {needed / 1e9:.1f} GB, bf16 files in between "
            f"included; {free / 1e9:.1f} GB are free, of which museorch leaves 1.",
            where=str(out),
            fix="Free some space, or name a folder on another disk with --out.",
        )


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    with (out / ".convert.lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another `museorch convert` writes here.",
                where=str(out),
                fix="Wait for it, or name another folder with --out.",
            ) from None
        yield
