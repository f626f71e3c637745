#!/usr/bin/python3
"""Trains a tiny GPT-2 in plain PyTorch and writes what a correct implementation must reproduce.

    /usr/bin/python3 make_gpt2_golden.py          writes gpt2_tiny/ beside this file
    /usr/bin/python3 make_gpt2_golden.py --check  fails unless a fresh run gives the committed numbers

The model is GPT-2 as published (Radford et al. 2019): LayerNorm before attention and MLP and at the end,
learned positions, tanh GELU, biases everywhere, weights of linear maps stored [in, out], output head tied to
the token embedding. Names are those of Hugging Face's GPT2Model.
"""

import math

import torch

from golden_training import CONTEXT, VOCABULARY, Model, causal_attention, main

LAYERS, HIDDEN, HEADS = 2, 48, 4
EPSILON = 1e-5


def layer_norm(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + EPSILON) * weight + bias


def gelu_new(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def attention(x, p, h):
    batch, length, _ = x.shape
    q, k, v = (x @ p[h + "attn.c_attn.weight"] + p[h + "attn.c_attn.bias"]).split(HIDDEN, dim=-1)
    q, k, v = (t.view(batch, length, HEADS, HIDDEN // HEADS).transpose(1, 2) for t in (q, k, v))
    mixed = causal_attention(q, k, v).transpose(1, 2).reshape(batch, length, HIDDEN)
    return mixed @ p[h + "attn.c_proj.weight"] + p[h + "attn.c_proj.bias"]


class Gpt2(Model):
    folder = "gpt2_tiny"
    prefix = "transformer."

    def shapes(self):
        shapes = {"wte.weight": (VOCABULARY, HIDDEN), "wpe.weight": (CONTEXT, HIDDEN)}
        for layer in range(LAYERS):
            h = f"h.{layer}."
            shapes[h + "ln_1.weight"] = (HIDDEN,)
            shapes[h + "ln_1.bias"] = (HIDDEN,)
            shapes[h + "attn.c_attn.weight"] = (HIDDEN, 3 * HIDDEN)
            shapes[h + "attn.c_attn.bias"] = (3 * HIDDEN,)
            shapes[h + "attn.c_proj.weight"] = (HIDDEN, HIDDEN)
            shapes[h + "attn.c_proj.bias"] = (HIDDEN,)
            shapes[h + "ln_2.weight"] = (HIDDEN,)
            shapes[h + "ln_2.bias"] = (HIDDEN,)
            shapes[h + "mlp.c_fc.weight"] = (HIDDEN, 4 * HIDDEN)
            shapes[h + "mlp.c_fc.bias"] = (4 * HIDDEN,)
            shapes[h + "mlp.c_proj.weight"] = (4 * HIDDEN, HIDDEN)
            shapes[h + "mlp.c_proj.bias"] = (HIDDEN,)
        shapes["ln_f.weight"] = (HIDDEN,)
        shapes["ln_f.bias"] = (HIDDEN,)
        return shapes

    def logits(self, p, inputs):
        x = p["wte.weight"][inputs] + p["wpe.weight"][: inputs.shape[1]]
        for layer in range(LAYERS):
            h = f"h.{layer}."
            x = x + attention(layer_norm(x, p[h + "ln_1.weight"], p[h + "ln_1.bias"]), p, h)
            inner = layer_norm(x, p[h + "ln_2.weight"], p[h + "ln_2.bias"]) @ p[h + "mlp.c_fc.weight"]
            inner = gelu_new(inner + p[h + "mlp.c_fc.bias"])
            x = x + inner @ p[h + "mlp.c_proj.weight"] + p[h + "mlp.c_proj.bias"]
        return layer_norm(x, p["ln_f.weight"], p["ln_f.bias"]) @ p["wte.weight"].T

    def config(self):
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "n_layer": LAYERS,
            "n_embd": HIDDEN,
            "n_head": HEADS,
            "n_inner": None,
            "vocab_size": VOCABULARY,
            "n_positions": CONTEXT,
            "n_ctx": CONTEXT,
            "layer_norm_epsilon": EPSILON,
            "activation_function": "gelu_new",
            "attn_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "resid_pdrop": 0.0,
            "bos_token_id": 0,
            "eos_token_id": 0,
        }


if __name__ == "__main__":
    main(__doc__, [Gpt2()])
