"""The tables of a report, as plain cells; the page and Markdown each write them their own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.certify import CONDITIONS
from orchestrator.report import words
from orchestrator.report.charts import MOST_PAIRS, VALUES, accepted, drafted, paired
from orchestrator.report.facts import Phase, RunFacts, median, quantile, thin


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None = None
    """The number behind the text, unrounded."""
    why: str | None = None
    """Why there is no number, or the text in full."""
    mark: str = ""
    """A class for the page: a verdict, or `differs`."""


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str | None = None

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Of each column, whether it holds numbers."""
        return tuple(
            any(cell.value is not None for cell in column)
            for column in zip(*self.rows, strict=True)
        )


def num(value: float | None, decimals: int, why: str | None = None) -> Cell:
    return Cell(words.number(value, decimals), value, why)


def times(value: float | None) -> Cell:
    return Cell(words.UNKNOWN if value is None else words.ratio(value), value)


def arms(result: Mapping[str, Any], phase: Phase) -> Table:
    """Every metric of every arm; an arm without this phase says why."""
    columns = ["arm", "K"]
    found = [(arm, mode_of(arm, phase)) for arm in result["arms"]]
    units = {
        name: metric["unit"]
        for _, mode in found
        if mode is not None
        for name, metric in mode["metrics"].items()
    }
    shown = [entry for entry in words.METRICS if entry[0] in units]
    columns += [f"{label} ({units[name]})" for name, label, _ in shown]
    rows = []
    for arm, mode in found:
        row = [Cell(arm["id"]), num(arm["draft_tokens"], 0, "no drafter")]
        for name, _, decimals in shown:
            if mode is None:
                row.append(Cell(arm["status"], None, arm["reason"]))
                continue
            metric = mode["metrics"][name]
            row.append(num(metric["value"], decimals, metric.get("reason")))
        rows.append(tuple(row))
    return Table("Arms", tuple(columns), tuple(rows))


def pairs(result: Mapping[str, Any], phase: Phase) -> Table:
    names = words.arm_names(result)
    rows = []
    for row in words.in_order(result, phase):
        low, high = row["interval"] if row["interval"] else (None, None)
        factors = row["factors"]
        rows.append(
            (
                Cell(f"{names[row['a']]} / {names[row['b']]}"),
                Cell(row["verdict"], mark=row["verdict"].split()[0]),
                times(row["ratio"]),
                times(low),
                times(high),
                times(factors.get("tau")),
                times(factors.get("step_time")),
                times(factors.get("remainder")),
                num(row["pairs"], 0),
                Cell(
                    "matched" if row["certificate"]["matched"] else words.differing(row),
                    why=row["reason"],
                ),
            )
        )
    columns = (
        "pair",
        "verdict",
        "ratio",
        "95 % from",
        "to",
        "tau factor",
        "step-time factor",
        "remainder",
        "prompts",
        "conditions",
    )
    note = (
        "ratio = tau factor x step-time factor x remainder. The tau factor is the drafter's "
        "quality, the step-time factor what a step costs. Intervals are a bootstrap over prompts."
    )
    return Table("Pairs", columns, tuple(rows), note)


def drafters(result: Mapping[str, Any], phase: Phase) -> Table:
    """Acceptance length and what it is made of, one row a drafter."""
    rows = []
    for arm, record in drafted(result, phase):
        steps, accepted = record["steps"], record["accepted"]
        span = record["acceptance_length_interval"]
        why = None if span else "the engine reports no steps per request, or there are too few"
        rows.append(
            (
                Cell(arm),
                num(1 + accepted / steps if steps else None, 2),
                num(span[0] if span else None, 2, why),
                num(span[1] if span else None, 2, why),
                num(steps, 0),
                num(record["drafted"], 0),
                num(accepted, 0),
                Cell(record["source"]),
            )
        )
    columns = (
        "arm",
        "acceptance length",
        "95 % from",
        "to",
        "steps",
        "drafted",
        "accepted",
        "counted by",
    )
    return Table("Drafters", columns, tuple(rows))


