"""What is picked for which machine. A script stands in for nvidia-smi; no GPU is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import EngineError, InputError
from orchestrator.up.choice import Choice, Options
from orchestrator.up.choose import choose
from orchestrator.up.memory import GIB, budget, space
from orchestrator.up.start import _port, _requests
from tests.orchestrator import nvidia
from tests.orchestrator.up.servers import write_serving


@pytest.fixture(autouse=True)
def nothing_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("MUSEORCH_HOME", str(tmp_path / "cache"))


def card(folder: Path, monkeypatch: pytest.MonkeyPatch, free: int, total: int) -> None:
    """A GPU with this much memory in MiB, as nvidia-smi tells it."""
    nvidia.put(folder / "tools", monkeypatch, otherwise=f"echo '{free}, {total}'")


def chosen(**options: object) -> Choice:
    values = {"model": "muse-glimmer-30b", "device": "cuda", **options}
    return choose(Options(**values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gib", "backend", "quantisation"),
    [(24, "llamacpp", "q4_k_m"), (32, "llamacpp", "q4_k_m"), (80, "vllm", "bf16")],
)
def test_what_fits_the_card(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gib: int,
    backend: str,
    quantisation: str,
) -> None:
    card(tmp_path, monkeypatch, gib * 1024 - 500, gib * 1024)
    choice = chosen()
    assert (choice.arm.backend, choice.arm.target.quantisation) == (backend, quantisation)
    assert choice.arm.speculation == "dflash"
    assert choice.budget.fits


def test_where_nothing_fits_the_least_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(tmp_path, monkeypatch, 8_000, 8_192)
    choice = chosen()
    assert (choice.arm.backend, choice.arm.target.quantisation) == ("llamacpp", "q4_k_m")
    assert "needs 19.5 GiB" in str(choice.problem())


def test_what_was_asked_for_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(tmp_path, monkeypatch, 24_000, 24_576)
    problem = chosen(backend="vllm").problem()
    assert isinstance(problem, EngineError)
    assert "weights 55.1, drafter 4.8" in problem.message
    assert "23.4 GiB are free" in problem.message


def test_vllm_is_given_a_share_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(tmp_path, monkeypatch, 70_000, 81_920)
    argv = chosen(backend="vllm").planned.plan.argv
    assert argv[argv.index("--gpu-memory-utilization") + 1] == "0.83"


def test_what_is_missing_is_known_and_the_engine_comes_before_60_gb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(tmp_path, monkeypatch, 81_000, 81_920)
    choice = chosen(backend="vllm")
    wanted = [one.name for one in choice.missing()]
    assert wanted == ["meta-models/Muse-Glimmer-30B", "meta-models/Muse-Glimmer-30B-assistant"]
    assert "museorch engines install vllm" in str(choice.problem())
    assert not choice.fetchable()


def test_a_card_that_cannot_be_read_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    choice = chosen(backend="vllm")
    assert choice.budget.space is None
    assert choice.budget.fits


def test_a_card_without_memory_of_its_own_has_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia.put(tmp_path / "tools", monkeypatch, otherwise="echo '[N/A], [N/A]'")
    here, ram = space("cuda"), space("cpu")
    assert here is not None
    assert ram is not None
    assert (here.name, here.total) == (ram.name, ram.total)


def test_the_kv_cache_of_the_published_target() -> None:
    """A token is 2 x 2 heads x 128 x 2 bytes a layer; a sliding layer keeps 2048 and a batch."""
    choice = chosen(backend="llamacpp", speculation="none", slots=2, context_length=8192)
    (kv,) = [part for part in choice.budget.parts if part.name == "KV cache"]
    assert kv.size == 2 * 1024 * (13 * 8192 + 39 * 2560)


def test_the_size_of_files_is_read_from_disk() -> None:
    choice = choose(Options(model="tiny-muse", device="cpu", backend="llamacpp"))
    sizes = {part.name: part.size for part in choice.budget.parts}
    arm = choice.arm
    assert arm.drafter is not None
    assert sizes["weights"] == Path(arm.target.path).stat().st_size
    assert sizes["drafter"] == Path(arm.drafter.weights.path).stat().st_size
    needs = budget("vllm", choice.planned.spec, choice.model.model, space("cpu"))
    assert needs.needed - choice.budget.needed == 2 * GIB, "vLLM's margin is larger"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quant": "q9"}, "--quant: muse-glimmer-30b has no"),
        ({"model": "muse"}, 'unknown model "muse"'),
        ({"arm": "x"}, "--arm: an arm is part of a recipe"),
        ({"backend": "llamacpp", "speculation": "dspark"}, "--speculation: no dspark drafter"),
        ({"draft_tokens": 99}, "--draft-tokens: K 99 is above the 15 drafts"),
        ({"recipe": "", "model": None, "device": None}, "is a folder, not a file"),
        ({"context_length": 10**6}, "above the 131072"),
    ],
)
def test_what_there_is_not(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as error:
        chosen(**options)
    assert words in error.value.message


def test_a_recipes_arm_is_chosen_by_flags() -> None:
    recipe = "muse-glimmer-30b/bf16"
    choice = choose(Options(recipe=recipe, backend="sglang", speculation="dspark", slots=3))
    assert choice.arm.id == "sglang-dspark"
    assert choice.planned.spec.slots == 3
    assert choice.planned.spec.purpose == "serve"
    with pytest.raises(InputError, match="is --arm vllm-base --draft-tokens 7"):
        choose(Options(recipe=recipe, arm="vllm-base", draft_tokens=7))


def test_a_recipes_drafted_arm_comes_before_its_plain_one() -> None:
    recipe = "muse-glimmer-30b/bf16"
    assert choose(Options(recipe=recipe)).arm.id == "vllm-dflash"
    assert choose(Options(recipe=recipe, speculation="none")).arm.id == "vllm-base"
    with pytest.raises(InputError, match="--device: the recipe is for cuda"):
        choose(Options(recipe=recipe, device="cpu"))


def test_an_arm_with_simulated_acceptance_is_passed_over() -> None:
    recipe = "muse-glimmer-30b/h200-iso-acceptance"
    assert choose(Options(recipe=recipe)).arm.id == "vllm-base"
    with pytest.raises(InputError, match="acceptance is simulated"):
        choose(Options(recipe=recipe, speculation="dflash"))


@pytest.mark.parametrize("port", [None, 8000])
def test_a_host_of_another_machine(port: int | None) -> None:
    with pytest.raises(InputError, match=r"192\.0\.2\.1"):
        _port("192.0.2.1", port, ())


def test_a_context_too_small_for_the_first_requests_names_its_flag(tmp_path: Path) -> None:
    options = Options(model="tiny-muse", device="cpu", backend="llamacpp", context_length=64)
    with pytest.raises(InputError, match=r"--context-length: prompt .* does not fit"):
        _requests(choose(options), options)
    recipe = str(write_serving(tmp_path, serve={"context_length": 40}))
    options = Options(recipe=recipe)
    first, *_ = _requests(choose(options), options)
    assert first.max_tokens == 12, "no more than the recipe asks for"
