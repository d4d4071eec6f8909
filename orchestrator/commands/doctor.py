"""doctor: one page on this machine."""

from __future__ import annotations

from typing import Any

import typer


def doctor(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Show GPUs, engines, patches, models, what can be served, and what to do next.

    Exit status 1 where nothing can be served.
    """
    import json

    from orchestrator.doctor import examine

    data = examine()
    if as_json:
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        print("\n".join(_page(data)))
    if not any(run["ok"] for run in data["can_run"]):
        raise typer.Exit(1)


def _page(data: dict[str, Any]) -> list[str]:
    return [
        f"museorch {data['museorch']}",
        *_machine(data["machine"], data["gpu"]),
        *_engines(data["engines"], data["unusable_engines"]),
        *_models(data["models"]),
        *_servers(data["servers"]),
        *_runs(data["can_run"]),
        "",
        f"next: {data['next']}",
    ]


def _machine(machine: dict[str, Any], gpu: dict[str, Any]) -> list[str]:
    lines = [
        f"  {machine['platform']}, Python {machine['python']}",
        f"  CPU    {machine['cpu']}, {machine['cpu_threads']} threads",
        f"  RAM    {_gib(machine['ram_free_bytes'])} free of {_gib(machine['ram_bytes'])}",
        f"  disk   {_gib(machine['cache_disk_free_bytes'])} free at {machine['cache']}",
        f"  hub    {machine['hub_cache']}",
    ]
    for card in gpu["cards"]:
        lines.append(
            f"  GPU {card['index']:<2} {card['name']}, {card['memory.total']} MiB, "
            f"driver {card['driver_version']}"
        )
    if gpu["cards"]:
        first = f" on GPU {gpu['cards'][0]['index']}" if len(gpu["cards"]) > 1 else ""
        lines.append(f"  CUDA   {gpu['cuda'] or 'not told'}, {_gib(gpu['free_bytes'])} free{first}")
    else:
        lines.append(f"  GPU    none: {gpu['reason']}")
    return lines


def _engines(found: list[dict[str, Any]], unusable: dict[str, str]) -> list[str]:
    lines = ["", "engines"]
    for engine in found:
        whose = "museorch's" if engine["owned"] else "yours"
        name = engine["name"] or engine["executable"]
        lines.append(
            f"  {name}: {engine['backend']} {engine['version']} ({engine['device']}), {whose}"
        )
        patches = engine["patches"]
        if isinstance(patches, str):
            lines.append(f"    {patches}")
        elif patches:
            lines += [f"    {state}: {', '.join(ids)}" for state, ids in sorted(patches.items())]
    lines += [f"  {name}: cannot be used: {why}" for name, why in unusable.items()]
    return lines if len(lines) > 2 else [*lines, "  none"]


def _models(models: list[dict[str, Any]]) -> list[str]:
    lines = ["", "models"]
    for model in models:
        lines.append(f"  {model['name']}")
        for one in model["artefacts"]:
            what = f"{one['part']} {one['format']} {one['quantisation']}"
            lines.append(f"    {what:<20} {'here' if one['here'] else one['fetch'] or 'missing'}")
    return lines


def _servers(servers: list[dict[str, Any]]) -> list[str]:
    if not servers:
        return []
    return ["", "servers", *(f"  {one['name']}: {one['state']}" for one in servers)]


def _runs(runs: list[dict[str, Any]]) -> list[str]:
    lines = ["", "can be served here"]
    for run in runs:
        what = f"{run['model']} {run['backend']} {run['speculation']}"
        lines.append(f"  {what:<34} {'yes' if run['ok'] else 'no: ' + run['reason']}")
    return lines


def _gib(size: int | None) -> str:
    return "not told" if size is None else f"{size / (1 << 30):.1f} GiB"
