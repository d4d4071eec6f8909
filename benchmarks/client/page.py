"""docs/measurements/client.md from the result beside it: `python -m benchmarks.client.page`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

Result = Mapping[str, Any]
DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "measurements"
RESULT = DOCS / "client.json"
PAGE = DOCS / "client.md"
OWN = "museorch"
DASH = "—"
LIMIT_RATE = 10_000
"""Tokens a second up to which museorch's errors are held to their limits."""
MAX_TPOT_ERROR = 0.005
MAX_TTFT_ERROR_MS = 1.0
COST_SHARE = 0.5
"""museorch's CPU of a token against the cheapest peer's, at most."""


def page(result: Result) -> str:
    """The whole page."""
    machine = result["machine"]
    late = max(row["mock_late_p99_ms"] for row in result["matrix"])
    method = f"""\
# What the client costs, and how right it is

Made by `make bench-client`, for which nothing else may run; it took {result["seconds"]} seconds. \
`python -m benchmarks.client.page` writes this page again from [client.json](client.json). \
{result["date"]}, {machine["cpu"]}, {machine["cores"]} cores, Linux \
{machine["kernel"]}, Python {machine["python"]}, load before the run {machine["load_before"]}.

- The server is `benchmarks/client/mock.py`: prepared bytes, every write at a deadline fixed in \
advance. It stamps each write as it makes it, and errors are against these stamps, not against the \
plan; in the matrix, 99 % of the writes of a run were less than {late:.2f} ms late. It has core \
{machine["mock_core"]}; the client with all its processes has core {machine["client_core"]}.
- Every load is tried on one client after the other before the next load. TTFT and TPOT are means \
over the requests of a load, from what each tool wrote to its own results. The truth of a tool's \
TPOT and rate is computed by that tool's formula: llama-benchy leaves the tokens of the first \
chunk out, the others one token.
- CPU of a token: user and system time of all processes of the client, in a run of \
{result["sizes"]["cost_rounds"][1]} requests a stream less one of \
{result["sizes"]["cost_rounds"][0]}, by the difference in tokens; \
{result["sizes"]["ladder_streams"]} streams, {result["sizes"]["cost_tokens"]} tokens a request, \
one token a chunk, {result["sizes"]["stream_chunk_rate"]:g} tokens a second each. Reading and \
keeping the results is part of it, starting up is not.
- `bare sockets` is no tool: sockets read by hand as bytes arrive, without HTTP. It shows what \
that costs before anything is parsed, and that the mock holds its rates.
"""
    parts = [method, tables(result), "## Commands\n", _commands(result)]
    return "\n".join(parts)


def tables(result: Result) -> str:
    """What was found, without the method."""
    parts = ["## Asked and found\n", _asked(result), "## CPU of a token\n", _cost(result)]
    parts += ["## Highest rate with TPOT and output rate within 1 %\n", _ladder(result)]
    for key, title, factor, digits in (
        ("tpot_error", "Error of TPOT, %", 100, 2),
        ("ttft_error_ms", "Error of TTFT, ms", 1, 2),
        ("rate_error", "Error of the output rate, %", 100, 2),
    ):
        parts += [f"## {title}\n", _matrix(result, key, factor, digits)]
    parts += [_unmeasured(result)]
    return "\n".join(parts)


def costs(result: Result, key: str = "us_per_token") -> dict[str, list[float]]:
    """Microseconds a token of each client, one for each repeat that worked."""
    found: dict[str, list[float]] = {}
    for row in result["cost"]:
        if row[key] is not None:
            found.setdefault(row["client"], []).append(row[key])
    return found


