"""Simulated acceptance in each engine's words."""

from __future__ import annotations

import json

import pytest

from backends import BACKENDS
from backends.base import Device, LaunchPlan
from backends.errors import InputError
from backends.simulate import Simulated, fitted


def plan(backend: str, k: int | None = 3) -> LaunchPlan:
    config = json.dumps({"method": "dflash", "num_speculative_tokens": k})
    return LaunchPlan(
        backend=backend,
        argv=("engine", "--speculative-config", config, "--last"),
        env={"A": "1"},
        health_path="/health",
        start_timeout_s=1.0,
        draft_tokens=k,
    )


def simulate(plan: LaunchPlan, simulated: Simulated, device: Device) -> LaunchPlan:
    backend = BACKENDS[plan.backend]
    told = fitted(simulated, plan.draft_tokens, rates=backend.takes_rates)
    return backend.simulate(plan, told, device)


def test_vllm_takes_it_in_its_speculative_config() -> None:
    argv = simulate(plan("vllm"), Simulated(rates=(0.8, 0.5, 0.2)), "cuda").argv
    assert argv[::3] == ("engine", "--last")
    assert json.loads(argv[2]) == {
        "method": "dflash",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": [0.8, 0.5, 0.2],
    }
    config = json.loads(simulate(plan("vllm"), Simulated(length=2.5), "cuda").argv[2])
    assert config["synthetic_acceptance_length"] == 2.5


def test_llamacpp_takes_it_as_arguments() -> None:
    assert simulate(plan("llamacpp"), Simulated(rates=(0.8, 0.5, 0.2)), "cuda").argv[-2:] == (
        "--spec-synth-rates",
        "0.8,0.5,0.2",
    )
    assert simulate(plan("llamacpp"), Simulated(length=2.5), "cuda").argv[-2:] == (
        "--spec-synth-len",
        "2.5",
    )


def test_sglang_takes_a_length_in_its_environment() -> None:
    env = simulate(plan("sglang"), Simulated(length=2.5), "cuda").env
    assert env["A"] == "1"
    assert env["SGLANG_SIMULATE_ACC_LEN"] == "2.5"
    rates = Simulated(rates=(0.8, 0.5, 0.2, 0.1))
    assert simulate(plan("sglang"), rates, "cuda").env["SGLANG_SIMULATE_ACC_LEN"] == "2.5"
    assert str(fitted(rates, 3, rates=False)) == "simulated, length 2.5 of rates 0.8 0.5 0.2"


@pytest.mark.parametrize("backend", ["vllm", "llamacpp"])
def test_one_list_of_rates_serves_every_smaller_k(backend: str) -> None:
    curve = Simulated(rates=(0.8, 0.5, 0.2, 0.1))
    assert fitted(curve, 2, rates=True) == Simulated(rates=(0.8, 0.5))
    assert simulate(plan(backend), curve, "cuda") == simulate(
        plan(backend), Simulated(rates=(0.8, 0.5, 0.2)), "cuda"
    )


@pytest.mark.parametrize("backend", ["vllm", "sglang", "llamacpp"])
def test_what_cannot_be_simulated_is_refused(backend: str) -> None:
    with pytest.raises(InputError, match="no drafter"):
        simulate(plan(backend, None), Simulated(length=2), "cuda")
    with pytest.raises(InputError, match="2 simulated rates for 3 drafts"):
        simulate(plan(backend), Simulated(rates=(0.8, 0.5)), "cuda")
    with pytest.raises(InputError, match=r"length of 4\.5 is not within 1 to 4"):
        simulate(plan(backend), Simulated(length=4.5), "cuda")


def test_expected_length_counts_the_token_after_the_drafts() -> None:
    assert Simulated(rates=(0.8, 0.5, 0.2)).expected_length == pytest.approx(2.5)
    assert Simulated(length=4).expected_length == 4
    assert str(Simulated(length=4)) == "simulated, length 4"
    assert str(Simulated(rates=(0.8, 0.5, 0.2))) == "simulated, length 2.5 by rates 0.8 0.5 0.2"


def test_vllm_cannot_on_a_cpu() -> None:
    with pytest.raises(InputError, match="vLLM cannot simulate acceptance on a CPU"):
        simulate(plan("vllm"), Simulated(length=2), "cpu")
    assert simulate(plan("llamacpp"), Simulated(length=2), "cpu")
