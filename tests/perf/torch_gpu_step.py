#!/usr/bin/env python3
"""The training step that step_benchmark times, in PyTorch as it is meant to be fast on a GPU: torch.compile, bf16 autocast,
fused attention, fused AdamW. Prints `key value` lines."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

MODELS = {  # layers, hidden, heads, key-value heads, feed-forward, vocabulary, is Llama
    "gpt2-124m": (12, 768, 12, 12, 3072, 50257, False),
    "gpt2-774m": (36, 1280, 20, 20, 5120, 50257, False),
    "llama-1b": (16, 2048, 32, 8, 8192, 128256, True),
}


class Attention(nn.Module):
    def __init__(self, hidden, heads, shared, bias):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, hidden // heads
        self.qkv = nn.Linear(hidden, (heads + 2 * shared) * self.size, bias=bias)
        self.projection = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, x, rotary):
        b, s, c = x.shape
        qkv = self.qkv(x).view(b, s, self.heads + 2 * self.shared, self.size).transpose(1, 2)
        q, k, v = qkv.split([self.heads, self.shared, self.shared], dim=1)
        if rotary is not None:
            q, k = turn(q, rotary), turn(k, rotary)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.shared < self.heads)
        return self.projection(out.transpose(1, 2).reshape(b, s, c))


def turn(x, rotary):
    cosine, sine = rotary
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, hidden, heads, shared, inner, llama):
        super().__init__()
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.llama, self.norm1, self.norm2 = llama, norm(hidden, eps=1e-5), norm(hidden, eps=1e-5)
        self.attention = Attention(hidden, heads, shared, bias=not llama)
        self.expand = nn.Linear(hidden, inner * (2 if llama else 1), bias=not llama)
        self.contract = nn.Linear(inner, hidden, bias=not llama)

    def forward(self, x, rotary):
        x = x + self.attention(self.norm1(x), rotary)
        h = self.expand(self.norm2(x))
        if self.llama:
            gate, up = h.chunk(2, dim=-1)
            return x + self.contract(F.silu(gate) * up)
        return x + self.contract(F.gelu(h, approximate="tanh"))


class Model(nn.Module):
    def __init__(self, layers, hidden, heads, shared, inner, vocabulary, llama, sequence):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.positions = None if llama else nn.Embedding(sequence, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, shared, inner, llama) for _ in range(layers))
        self.norm = (nn.RMSNorm if llama else nn.LayerNorm)(hidden, eps=1e-5)
        half = hidden // heads // 2
        angles = torch.outer(torch.arange(sequence).float(), 500000.0 ** (-torch.arange(half).float() / half))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        rotary = None if self.positions is not None else (self.cosine, self.sine)
        for block in self.blocks:
            x = block(x, rotary)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def seconds_of(work):
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def best_matmul_gflops():
    best = 0.0
    for n in (4096, 8192):
        a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        seconds_of(lambda: [a @ b for _ in range(3)])
        best = max(best, 10 * 2 * n**3 / seconds_of(lambda: [a @ b for _ in range(10)]) * 1e-9)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="gpt2-124m")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    flags = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model(*MODELS[flags.model], flags.sequence).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    vocabulary = MODELS[flags.model][5]
    ids = torch.randint(vocabulary, (flags.batch, flags.sequence + 1), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for _ in range(3):  # compiles and warms up
        step()
    best = min(seconds_of(step) for _ in range(flags.steps))
    print(f"torch_version {torch.__version__}")
    print(f"torch_device {torch.cuda.get_device_name().replace(' ', '_')}")
    print(f"torch_step_seconds {best:.4f}")
    print(f"torch_tokens_per_second {flags.batch * flags.sequence / best:.1f}")
    print(f"torch_peak_memory_bytes {torch.cuda.max_memory_allocated()}")
    del model, compiled, optimizer
    torch.cuda.empty_cache()
    print(f"torch_best_matmul_gflops {best_matmul_gflops():.1f}")


if __name__ == "__main__":
    main()
