"""The signature catalogue against logs: each signature is found, ordinary logs give none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from orchestrator.diagnose import diagnose, first_cause
from orchestrator.diagnose.catalogue import Signature, catalogue
from orchestrator.diagnose.page import page
from orchestrator.diagnose.patterns import PatternSet, find

HERE = Path(__file__).parent
LOGS = HERE / "logs"
"""Logs of real engines on the tiny model, shortened, their paths made neutral."""
EXAMPLES: dict[str, str] = yaml.safe_load((HERE / "diagnose_examples.yaml").read_text("utf-8"))
SIGNATURES = [signature for file in catalogue() for signature in file.signatures]

REAL = {
    "llamacpp-missing": "llamacpp-file-missing",
    "llamacpp-drafter-missing": "llamacpp-drafter-missing",
    "llamacpp-flag-equals": "llamacpp-flag-equals",
    "llamacpp-bad-value": "llamacpp-flag-value",
    "llamacpp-bad-spec-type": "llamacpp-spec-type-unknown",
    "llamacpp-truncated": "llamacpp-file-truncated",
    "llamacpp-truncated-header": "llamacpp-file-truncated",
    "llamacpp-not-gguf": "llamacpp-not-gguf",
    "llamacpp-port": "llamacpp-port-in-use",
    "llamacpp-drafter-as-target": "llamacpp-drafter-as-target",
    "llamacpp-vocabulary-only": "llamacpp-tensor-mismatch",
    "llamacpp-last-layer": "llamacpp-target-layer-missing",
    "vllm-dflash-unpatched": "vllm-target-without-model",
    "vllm-dspark-v1": "vllm-speculation-needs-v2",
    "vllm-truncated": "safetensors-damaged",
    "vllm-lfs-pointer": "safetensors-lfs-pointer",
    "vllm-model-type": "vllm-architecture-unsupported",
    "vllm-context": "vllm-context-beyond-model",
    "vllm-bad-method": "vllm-method-not-for-drafter",
    "vllm-missing": "model-path-missing",
    "vllm-offline": "hub-offline",
    "vllm-port": "port-in-use",
    "vllm-tensor-parallel": "vllm-tensor-parallel-heads",
    "vllm-quantisation": "vllm-quantisation-unsupported",
    "vllm-torchvision": "torchvision-mismatch",
    "vllm-no-tokenizer": "tokenizer-missing",
    "vllm-stopped-early": "vllm-ended-from-outside",
    "vllm-bad-flag": "flag-unknown",
    "vllm-bad-json": "flag-value",
    "sglang-bad-algorithm": "sglang-speculation-unknown",
    "sglang-missing": "model-path-missing",
    "sglang-cpu": "sglang-speculation-device",
    "sglang-truncated": "safetensors-damaged",
    "sglang-bad-flag": "flag-unknown",
}


def write(folder: Path, text: str) -> Path:
    path = folder / "server.log"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_signature_has_one_name_and_an_example() -> None:
    assert sorted(s.id for s in SIGNATURES) == sorted(EXAMPLES)


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.id)
def test_a_signature_is_found_in_its_example(signature: Signature, tmp_path: Path) -> None:
    log = write(tmp_path, EXAMPLES[signature.id])

    result = diagnose(log)

    assert result.findings[0].signature == signature.id
    assert result.explained
    if signature.level == "warning" and result.first_error is None:
        assert first_cause(log) is None
    else:
        assert signature.fix in (first_cause(log) or "")


@pytest.mark.parametrize(("name", "signature"), REAL.items(), ids=REAL)
def test_a_real_failure_is_explained(name: str, signature: str) -> None:
    result = diagnose(LOGS / f"{name}.log")

    assert result.findings[0].signature == signature
    assert result.explained
    assert result.engine in (None, name.split("-")[0])


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llamacpp"])
def test_an_ordinary_log_gives_no_finding(engine: str) -> None:
    log = LOGS / f"ordinary-{engine}.log"
    assert log.read_text("utf-8").count("\n") >= 200

    result = diagnose(log)

    assert result.engine == engine
    assert result.findings == ()
    assert result.first_error is None
    assert first_cause(log) is None


def test_an_unknown_failure_shows_the_first_error_and_no_handled_one() -> None:
    """The log has a caught traceback above the fatal one."""
    result = diagnose(LOGS / "sglang-unknown.log")

    assert not result.explained
    assert result.findings == ()
    error = "TypeError: unsupported operand type(s) for *: 'NoneType' and 'float'"
    assert result.summary == result.first_error == error


def test_the_version_in_the_log_decides_whether_a_signature_applies(tmp_path: Path) -> None:
    example = EXAMPLES["vllm-drafter-alias-missing"]

    found = diagnose(write(tmp_path, example.replace("v0.27.1", "v0.30.0")))

    assert found.engine_version == "0.30.0"
    assert [f.signature for f in found.findings] == ["vllm-architecture-unsupported"]


def test_several_causes_are_ranked_causes_first(tmp_path: Path) -> None:
    names = ("vllm-acceptance-collapsed", "vllm-core-killed", "ptrace-forbidden")

    found = diagnose(write(tmp_path, "".join(EXAMPLES[name] for name in names))).findings

    assert [f.level for f in found] == ["error", "consequence", "consequence", "warning"]
    assert found[0].signature == "ptrace-forbidden"
    assert found[0].line == 8


def test_a_few_low_acceptances_among_good_ones_are_no_finding(tmp_path: Path) -> None:
    line = "0.13.345.048 I slot print_timing: id 1 | task 0 | draft acceptance = {}\n"
    rates = ["0.01"] * 3 + ["0.4"] * 4

    result = diagnose(write(tmp_path, "".join(line.format(rate) for rate in rates)))

    assert result.findings == ()


@pytest.mark.parametrize(
    ("pattern", "line", "value"),
    [
        ("two * three", "one two and three", 1.0),
        ("two * three", "three two one", None),
        ("len: {n}", "accept len: 1.25, rate", 1.25),
        ("len: {n}", "accept len: many", None),
        ("set to {n} now", "set to -6144 now", -6144.0),
        ("^start", "a start", None),
        ("^start", "starting", 1.0),
        ("UPPER", "upper", 1.0),
    ],
)
def test_patterns(pattern: str, line: str, value: float | None) -> None:
    assert find(pattern, line) == value
    assert PatternSet(["other words", pattern]).fits(line) == (value is not None)


def test_a_signature_that_cannot_work_is_refused() -> None:
    good = SIGNATURES[0].model_dump()

    with pytest.raises(ValidationError, match="version range"):
        Signature.model_validate(good | {"versions": "before 0.28"})
    with pytest.raises(ValidationError, match="fits almost any line"):
        Signature.model_validate(good | {"patterns": ["* a {n} *"]})


def test_the_page_is_current() -> None:
    """Renew it with `python -m orchestrator.diagnose.page > docs/diagnose.md`."""
    assert (HERE.parents[2] / "docs" / "diagnose.md").read_text("utf-8") == page()
