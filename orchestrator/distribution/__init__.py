"""Distribution audit at T > 0: does an engine, with and without a drafter, sample as asked?

draw       an arm answers each prompt many times ──▶ Sample*
counts     Sample* ──▶ Context* {prompt, prefix, how often each next token came}
reference  Context* ──▶ logits of the same model by transformers in float32, and their bf16 noise
rule       logits ──▶ the exact distribution asked for (temperature, then top-k, then top-p)
fit        Context* + distributions ──▶ Fit* (p-values, Holm's correction, power)

A drafter acts from the second token on, so the first token and the later ones are judged apart.
"""
