"""The signature catalogue against logs: each signature is found, ordinary logs give none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from orchestrator.diagnose import diagnose, first_cause
from orchestrator.diagnose.catalogue import Signature, catalogue

HERE = Path(__file__).parent
EXAMPLES: dict[str, str] = yaml.safe_load((HERE / "diagnose_examples.yaml").read_text("utf-8"))
SIGNATURES = [signature for file in catalogue() for signature in file.signatures]


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "server.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_signature_has_an_example() -> None:
    assert sorted(s.id for s in SIGNATURES) == sorted(EXAMPLES)


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.id)
def test_a_signature_is_found_in_its_example(signature: Signature, tmp_path: Path) -> None:
    log = write(tmp_path, EXAMPLES[signature.id])

    result = diagnose(log)

    assert result.findings[0].signature == signature.id
    if signature.level == "warning":
        assert first_cause(log) in (None, result.first_error)
    else:
        assert result.explained
        assert signature.fix in (first_cause(log) or "")
