"""Target and drafter in plain torch, with the parameter names of the published checkpoints.

Sources: transformers 5.17 `muse_glimmer` (sandwich norms, weight-less QK norm times 3.87, sigmoid
gate on the attention output, RoPE on sliding layers only, normalised embeddings, logit softcap 20)
and `muse_glimmer_assistant`; the Markov head is vLLM's `qwen3_dspark`.
Shapes: B rows, T tokens, H hidden, A anchors a row, S tokens a block (anchor, masks), V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .framing import MASK, VOCAB_SIZE

HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 256, 4, 1, 64
WINDOW, ROPE_THETA, EPS, POST_EPS = 256, 10_000.0, 1e-5, 1e-8
TARGET_FFN, TARGET_LAYERS, QK_SCALE, SOFTCAP = 512, 4, 3.87, 20.0
DRAFT_FFN, DRAFT_LAYERS, MARKOV_RANK, BLOCK = 256, 2, 32, 16
# Zero-based layers whose outputs the drafters read; each must be below TARGET_LAYERS - 1, because
# llama.cpp reads them as the input of the next layer.
TARGET_LAYER_IDS = (0, 2)

Cache = list[tuple[Tensor, Tensor]]


def linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=inputs**-0.5 * 0.6)
    return layer


def rms(x: Tensor, eps: float, weight: Tensor | None = None) -> Tensor:
    """RMS norm in float32, returned in the type of x."""
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.float()).to(x.dtype)


class Norm(nn.Module):
    """RMS norm; `centred` weights are stored minus one, as in the target's four layer norms."""

    def __init__(self, width: int, eps: float = EPS, *, centred: bool = False) -> None:
        super().__init__()
        self.eps, self.offset = eps, 1.0 if centred else 0.0
        self.weight = nn.Parameter(torch.zeros(width) if centred else torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return rms(x, self.eps, self.weight + self.offset)


def rope(positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin, [..., HEAD_DIM] float32, rotate-half layout."""
    inverse = ROPE_THETA ** -(torch.arange(0, HEAD_DIM, 2, device=positions.device) / HEAD_DIM)
    angles = positions.float()[..., None] * inverse
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [B, heads, T, D]; cos and sin broadcast to it."""
    a, b = x.float().chunk(2, dim=-1)
    return (x.float() * cos + torch.cat((-b, a), dim=-1) * sin).to(x.dtype)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, T, heads * D] to [B, heads, T, D]."""
    return x.view(*x.shape[:-1], heads, HEAD_DIM).transpose(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention with shared KV heads; mask True = visible, None = causal. To [B, T, heads * D]."""
    k, v = (x.expand(-1, q.shape[1], -1, -1) for x in (k, v))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
    return y.transpose(1, 2).flatten(2)


class Mlp(nn.Module):
    def __init__(self, ffn: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = linear(HIDDEN, ffn), linear(HIDDEN, ffn)
        self.down_proj = linear(ffn, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


class TargetAttention(nn.Module):
    def __init__(self, *, sliding: bool) -> None:
        super().__init__()
        self.sliding = sliding
        width = HEADS * HEAD_DIM
        self.q_proj, self.gate_proj = linear(HIDDEN, width), linear(HIDDEN, width)
        self.k_proj, self.v_proj = (linear(HIDDEN, KV_HEADS * HEAD_DIM) for _ in range(2))
        self.o_proj = linear(width, HIDDEN)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = rms(split_heads(self.q_proj(x), HEADS), EPS) * QK_SCALE
        k = rms(split_heads(self.k_proj(x), KV_HEADS), EPS)
        if self.sliding:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        return q, k, split_heads(self.v_proj(x), KV_HEADS)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        y: Tensor = self.o_proj(attended * torch.sigmoid(self.gate_proj(x)))
        return y


class TargetLayer(nn.Module):
    def __init__(self, *, sliding: bool) -> None:
        super().__init__()
        self.self_attn = TargetAttention(sliding=sliding)
        self.mlp = Mlp(TARGET_FFN)
        self.input_layernorm = Norm(HIDDEN, centred=True)
        self.post_attention_layernorm = Norm(HIDDEN, POST_EPS, centred=True)
        self.pre_feedforward_layernorm = Norm(HIDDEN, centred=True)
        self.post_feedforward_layernorm = Norm(HIDDEN, POST_EPS, centred=True)

    def feed(self, h: Tensor) -> Tensor:
        y: Tensor = self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(h)))
        return h + y

    def forward(self, h: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None) -> Tensor:
        x = self.input_layernorm(h)
        q, k, v = self.self_attn.project(x, cos, sin)
        attended = attend(q, k, v, mask if self.self_attn.sliding else None)
        return self.feed(h + self.post_attention_layernorm(self.self_attn.finish(x, attended)))

    def step(
        self, h: Tensor, t: int, cos: Tensor, sin: Tensor, kv: tuple[Tensor, Tensor]
    ) -> Tensor:
        """One token a row: h [B, 1, H] at position t; kv is filled in place."""
        x = self.input_layernorm(h)
        q, k, v = self.self_attn.project(x, cos, sin)
        kv[0][:, :, t : t + 1], kv[1][:, :, t : t + 1] = k, v
        first = max(0, t + 1 - WINDOW) if self.self_attn.sliding else 0
        keys, values = kv[0][:, 0, first : t + 1], kv[1][:, 0, first : t + 1]
        scores = q[:, :, 0] @ keys.transpose(1, 2) * HEAD_DIM**-0.5
        attended = (scores.float().softmax(-1).to(values.dtype) @ values).flatten(1)[:, None]
        return self.feed(h + self.post_attention_layernorm(self.self_attn.finish(x, attended)))


class Target(nn.Module):
    """The tiny Muse Glimmer's language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Parameter(torch.randn(VOCAB_SIZE, HIDDEN) * 0.5)
        self.lm_head = nn.Parameter(torch.randn(VOCAB_SIZE, HIDDEN) * 0.02)
        full = [(TARGET_LAYERS - 1 - i) % 4 == 0 for i in range(TARGET_LAYERS)]
        self.layers = nn.ModuleList(TargetLayer(sliding=not f) for f in full)
        self.norm = Norm(HIDDEN)

    def hidden_states(self, ids: Tensor) -> list[Tensor]:
        """Outputs of every layer, each [B, T, H], for ids [B, T]."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        cos, sin = rope(positions)
        distance = positions[:, None] - positions[None, :]
        mask = (distance >= 0) & (distance < WINDOW)
        h = rms(F.embedding(ids, self.embed_tokens), EPS)
        states: list[Tensor] = []
        for layer in self.layers:
            h = layer(h, cos, sin, mask)
            states.append(h)
        return states

    def logits(self, h: Tensor) -> Tensor:
        """Softcapped logits in float32; output_multiplier is 1 at hidden 256."""
        y = F.linear(self.norm(h), self.lm_head).float()
        return SOFTCAP * torch.tanh(y / SOFTCAP)

    def forward(self, ids: Tensor) -> Tensor:
        return self.logits(self.hidden_states(ids)[-1])

    def new_cache(self, rows: int, length: int) -> Cache:
        w = self.embed_tokens
        shape = (rows, KV_HEADS, length, HEAD_DIM)
        return [(w.new_zeros(shape), w.new_zeros(shape)) for _ in range(TARGET_LAYERS)]

    def step(self, ids: Tensor, t: int, cache: Cache) -> Tensor:
        """Logits [B, V] after the token ids [B] at position t."""
        cos, sin = rope(torch.tensor([t], device=ids.device))
        h = rms(F.embedding(ids[:, None], self.embed_tokens), EPS)
        for layer, kv in zip(self.layers, cache, strict=True):
            assert isinstance(layer, TargetLayer)
            h = layer.step(h, t, cos, sin, kv)
        return self.logits(h)[:, 0]


class DraftAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = HEADS * HEAD_DIM
        self.q_proj, self.o_proj = linear(HIDDEN, width), linear(width, HIDDEN)
        self.k_proj, self.v_proj = (linear(HIDDEN, KV_HEADS * HEAD_DIM) for _ in range(2))
        self.q_norm, self.k_norm = Norm(HEAD_DIM), Norm(HEAD_DIM)

    def forward(
        self, x: Tensor, context: Tensor, angles: tuple[Tensor, ...], mask: Tensor
    ) -> Tensor:
        q_cos, q_sin, k_cos, k_sin = angles
        both = torch.cat((context, x), dim=1)
        q = rotate(self.q_norm(split_heads(self.q_proj(x), HEADS)), q_cos, q_sin)
        k = rotate(self.k_norm(split_heads(self.k_proj(both), KV_HEADS)), k_cos, k_sin)
        y: Tensor = self.o_proj(attend(q, k, split_heads(self.v_proj(both), KV_HEADS), mask))
        return y


class DraftLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = DraftAttention()
        self.mlp = Mlp(DRAFT_FFN)
        self.input_layernorm, self.post_attention_layernorm = Norm(HIDDEN), Norm(HIDDEN)

    def forward(
        self, h: Tensor, context: Tensor, angles: tuple[Tensor, ...], mask: Tensor
    ) -> Tensor:
        h = h + self.self_attn(self.input_layernorm(h), context, angles, mask)
        y: Tensor = self.mlp(self.post_attention_layernorm(h))
        return h + y


@dataclass(frozen=True)
class Frozen:
    """The target's raw embedding rows and output head, each [V, H]; drafters share them."""

    embed: Tensor
    head: Tensor


class Drafter(nn.Module):
    """DFlash backbone; with `markov` the DSpark drafter (one more mask in the block)."""

    def __init__(self, *, markov: bool = False) -> None:
        super().__init__()
        self.fc = linear(HIDDEN * len(TARGET_LAYER_IDS), HIDDEN)
        self.hidden_norm = Norm(HIDDEN)
        self.layers = nn.ModuleList(DraftLayer() for _ in range(DRAFT_LAYERS))
        self.norm = Norm(HIDDEN)
        self.drafts = BLOCK if markov else BLOCK - 1
        self.markov_w1 = nn.Parameter(torch.randn(VOCAB_SIZE, MARKOV_RANK)) if markov else None
        self.markov_w2 = nn.Parameter(torch.zeros(VOCAB_SIZE, MARKOV_RANK)) if markov else None

    def base_logits(self, features: Tensor, ids: Tensor, anchors: Tensor, frozen: Frozen) -> Tensor:
        """Logits [B, A, drafts, V] for the tokens after each anchor, raw (no softcap).

        features [B, T, ids * H] are the target's states of the tokens ids [B, T]; an anchor at p
        [B, A] sees those before p, and its block holds the token at p and masks.
        """
        rows, length = ids.shape
        size, count = self.drafts + 1, anchors.shape[1]
        context = self.hidden_norm(self.fc(features))
        block = torch.full((rows, count, size), MASK, device=ids.device)
        block[:, :, 0] = ids.gather(1, anchors)
        h = F.embedding(block.flatten(1), frozen.embed)
        q_at = (anchors[:, :, None] + torch.arange(size, device=ids.device)).flatten(1)
        c_at = torch.arange(length, device=ids.device).expand(rows, -1)
        first = anchors.repeat_interleave(size, dim=1)
        sees_context = (c_at[:, None] < first[..., None]) & (
            c_at[:, None] > q_at[..., None] - WINDOW
        )
        group = torch.arange(count, device=ids.device).repeat_interleave(size)
        sees_block = (group[:, None] == group[None]).expand(rows, -1, -1)
        mask = torch.cat((sees_context, sees_block), dim=-1)[:, None]
        angles = tuple(x[:, None] for x in (*rope(q_at), *rope(torch.cat((c_at, q_at), dim=1))))
        for layer in self.layers:
            h = layer(h, context, angles, mask)
        h = self.norm(h).view(rows, count, size, HIDDEN)[:, :, 1:]
        return F.linear(h, frozen.head).float()

    def bias(self, previous: Tensor) -> Tensor:
        """Markov bias [..., V] from the previous tokens [...]."""
        assert self.markov_w1 is not None
        assert self.markov_w2 is not None
        return F.linear(F.embedding(previous, self.markov_w1), self.markov_w2).float()

    def draft(self, features: Tensor, ids: Tensor, anchors: Tensor, frozen: Frozen) -> Tensor:
        """Greedy drafts [B, A, drafts]."""
        base = self.base_logits(features, ids, anchors, frozen)
        if self.markov_w1 is None:
            return base.argmax(-1)
        previous, tokens = ids.gather(1, anchors), []
        for i in range(self.drafts):
            previous = (base[:, :, i] + self.bias(previous)).argmax(-1)
            tokens.append(previous)
        return torch.stack(tokens, dim=-1)


def features_of(states: list[Tensor]) -> Tensor:
    """What a drafter reads of the target: [B, T, ids * H]."""
    return torch.cat([states[i] for i in TARGET_LAYER_IDS], dim=-1)
