"""Servers, as a person reads them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from orchestrator.planning.plan import plan_text
from orchestrator.up.choice import Choice
from orchestrator.up.live import Live
from orchestrator.up.memory import GIB, Budget
from orchestrator.up.start import Up
from orchestrator.up.state import State

UNKNOWN = "—"
BAR = 20


def memory_text(budget: Budget) -> str:
    """The table: each part, their sum, and what is free."""
    rows = [(part.name, amount(part.size), part.why) for part in budget.parts]
    rows.append(("needed", amount(budget.needed), ""))
    space = budget.space
    if space is None:
        rows.append(("free", UNKNOWN, "not told: see nvidia-smi and CUDA_VISIBLE_DEVICES"))
    else:
        verdict = "fits" if budget.fits else "does not fit"
        rows.append(
            ("free", amount(space.free), f"of {amount(space.total)}, {space.name}: {verdict}")
        )
    return "\n".join(f"  {name:<9} {size:>10}  {why}".rstrip() for name, size, why in rows)


def dry_text(choice: Choice) -> str:
    return f"{plan_text(choice.planned)}\nmemory\n{memory_text(choice.budget)}"


def up_text(up: Up) -> str:
    """Where it is, how to ask it, and what is in force."""
    state = up.state
    key = ' -H "Authorization: Bearer $MUSEORCH_API_KEY"' if state.needs_key else ""
    body = json.dumps({"model": state.model, "messages": [{"role": "user", "content": "Hello"}]})
    curl = curl_to(f"{state.url}/v1/chat/completions")
    curl += f"{key} -H 'Content-Type: application/json' "
    lines = [
        f"{state.name} is up",
        f"  endpoint     {state.url}/v1",
        f"  model        {state.model}",
        f"  try          {curl}-d {shlex.quote(body)}",
        f"  engine       {state.backend} {state.engine_version} ({state.device}), "
        f"{state.quantisation} weights",
        f"  speculation  {_speculation(up)}",
        f"  context      {_context(up)}",
        f"  prefix cache on; reasoning and tool calls apart; host {state.host}, "
        f"API key {'needed' if state.needs_key else 'none'}",
    ]
    if up.patches:
        lines.append(f"  patches      {', '.join(up.patches)}")
    lines.append(f"  log          {state.log}")
    if state.detached:
        lines.append(f"  end it with  museorch down {state.name}")
    else:
        lines.append("  end it with  Ctrl-C")
    return "\n".join(lines)


def curl_to(url: str) -> str:
    """curl and the address, for a shell, past a proxy that would be asked for it."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    proxied = "http" in getproxies() and not proxy_bypass(urlsplit(url).netloc)
    past = "--noproxy '*' " if proxied else ""
    return f"curl {past}{shlex.quote(url)}"


def _speculation(up: Up) -> str:
    record = up.record
    if record is None:
        return "none"
    told = f"{up.state.speculation}, K {up.state.draft_tokens}: acceptance length "
    told += f"{1 + record.accepted / record.steps:.2f} over {record.steps} steps"
    if record.per_position:
        told += f", first draft accepted {record.per_position[0] / record.steps:.0%}"
    return told


def _context(up: Up) -> str:
    asked, has = up.state.context_length, up.slot_context
    text = f"{asked if has is None else has} tokens a request, {up.state.slots} at a time"
    return text if has is None or has >= asked else f"{text} (asked for {asked})"


def ps_text(states: Sequence[State]) -> str:
    if not states:
        return "No server is up. Start one: museorch up"
    rows = [("NAME", "STATE", "URL", "ENGINE", "SPECULATION", "STARTED")]
    for state in states:
        k = f" K {state.draft_tokens}" if state.draft_tokens is not None else ""
        rows.append(
            (
                state.name,
                state.standing,
                f"{state.url}/v1",
                f"{state.backend} {state.engine_version}",
                f"{state.speculation}{k}",
                state.started,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def status_text(state: State, live: Live) -> str:
    lines = [f"{state.name}: {live.standing}, {state.url}/v1"]
    if live.reason is not None:
        return f"{lines[0]}\n  {live.reason}"
    lines += [
        f"  output       {_number(live.output_tok_s, 1)} tok/s now, "
        f"{_number(live.generated_tokens, 0)} tokens since start",
        f"  requests     {_number(live.running, 0)} running, {_number(live.waiting, 0)} waiting",
    ]
    if state.speculation != "none":
        now = live.recent_acceptance_length
        recent = f", {now:.2f} now" if now is not None else ""
        length = _number(live.acceptance_length, 2)
        lines.append(f"  acceptance   {length} tokens a step since start{recent}")
        lines += bars(live)
    return "\n".join(lines)


def bars(live: Live) -> list[str]:
    """Marginal acceptance by position; the end of a row of zeros is left out."""
    rates = live.marginal_acceptance
    if rates is None:
        return []
    last = max((i for i, rate in enumerate(rates) if rate > 0), default=0)
    return [
        f"    {position:>2} {rate:>4.0%} {'█' * round(rate * BAR)}"
        for position, rate in enumerate(rates[: last + 1])
    ]


def amount(size: int | None) -> str:
    """Of bytes, for a person."""
    if size is None:
        return UNKNOWN
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / (1 << 20):.1f} MiB"


def _number(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"
