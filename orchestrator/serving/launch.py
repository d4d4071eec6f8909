"""What an engine is launched with besides its plan: a port, an environment, a log."""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from backends.base import PORT
from backends.errors import InputError

DEFAULT_HOST = "127.0.0.1"

# Whole words of a variable's name. A value that is a URL with a password counts too.
SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_KEY|PRIVATE_KEY)(_|$)", re.I
)
SECRET_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]+@")
OWN_ENVIRONMENT = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"})


def environment(
    inherited: Mapping[str, str], added: Mapping[str, str], executable: str
) -> dict[str, str]:
    """Without secrets and museorch's own Python settings, the engine's own tools first in PATH."""
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in OWN_ENVIRONMENT
        and not SECRET_NAME.search(name)
        and not SECRET_VALUE.search(value)
    }
    own_tools = os.path.dirname(executable)
    search = kept.get("PATH", os.defpath)
    kept["PATH"] = f"{own_tools}{os.pathsep}{search}" if own_tools else search
    return {**kept, "PYTHONUNBUFFERED": "1", **added}


def argv(words: tuple[str, ...], port: int, overlay_paths: Mapping[str, str]) -> list[str]:
    """`words` with the port and the overlays' paths in their places."""

    def filled(word: str) -> str:
        for placeholder, path in overlay_paths.items():
            word = word.replace(placeholder, path)
        return word.replace(PORT, str(port))

    return [filled(word) for word in words]


def host(words: tuple[str, ...]) -> str:
    """The address after `--host`."""
    at = words.index("--host") + 1 if "--host" in words else len(words)
    return words[at] if at < len(words) else DEFAULT_HOST


def url(host: str, port: int) -> str:
    """Where to reach a server bound to `host`, which may stand for every address."""
    host = {"0.0.0.0": DEFAULT_HOST, "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def usable_port(host: str, port: int | None) -> int:
    """`port`, or a free one for None. InputError when it cannot be bound."""
    if port is not None and not 0 < port < 65536:  # getaddrinfo would take it modulo 65536
        raise InputError(f"port {port} is not between 1 and 65535")
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port or 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, proto) as probe:
            # As the engines' servers do: a port whose last connections are fading out is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            bound: int = probe.getsockname()[1]
            return bound
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        why = "is in use" if in_use else f"cannot be used: {error}"
        named = f"port {port}" if port is not None else "a free port"
        raise InputError(f"{named} {why}", where=host, fix="Choose another one.") from None


def reserved_port(host: str, port: int | None) -> tuple[int, socket.socket]:
    """`port`, or a free one for None, and what keeps it from every other museorch until closed.

    For the time until the engine binds it. The name is abstract: such names are unique where ports
    are, in a network namespace, over all users and caches, and end with the process. Linux only;
    elsewhere nothing is kept. InputError when the port cannot be bound or another keeps it.
    """
    port = usable_port(host, port)
    kept = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        if sys.platform == "linux":
            kept.bind(f"\0museorch-port-{port}")
        # Once more: who kept it until now may have bound it.
        return usable_port(host, port), kept
    except OSError:
        kept.close()
        what = f"port {port} is in use"
        raise InputError(what, where=host, fix="Choose another one.") from None
    except InputError:
        kept.close()
        raise


def fresh_log(folder: Path) -> Path:
    """An empty `server.log` in `folder`; an earlier one is kept as `server.1.log` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder.resolve() / "server.log"
    if log.exists():
        number = 1
        while (older := log.with_name(f"server.{number}.log")).exists():
            number += 1
        log.rename(older)
    log.touch()
    return log
