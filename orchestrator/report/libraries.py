"""Vega, Vega-Lite and Vega-Embed as one script, out of vl-convert-python."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from backends.errors import MuseorchError
from orchestrator.environments.engines import cache_root

PACKAGE = "vl-convert-python"


def plot_libraries() -> str:
    """Putting the script together takes two seconds, so it is kept in museorch's cache."""
    path = _kept()
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        pass
    script = _bundle()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(script, encoding="utf-8")
        os.replace(part, path)
    except OSError:
        pass  # a cache that cannot be written costs two seconds, no more
    return script


def _kept() -> Path:
    try:
        return cache_root() / "plots" / f"vega-{version(PACKAGE)}.js"
    except PackageNotFoundError as error:
        raise _missing(str(error)) from None


def _bundle() -> str:
    try:
        import vl_convert
    except ImportError as error:
        raise _missing(str(error)) from None
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # What would end or comment out the script element that it stands in.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _missing(why: str) -> MuseorchError:
    return MuseorchError(
        f"the page needs {PACKAGE}, which cannot be loaded: {why}.",
        fix="Install it, or use --format md.",
    )