def _asked(result: Result) -> str:
    peers = {client["name"] for client in result["clients"] if client["peer"]}
    mean = {name: fmean(values) for name, values in costs(result).items()}
    best = min(((mean[name], name) for name in peers & set(mean)), default=None)
    share = mean[OWN] / best[0] if best is not None and OWN in mean else None
    rows = [row for row in _own_rows(result) if row["truth"] and row["truth"]["rate"] <= LIMIT_RATE]
    told = [row for row in rows if row["reason"] is None]
    whole = len(told) == len(rows) > 0
    tpot = max((abs(row["tpot_error"]) for row in told), default=None) if whole else None
    ttft = max((abs(row["ttft_error_ms"]) for row in told), default=None) if whole else None
    lost = sum(row["lost_tokens"] for row in told) if whole else None
    against = f" ({best[1]})" if best is not None else ""
    return _table(
        ("asked", "found", "holds"),
        [
            (
                f"CPU of a token at most {COST_SHARE:g} of the cheapest peer's{against}",
                _number(share, 2),
                _holds(share, COST_SHARE),
            ),
            (
                f"largest TPOT error up to {LIMIT_RATE:,} tokens/s below {MAX_TPOT_ERROR:.1%}",
                DASH if tpot is None else f"{tpot:.2%}",
                _holds(tpot, MAX_TPOT_ERROR),
            ),
            (
                f"largest TTFT error up to {LIMIT_RATE:,} tokens/s below {MAX_TTFT_ERROR_MS:g} ms",
                DASH if ttft is None else f"{ttft:.2f} ms",
                _holds(ttft, MAX_TTFT_ERROR_MS),
            ),
            ("no token lost or counted twice", _number(lost, 0), _holds(lost, 0)),
        ],
    )


def _own_rows(result: Result) -> list[Mapping[str, Any]]:
    climbs = [row for climb in result["ladder"] for row in climb["rungs"]]
    return [row for row in [*result["matrix"], *climbs] if row["client"] == OWN]


def _cost(result: Result) -> str:
    found, user = costs(result), costs(result, "user_us_per_token")
    rows = []
    for client in result["clients"]:
        name = client["name"]
        starts = [
            row["small"]["cpu_s"] - row["us_per_token"] * row["small"]["tokens"] / 1e6
            for row in result["cost"]
            if row["client"] == name and row["us_per_token"] is not None
        ]
        single = ", ".join(f"{value:.1f}" for value in found.get(name, [])) or DASH
        means = (_mean(found.get(name)), _mean(user.get(name)), _mean(starts))
        rows.append((name, client["version"], *(_number(mean, 1) for mean in means), single))
    head = ("client", "version", "µs a token", "of it user", "start-up, CPU s", "single runs, µs")
    return _table(head, rows)


def _ladder(result: Result) -> str:
    rows = []
    for climb in result["ladder"]:
        reasons = [row["reason"] for row in climb["rungs"] if row["reason"]]
        top = climb["rungs"][-1]["truth"]
        every = top is not None and climb["highest_rate"] == top["rate"]
        note = reasons[0] if reasons else "every rate that was tried" if every else ""
        rows.append((climb["client"], _number(climb["highest_rate"], 0), note))
    return _table(("client", "tokens/s", ""), rows)


def _matrix(result: Result, key: str, factor: float, digits: int) -> str:
    names = list(dict.fromkeys(row["client"] for row in result["matrix"]))
    cells: dict[tuple[int, int], dict[str, str]] = {}
    for row in result["matrix"]:
        value = None if row["reason"] else factor * row[key]
        place = (row["streams"], row["per_chunk"])
        cells.setdefault(place, {})[row["client"]] = _number(value, digits)
    return _table(
        ("streams", "tokens a chunk", *names),
        [
            (str(streams), str(per_chunk), *(cell[name] for name in names))
            for (streams, per_chunk), cell in cells.items()
        ],
    )


def _unmeasured(result: Result) -> str:
    """Why there is no number: tools that could not be had, and runs that told nothing."""
    reasons = [f"- {name}: {reason}" for name, reason in result["missing"].items()]
    seen = {
        f"- {row['client']}, {row['streams']} streams: {row['reason']}"
        for row in result["matrix"]
        if row["reason"]
    }
    seen |= {f"- {row['client']}, cost: {row['reason']}" for row in result["cost"] if row["reason"]}
    lines = [*reasons, *sorted(seen)]
    return "## Not measured\n\n" + "\n".join(lines) + "\n" if lines else ""


def _commands(result: Result) -> str:
    lines = [f"{name}:\n{command}" for name, command in result["commands"].items()]
    return "```text\n" + "\n\n".join(lines) + "\n```\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _mean(values: Sequence[float] | None) -> float | None:
    return fmean(values) if values else None


def _number(value: float | None, digits: int) -> str:
    return DASH if value is None else f"{value:,.{digits}f}"


def _holds(value: float | None, limit: float) -> str:
    return DASH if value is None else "yes" if value <= limit else "no"


def main() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    PAGE.write_text(page(result), encoding="utf-8")


if __name__ == "__main__":
    main()
