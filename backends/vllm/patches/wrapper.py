"""Where vLLM looks for the target's `.model` and does not find it.

Muse Glimmer marks its decoder as the language model, so `get_language_model()` returns the decoder
itself, which has no `.model`. The wrapper around it has both `.model` and `lm_head`.
"""

from __future__ import annotations

from backends.base import Speculation
from backends.patch import Edit, Evidence, Patch

NO_MODEL = "AttributeError: 'MuseGlimmerModel' object has no attribute 'model'"
DSPARK_PULL = "https://github.com/vllm-project/vllm/pull/52315"
LAUNCH_PULL = "https://github.com/vllm-project/vllm/pull/51655"
SPEC_DECODE = "vllm/v1/worker/gpu/spec_decode"
PROPOSER = "vllm/v1/spec_decode/llm_base_proposer.py"
OWN_OR_INNER = 'getattr(target_language_model, "model", target_language_model)'

NATIVE = Evidence("vllm/model_executor/models/muse_glimmer.py", "class MuseGlimmerModel")


def _loader(
    name: str,
    speculation: tuple[Speculation, ...],
    upstream: str = "none known",
    until: str | None = None,
    only_for: str = "",
) -> Patch:
    """The loader of one drafter family in the V2 runner."""
    file = f"{SPEC_DECODE}/{name}/utils.py"
    return Patch(
        id=f"vllm-{name}-wrapper",
        engine="vllm",
        title=f"V2 runner, {name}: take the decoder itself where it has no .model",
        why=(
            f"The {name} loader reads `.model` of what get_language_model() returns, which for "
            "Muse Glimmer is the decoder already. The lm_head is looked up on the wrapper as well, "
            "so one line is enough."
        ),
        symptom=NO_MODEL,
        upstream=upstream,
        edits=(
            Edit(
                file,
                "    target_inner = target_language_model.model\n",
                f"    target_inner = {OWN_OR_INNER}\n",
            ),
        ),
        devices=("cuda",),
        speculation=speculation,
        only_for=only_for,
        until=until,
        precondition=(NATIVE,),
        fixed_by=(Evidence(file, OWN_OR_INNER),),
    )


DFLASH = _loader("dflash", ("dflash",), LAUNCH_PULL, until="0.28.0")
DSPARK = _loader("dspark", ("dspark",), DSPARK_PULL)
EAGLE = _loader("eagle", (), only_for="EAGLE drafters")

GEMMA4 = Patch(
    id="vllm-gemma4-wrapper",
    engine="vllm",
    title="V2 runner, gemma4: take the decoder itself where it has no .model",
    why="The Gemma4 drafter shares the embeddings through the same missing `.model`.",
    symptom=NO_MODEL,
    upstream="none known",
    edits=(
        Edit(
            f"{SPEC_DECODE}/gemma4/speculator.py",
            'getattr(target_language_model.model, "embed_tokens", None)',
            "getattr(\n"
            f"                {OWN_OR_INNER},\n"
            '                "embed_tokens",\n'
            "                None,\n"
            "            )",
        ),
    ),
    devices=("cuda",),
    speculation=(),
    only_for="Gemma4 drafters",
    precondition=(NATIVE,),
    fixed_by=(Evidence(f"{SPEC_DECODE}/gemma4/speculator.py", 'target_language_model, "model"'),),
)

PROPOSER_WRAPPER = Patch(
    id="vllm-v1-wrapper",
    engine="vllm",
    title="V1 runner: share embeddings and lm_head from the wrapper",
    why=(
        "The V1 proposer takes `.model` and `lm_head` from what get_language_model() returns. For "
        "Muse Glimmer that is the decoder, which has neither: without `.model` it stops, and "
        "without `lm_head` the drafter would draft from random weights. The wrapper has both. The "
        "Gemma4 proposer of this runner goes through the same lines."
    ),
    symptom="AttributeError: Target model does not have 'model' attribute",
    upstream="none known",
    edits=(
        Edit(
            PROPOSER,
            "            ).get_language_model()\n"
            "        else:\n"
            "            target_language_model = target_model\n",
            "            ).get_language_model()\n"
            '            if not hasattr(target_language_model, "model"):\n'
            "                # That was the decoder; its wrapper has .model and lm_head.\n"
            "                target_language_model = target_model\n"
            "        else:\n"
            "            target_language_model = target_model\n",
        ),
    ),
    devices=("cpu",),
    speculation=("dflash",),
    precondition=(NATIVE,),
)

PATCHES = (PROPOSER_WRAPPER, DSPARK, DFLASH, EAGLE, GEMMA4)