def machine(result: Mapping[str, Any], phase: Phase) -> Table:
    """What was seen of the machine while each arm was measured; GPU columns only with a GPU."""
    seen = [
        (arm["id"], mode["observed"])
        for arm in result["arms"]
        if (mode := mode_of(arm, phase)) is not None and mode["observed"] is not None
    ]
    with_gpu = any("power_w" in observed["gpu"] for _, observed in seen)
    columns = ["arm", "threads kept busy by others", "load average before", "after"]
    if with_gpu:
        columns += ["GPU power (W)", "SM clock, median (MHz)", "lowest", "clocks lowered by"]
    rows = []
    for arm, observed in seen:
        load, gpu = observed["load"], observed["gpu"]
        row = [
            Cell(arm),
            num(load["foreign_threads"], 2, "the phase was shorter than a second"),
            num(load["average_before"], 2),
            num(load["average_after"], 2),
        ]
        if with_gpu:
            clock = gpu.get("sm_mhz", {})
            row += [
                num(gpu.get("power_w"), 1, gpu.get("reason")),
                num(clock.get("median"), 0),
                num(clock.get("min"), 0),
                Cell(words.show(gpu.get("slowdowns"))),
            ]
        rows.append(tuple(row))
    return Table("The machine meanwhile", tuple(columns), tuple(rows))


def acceptance(result: Mapping[str, Any], phase: Phase) -> Table:
    rows = []
    unit = ""
    for arm, record in drafted(result, phase):
        unit = record["interval_unit"]
        for position, count in enumerate(record["per_position"]):
            cells = [Cell(arm), num(position, 0), num(count, 0)]
            for kind in ("marginal", "conditional"):
                shares, spans = record[f"{kind}_acceptance"], record[f"{kind}_interval"]
                share = shares[position] if shares else None
                span = spans[position] if spans else None
                cells.append(Cell(words.percent(share), share))
                cells.append(
                    Cell(f"{100 * span[0]:.1f} to {100 * span[1]:.1f} %" if span else words.UNKNOWN)
                )
            rows.append(tuple(cells))
    columns = ("arm", "position", "accepted", "marginal", "95 %", "conditional", "95 %")
    return Table("Acceptance by position", columns, tuple(rows), acceptance_note(unit))


def acceptance_note(unit: str) -> str:
    note = "Intervals are Wilson's, 95 %"
    if unit == "requests":
        return f"{note}, widened by how much requests differ."
    return (
        f"{note}, with steps taken as independent; those of one prompt are not, so they are narrow."
    )


def prompts(facts: RunFacts, phase: Phase, name: str) -> Table:
    """One value of every prompt, arms side by side."""
    turns = facts.of(phase)
    title, unit = VALUES[name]
    by_prompt: dict[tuple[str, int], dict[str, float | None]] = {}
    for turn in turns:
        for point in turn.points:
            by_prompt.setdefault((point.prompt, point.seed), {})[turn.arm] = getattr(point, name)
    rows = [
        (Cell(prompt), *(num(values.get(turn.arm), 2) for turn in turns))
        for (prompt, _), values in thin(list(by_prompt.items()), facts.most_rows)
    ]
    columns = ("prompt", *(turn.arm for turn in turns))
    return Table(f"{title}, {unit}", columns, tuple(rows), _cut(len(by_prompt), facts.most_rows))


def spreads(facts: RunFacts, phase: Phase) -> Table:
    """Quantiles over prompts, of all of them."""
    rows = []
    for name, (_, unit) in VALUES.items():
        for turn in facts.of(phase):
            values = turn.values(name)
            if values:
                cells = [num(quantile(values, share), 2) for share in (0.05, 0.25, 0.5, 0.75, 0.95)]
                rows.append(
                    (Cell(turn.arm), Cell(LABELS[name]), Cell(unit), num(len(values), 0), *cells)
                )
    columns = ("arm", "value", "unit", "prompts", "5 %", "25 %", "median", "75 %", "95 %")
    return Table("Spread over prompts", columns, tuple(rows))


