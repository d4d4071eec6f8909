"""The plots and tables of docs/how-to-read.md, from a measured run and the published claims.

python -m tools.how_to_read RUN    keep what the page needs of a run of docs/how-to-read/recipe.yaml
python -m tools.how_to_read        draw the plots and fill in the tables from what was kept
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.errors import InputError
from orchestrator.published.claims import load_claims, named
from orchestrator.published.explain import explain
from orchestrator.report import words
from orchestrator.report.palette import LIGHT, config
from orchestrator.result.build import build
from orchestrator.rundir import RunDirectory

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "how-to-read.md"
FOLDER = DOCS / "how-to-read"
KEPT = FOLDER / "measured.json"
CLAIM = "seed-dspark-agents-bf16"
PAIR = ("seed-meta-llamacpp", "seed-vllm-dflash")
PART = re.compile(r"(<!-- made: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
DRAFTERS = list(words.DRAFTERS.values())
Rows = list[dict[str, Any]]
Spec = dict[str, Any]


def keep(result: Mapping[str, Any]) -> dict[str, Any]:
    """Of every arm and mode what the plots show."""
    rows = []
    for arm in result["arms"]:
        for mode in arm["modes"]:
            told = mode["speculation"]
            if mode["problems"]:
                raise InputError(f"{arm['id']}: {mode['problems'][0]}", fix="Run it again.")
            if told is None:
                continue
            metrics = mode["metrics"]
            rows.append(
                {
                    "drafter": words.DRAFTERS[arm["speculation"]],
                    "draft_tokens": arm["draft_tokens"],
                    "mode": mode["mode"],
                    "acceptance_length": metrics["acceptance_length"]["value"],
                    "acceptance_length_interval": told["acceptance_length_interval"],
                    "utilisation": metrics["draft_utilisation"]["value"],
                    "marginal": told["marginal_acceptance"],
                    "marginal_interval": told["marginal_interval"],
                }
            )
    return {
        "setting": words.setting(result),
        "engines": sorted({f"{a['backend']} {a['engine_version']}" for a in result["arms"]}),
        "rows": rows,
    }


def plots(kept: Mapping[str, Any]) -> dict[str, Spec]:
    """File name to Vega-Lite specification."""
    return {
        "positions": beside(_published("marginal"), _published("conditional")),
        "length-by-k": _length_by_k(kept),
        "gain-by-k": beside(*(_gain(drafter) for drafter in words.DRAFTERS)),
        "temperature": beside(*(_temperature(kept, drafter) for drafter in DRAFTERS)),
    }


def tables(kept: Mapping[str, Any]) -> dict[str, str]:
    """Name of a part of the page to its text."""
    return {
        "setting": f"{kept['setting']}; {', '.join(kept['engines'])}.\n",
        "positions": _positions(),
        "gain": _gain_table(),
        "by-k": _k_table(kept),
        "temperature": _temperature_table(kept),
        "claims": _claims(),
    }


def fill(page: str, parts: Mapping[str, str]) -> str:
    """The page with every marked part replaced."""
    return PART.sub(lambda found: f"{found[1]}{parts[found[2]]}{found[3]}", page)


def _published(kind: str) -> Spec:
    rows = [
        {"drafter": words.DRAFTERS[name], "position": position, "share": share}
        for name, shares in _acceptance().items()
        for position, share in enumerate(shares if kind == "marginal" else _conditional(shares))
    ]
    title = {
        "marginal": "Marginal: of all steps",
        "conditional": "Conditional: where all before were accepted",
    }[kind]
    return _lines(rows, "position", "share", "draft position", "accepted", title) | {"width": 330}


def _acceptance() -> dict[str, list[float]]:
    claim = named(load_claims(), CLAIM).claim
    return {str(name): shares for name, shares in claim.acceptance.items()}


def _conditional(shares: list[float]) -> list[float]:
    return [share / before for share, before in zip(shares, [1.0, *shares], strict=False)]


def _length_by_k(kept: Mapping[str, Any]) -> Spec:
    rows = []
    for row in _greedy(kept):
        low, high = row["acceptance_length_interval"] or (None, None)
        at = row["draft_tokens"] + (0.12 if row["drafter"] == DRAFTERS[0] else -0.12)
        rows.append(
            {
                "drafter": row["drafter"],
                "k": at,  # a little apart, so that both intervals are seen
                "tau": row["acceptance_length"],
                "low": low,
                "high": high,
            }
        )
    spec = _lines(rows, "k", "tau", "K", "acceptance length, tokens a step", "")
    bars = {
        "mark": {"type": "rule", "strokeWidth": 1.5},
        "encoding": {
            "x": spec["layer"][0]["encoding"]["x"],
            "y": {"field": "low", "type": "quantitative"},
            "y2": {"field": "high"},
            "color": spec["layer"][0]["encoding"]["color"],
        },
    }
    spec["layer"].insert(0, bars)
    return spec | {"width": 420, "height": 240}


COSTS = {0.01: "1 % of a plain step", 0.05: "5 %", 0.2: "20 %"}
"""What a further draft adds to a step: on hardware that waits for memory little, on a CPU much."""


def _gain(drafter: str) -> Spec:
    """Speed over plain by the formula of the page, for published acceptance and three costs."""
    shares = _acceptance()[drafter]
    rows = [
        {"drafter": label, "k": k, "value": (1 + sum(shares[:k])) / (1 + cost * k)}
        for cost, label in COSTS.items()
        for k in range(len(shares) + 1)
    ]
    title = words.DRAFTERS[drafter]
    names = list(COSTS.values())
    spec = _lines(rows, "k", "value", "K (0: no drafter)", "speed over plain", title, names)
    return spec | {"width": 330}


def _temperature(kept: Mapping[str, Any], drafter: str) -> Spec:
    most = _most(kept, drafter)
    rows = [
        {"drafter": _mode_name(row["mode"]), "position": position, "share": share}
        for row in kept["rows"]
        if (row["drafter"], row["draft_tokens"]) == (drafter, most)
        for position, share in enumerate(row["marginal"])
    ]
    title = f"{drafter}, K {most}"
    spec = _lines(rows, "position", "share", "draft position", "accepted", title, SAMPLED)
    return spec | {"width": 330}


SAMPLED = ["greedy (T 0)", "T 1, top-p 0.95, top-k 64"]


def _mode_name(mode: str) -> str:
    return SAMPLED[0] if mode == "greedy" else SAMPLED[1]


def _lines(
    rows: Rows, x: str, y: str, x_title: str, y_title: str, title: str, names: list[str] = DRAFTERS
) -> Spec:
    shares = y == "share"
    color = {
        "field": "drafter",
        "type": "nominal",
        "scale": {"domain": names, "range": list(LIGHT.arms[1:4])},
    }
    encoding = {
        "x": {
            "field": x,
            "type": "quantitative",
            "axis": {"title": x_title, "format": "d", "tickMinStep": 1, "grid": False},
        },
        "y": {
            "field": y,
            "type": "quantitative",
            "scale": {"domain": [0, 1]} if shares else {"zero": True},
            "axis": {"title": y_title, "format": ".0%" if shares else ",~f", "tickCount": 5},
        },
        "color": color,
    }
    shape = {
        "field": "drafter",
        "type": "nominal",
        "scale": {"domain": names, "range": ["square", "triangle-up", "diamond"]},
    }
    spec: Spec = {
        "data": {"values": rows},
        "height": 220,
        "layer": [
            {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": encoding},
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {**encoding, "shape": shape},
            },
        ],
    }
    return spec | ({"title": title} if title else {})


def beside(*specs: Spec) -> Spec:
    return {"hconcat": list(specs), "spacing": 40}


def _greedy(kept: Mapping[str, Any]) -> Rows:
    return sorted(
        (row for row in kept["rows"] if row["mode"] == "greedy"),
        key=lambda row: row["draft_tokens"],
    )


def _most(kept: Mapping[str, Any], drafter: str) -> int:
    return max(int(row["draft_tokens"]) for row in kept["rows"] if row["drafter"] == drafter)


def _table(head: list[str], rows: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *rows))


def _positions() -> str:
    found = _acceptance()
    head = ["position", *(f"{words.DRAFTERS[name]}, {kind}" for kind in KINDS for name in found)]
    columns = [
        shares if kind == "marginal" else _conditional(shares)
        for kind in KINDS
        for shares in found.values()
    ]
    rows = [
        [str(position), *(f"{100 * share:.0f} %" for share in shares)]
        for position, shares in enumerate(zip(*columns, strict=True))
    ]
    sums = {words.DRAFTERS[name]: 1 + sum(shares) for name, shares in found.items()}
    told = ", ".join(f"{name} {value:.2f}" for name, value in sums.items())
    return f"{_table(head, rows)}\nOne plus the sum of a marginal column: {told} tokens a step.\n"


KINDS = ("marginal", "conditional")


def _k_table(kept: Mapping[str, Any]) -> str:
    rows = []
    for row in _greedy(kept):
        span = row["acceptance_length_interval"]
        rows.append(
            [
                row["drafter"],
                str(row["draft_tokens"]),
                f"{row['acceptance_length']:.2f}",
                f"{span[0]:.2f} to {span[1]:.2f}" if span else words.UNKNOWN,
                f"{100 * row['marginal'][0]:.0f} %",
                f"{100 * row['utilisation']:.0f} %",
            ]
        )
    head = ["drafter", "K", "acceptance length", "95 %", "position 0", "draft utilisation"]
    return _table(head, sorted(rows, key=lambda row: (row[0], int(row[1]))))


def _temperature_table(kept: Mapping[str, Any]) -> str:
    rows = []
    for drafter in DRAFTERS:
        most = _most(kept, drafter)
        by_mode = {
            row["mode"]: row
            for row in kept["rows"]
            if (row["drafter"], row["draft_tokens"]) == (drafter, most)
        }
        for mode, row in by_mode.items():
            shares = [f"{100 * share:.0f} %" for share in row["marginal"][:4]]
            rows.append([drafter, _mode_name(mode), f"{row['acceptance_length']:.2f}", *shares])
    head = ["drafter", "sampling", "acceptance length", *(f"position {n}" for n in range(4))]
    return _table(head, rows)


def _gain_table() -> str:
    """For each drafter and cost the K that is fastest."""
    rows = []
    for drafter, shares in _acceptance().items():
        for cost, label in COSTS.items():
            gains = [(1 + sum(shares[:k])) / (1 + cost * k) for k in range(len(shares) + 1)]
            best = max(range(len(gains)), key=gains.__getitem__)
            rows.append([words.DRAFTERS[drafter], label, str(best), f"{gains[best]:.2f}x"])
    return _table(["drafter", "a draft costs", "best K", "speed over plain there"], rows)


def _claims() -> str:
    claims = load_claims()
    found = explain(named(claims, PAIR[0]), named(claims, PAIR[1]))
    head = ["condition", *(claims[name].claim.title for name in PAIR)]
    rows = [
        [pair.field.replace("_", " "), pair.a or "not published", pair.b or "not published"]
        for pair in (*found.differs, *found.unknown, *found.shared)
    ]
    return _table(head, rows).replace("---:", "---")


def main(args: list[str]) -> None:
    if args:
        kept = keep(build(RunDirectory.open(Path(args[0]))))
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    import vl_convert

    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    look = {**config(LIGHT), "background": LIGHT.background, "padding": 12}
    for name, spec in plots(kept).items():
        svg = vl_convert.vegalite_to_svg(json.dumps(spec), config=look)
        (FOLDER / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill(page, tables(kept)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
