#!/usr/bin/python3
"""Trains two tiny Llamas in plain PyTorch and writes what a correct implementation must reproduce.

    /usr/bin/python3 make_llama_golden.py          writes llama_tiny/ and llama_tied/ beside this file
    /usr/bin/python3 make_llama_golden.py --check  fails unless a fresh run gives the committed numbers

The models are computed as Hugging Face's LlamaForCausalLM does: RMSNorm before attention and MLP and at the
end, rotary positions that turn the halves of a head (rotate_half) with Llama 3.1's scaling of frequencies,
grouped-query attention, SwiGLU, no biases, weights of linear maps stored [out, in]. llama_tiny has heads of
another size than hidden / heads, two query heads to a key-value head, scaled frequencies and an output head
of its own; llama_tied has multi-query attention, plain rotary positions, another epsilon and a tied head.
"""

import dataclasses
import math

import torch

from golden_training import CONTEXT, VOCABULARY, Model, causal_attention, main


@dataclasses.dataclass
class Llama(Model):
    folder: str
    layers: int = 2
    hidden: int = 32
    heads: int = 4
    key_value_heads: int = 2
    head_size: int = 8
    feed_forward: int = 56
    epsilon: float = 1e-5
    rotary_base: float = 10000.0
    rope_scaling: dict = None
    tied_head: bool = False

    prefix = "model."
    bare = ("lm_head.weight",)

    def shapes(self):
        shapes = {"embed_tokens.weight": (VOCABULARY, self.hidden)}
        for layer in range(self.layers):
            h = f"layers.{layer}."
            shapes[h + "input_layernorm.weight"] = (self.hidden,)
            shapes[h + "self_attn.q_proj.weight"] = (self.heads * self.head_size, self.hidden)
            shapes[h + "self_attn.k_proj.weight"] = (self.key_value_heads * self.head_size, self.hidden)
            shapes[h + "self_attn.v_proj.weight"] = (self.key_value_heads * self.head_size, self.hidden)
            shapes[h + "self_attn.o_proj.weight"] = (self.hidden, self.heads * self.head_size)
            shapes[h + "post_attention_layernorm.weight"] = (self.hidden,)
            shapes[h + "mlp.gate_proj.weight"] = (self.feed_forward, self.hidden)
            shapes[h + "mlp.up_proj.weight"] = (self.feed_forward, self.hidden)
            shapes[h + "mlp.down_proj.weight"] = (self.hidden, self.feed_forward)
        shapes["norm.weight"] = (self.hidden,)
        if not self.tied_head:
            shapes["lm_head.weight"] = (VOCABULARY, self.hidden)
        return shapes

    def rms_norm(self, x, weight):
        return weight * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon))

    def frequencies(self, dtype):
        """Radians a position by which each pair of a head turns: [head_size / 2]."""
        exponents = torch.arange(0, self.head_size, 2, dtype=dtype) / self.head_size
        frequencies = 1.0 / self.rotary_base**exponents
        if self.rope_scaling is None:
            return frequencies
        s = self.rope_scaling
        low, high = s["low_freq_factor"], s["high_freq_factor"]
        turns = s["original_max_position_embeddings"] * frequencies / (2 * math.pi)  # in the original context
        share = (turns - low) / (high - low)
        between = (1 - share) * frequencies / s["factor"] + share * frequencies
        scaled = torch.where(turns < low, frequencies / s["factor"], between)
        return torch.where(turns > high, frequencies, scaled)

    def rotate(self, x):
        """x [batch, heads, length, head_size]"""
        angles = torch.arange(x.shape[-2], dtype=x.dtype).unsqueeze(-1) * self.frequencies(x.dtype)
        angles = torch.cat([angles, angles], dim=-1)
        first, second = x.chunk(2, dim=-1)
        return x * torch.cos(angles) + torch.cat([-second, first], dim=-1) * torch.sin(angles)

    def attention(self, x, p, h):
        batch, length, _ = x.shape
        q, k, v = (x @ p[h + f"self_attn.{name}_proj.weight"].T for name in "qkv")
        q, k, v = (t.view(batch, length, -1, self.head_size).transpose(1, 2) for t in (q, k, v))
        group = self.heads // self.key_value_heads
        k, v = (t.repeat_interleave(group, dim=1) for t in (self.rotate(k), v))
        mixed = causal_attention(self.rotate(q), k, v).transpose(1, 2).reshape(batch, length, -1)
        return mixed @ p[h + "self_attn.o_proj.weight"].T

    def logits(self, p, inputs):
        x = p["embed_tokens.weight"][inputs]
        for layer in range(self.layers):
            h = f"layers.{layer}."
            x = x + self.attention(self.rms_norm(x, p[h + "input_layernorm.weight"]), p, h)
            inner = self.rms_norm(x, p[h + "post_attention_layernorm.weight"])
            gate, up = inner @ p[h + "mlp.gate_proj.weight"].T, inner @ p[h + "mlp.up_proj.weight"].T
            x = x + (torch.nn.functional.silu(gate) * up) @ p[h + "mlp.down_proj.weight"].T
        head = p["embed_tokens.weight" if self.tied_head else "lm_head.weight"]
        return self.rms_norm(x, p["norm.weight"]) @ head.T

    def config(self):
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_value_heads,
            "head_dim": self.head_size,
            "intermediate_size": self.feed_forward,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": CONTEXT,
            "rms_norm_eps": self.epsilon,
            "rope_theta": self.rotary_base,
            "rope_scaling": self.rope_scaling,
            "tie_word_embeddings": self.tied_head,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": None,
            "eos_token_id": None,
            "torch_dtype": "float32",
        }


# Of the six wavelengths, 6 to 3,500 positions, the first stays, the second lies between, the others stretch.
SCALED = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
MODELS = [
    Llama("llama_tiny", head_size=12, rotary_base=2000.0, rope_scaling=SCALED),
    Llama("llama_tied", key_value_heads=1, epsilon=1e-6, tied_head=True),
]

if __name__ == "__main__":
    main(__doc__, MODELS)