LABELS = {"tok_s": "decode rate", "ttft_ms": "TTFT", "tpot_ms": "TPOT"}


def prompt_pairs(facts: RunFacts, phase: Phase) -> Table:
    """Per prompt, the ratio of decode rates of every accepted pair."""
    names = words.arm_names(facts.result)
    turns = {turn.arm: turn for turn in facts.of(phase)}
    columns = ["prompt"]
    by_prompt: dict[str, dict[str, float]] = {}
    for row in accepted(facts.result, phase)[:MOST_PAIRS]:
        column = f"{names[row['a']]} / {names[row['b']]}"
        columns.append(column)
        for prompt, a, b in paired(turns[row["a"]], turns[row["b"]]):
            by_prompt.setdefault(prompt, {})[column] = a / b
    rows = [
        (Cell(prompt), *(times(values.get(column)) for column in columns[1:]))
        for prompt, values in thin(list(by_prompt.items()), facts.most_rows)
    ]
    return Table(
        "Ratio of decode rates, prompt by prompt",
        tuple(columns),
        tuple(rows),
        _cut(len(by_prompt), facts.most_rows),
    )


def timeline(facts: RunFacts, phase: Phase) -> Table:
    turns = [turn for repeat in (1, 2) for turn in facts.of(phase, repeat)]
    rows = [
        (
            Cell(turn.arm),
            Cell("again, for drift" if turn.repeat > 1 else "measured"),
            num(turn.points[0].minutes, 2),
            num(turn.points[-1].minutes, 2),
            num(len(turn.points), 0),
            num(sum(point.error for point in turn.points), 0),
            num(median(turn.values("tok_s")), 1),
        )
        for turn in sorted(turns, key=lambda turn: turn.points[0].minutes)
    ]
    columns = ("arm", "turn", "from minute", "to minute", "requests", "failed", "median tok/s")
    return Table("Turns, in the order they ran", columns, tuple(rows))


def certificate(result: Mapping[str, Any], phase: Phase) -> Table:
    """Every condition of every arm; a row where arms differ is marked."""
    measured = [(arm, mode) for arm in result["arms"] if (mode := mode_of(arm, phase)) is not None]
    rows = []
    for name, meaning in CONDITIONS.items():
        values = [mode["conditions"].get(name) for _, mode in measured]
        differs = any(value != values[0] for value in values)
        head = Cell(name.replace("_", " "), why=meaning, mark="differs" if differs else "")
        rows.append((head, *(_condition(value) for value in values)))
    columns = ("condition", *(arm["id"] for arm, _ in measured))
    return Table("Conditions", columns, tuple(rows))


def audit(result: Mapping[str, Any]) -> Table:
    rows = []
    for row in result["audit"]["greedy"]:
        places = [f"{d['prompt']} at token {d['position']}" for d in row["divergences"]]
        text = "; ".join(places[:3]) + (f"; {len(places) - 3} more" if len(places) > 3 else "")
        rate = row["tokens_per_pass"]
        rows.append(
            (
                Cell(f"{row['a']} / {row['b']}"),
                num(row["concurrency"], 0),
                num(row["prompts"], 0),
                num(row["identical"], 0),
                Cell(text or "nowhere", why="; ".join(places[:50]) or None),
                num(rate["a"] if rate else None, 3),
                num(rate["b"] if rate else None, 3),
            )
        )
    columns = (
        "pair",
        "at a time",
        "prompts",
        "identical",
        "first difference",
        "tokens a pass, first",
        "tokens a pass, second",
    )
    note = (
        "Plain output against itself is the engine's own floor: verification runs other batch "
        "shapes, and near-ties can fall either way. Tokens a pass: on identical outputs only."
    )
    return Table("Greedy outputs, token for token", columns, tuple(rows), note)


