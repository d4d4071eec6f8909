"""The errors museorch expects, each carrying what happened, where, and what to do.

MuseorchError            exit status 1: museorch ran, and the answer is no
├── InputError           exit status 2: a recipe, a file, a flag or a name is wrong
├── EngineError          an engine is missing, did not install, did not start, or died
└── PatchError           a patch does not fit the environment it was meant for
"""

from __future__ import annotations


class MuseorchError(Exception):
    """An expected failure. Printed as one short message, never as a traceback."""

    exit_status = 1

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """One line: `where: what. fix`."""
        place = f"{self.where}: " if self.where else ""
        end = "" if self.what.endswith((".", "?", "!")) else "."
        advice = f" {self.fix}" if self.fix else ""
        return f"{place}{self.what}{end}{advice}"


class InputError(MuseorchError):
    exit_status = 2


class EngineError(MuseorchError):
    pass


class PatchError(MuseorchError):
    pass