def patches(result: Mapping[str, Any]) -> Table:
    rows: dict[tuple[str, str], tuple[Cell, ...]] = {}
    for arm in result["arms"]:
        for patch in arm["patches"]:
            for file in patch["files"]:
                before, after = str(file.get("before")), str(file.get("after"))
                rows[patch["id"], str(file.get("path"))] = (
                    Cell(f"{words.ENGINES[arm['backend']]} {arm['engine_version']}"),
                    Cell(patch["id"]),
                    Cell(patch["title"]),
                    Cell(str(file.get("path"))),
                    Cell(before[:12], why=before),
                    Cell(after[:12], why=after),
                )
    columns = ("engine", "patch", "what it does", "file", "sha256 before", "after")
    return Table("Patches", columns, tuple(rows.values()))


def environment(facts: RunFacts) -> Table:
    """Machine and versions; what is unknown is left out."""
    machine = facts.environment
    cpu, harness = machine.get("cpu") or {}, machine.get("museorch") or {}
    git, load = harness.get("git"), machine.get("load_average")
    memory = machine.get("memory_bytes")
    found: list[tuple[str, Any]] = [
        ("hardware of the arms", facts.result["hardware"]),
        ("CPU", cpu.get("model")),
        ("CPU threads, usable", cpu.get("usable")),
        ("memory", f"{memory / 2**30:.1f} GiB" if memory else None),
        ("load average at the start", ", ".join(f"{x:.2f}" for x in load) if load else None),
    ]
    for index, gpu in enumerate(machine.get("gpus") or []):
        found.append((f"GPU {index}", ", ".join(f"{key} {value}" for key, value in gpu.items())))
    found += [
        ("platform", machine.get("platform")),
        ("Python", machine.get("python")),
        ("museorch", harness.get("version")),
        (
            "museorch commit",
            f"{git['commit']}{', with local changes' if git['dirty'] else ''}" if git else None,
        ),
    ]
    engines = {(arm["backend"], arm["engine_version"]) for arm in facts.result["arms"]}
    found += [(words.ENGINES[backend], version) for backend, version in sorted(engines)]
    rows = tuple((Cell(name), Cell(str(value))) for name, value in found if value is not None)
    return Table("Environment", ("what", "found"), rows)


def claims(result: Mapping[str, Any]) -> Table:
    """Published claims about the model that ran; none about other models."""
    from orchestrator.claim_check import check
    from orchestrator.claims import load_claims

    rows = []
    for name, published in load_claims().items():
        found = check(published, result)
        if found is None or not any(c.field == "model" for c in found.of("shared")):
            continue
        measured = "; ".join(
            f"{one.what}: claimed {one.claimed:g}, here {one.measured:.4g}" for one in found.against
        )
        rows.append(
            (
                Cell(name),
                Cell(published.claim.headline()),
                Cell("comparable" if found.comparable else "not comparable"),
                Cell(", ".join(c.field for c in found.of("differs")) or "nothing"),
                Cell(", ".join(c.field for c in found.of("unknown")) or "nothing"),
                Cell(measured or words.UNKNOWN),
            )
        )
    columns = ("claim", "published", "this run", "differs in", "not known", "side by side")
    note = "Numbers stand side by side only where every condition that matters is the same."
    return Table("Published claims", columns, tuple(rows), note)


def drift(result: Mapping[str, Any]) -> Sequence[str]:
    return [words.drift_sentence(row) for row in result["drift"]]


def mode_of(arm: Mapping[str, Any], phase: Phase) -> Mapping[str, Any] | None:
    return next((m for m in arm["modes"] if (m["mode"], m["concurrency"]) == phase), None)


def _condition(value: Any) -> Cell:
    text, full = words.show(value), words.show(value, whole=True)
    return Cell(text, why=full if full != text else None)


def _cut(count: int, most: int) -> str | None:
    if count <= most:
        return None
    return f"{most} of {count} prompts, evenly spread; `--format csv` writes all of them."
