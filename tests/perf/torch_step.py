#!/usr/bin/env python3
"""The training step that step_benchmark times, in plain PyTorch: GPT-2 124M, f32, AdamW. Prints `key value` lines."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HIDDEN, HEADS, VOCABULARY, CONTEXT = 12, 768, 12, 50257, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.projection = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.expand, self.contract = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x, mask):
        b, s, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // HEADS) + mask
        x = x + self.projection((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, c))
        h = self.expand(self.norm2(x))
        gelu = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h ** 3)))
        return x + self.contract(gelu)


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(CONTEXT, HIDDEN)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)

    def forward(self, ids, targets):
        s = ids.shape[1]
        mask = torch.full((s, s), float("-inf")).triu(1)
        x = self.tokens(ids) + self.positions(torch.arange(s))
        for block in self.blocks:
            x = block(x, mask)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1)
    flags = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(flags.threads)
    model = Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    ids = torch.randint(VOCABULARY, (flags.batch, flags.sequence + 1))

    def step(rows):
        optimizer.zero_grad(set_to_none=True)
        model(ids[:rows, :-1], ids[:rows, 1:]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step(1)  # warms up
    best = math.inf
    for _ in range(flags.steps):
        start = time.perf_counter()
        step(flags.batch)
        best = min(best, time.perf_counter() - start)
    print(f"torch_version {torch.__version__}")
    print(f"torch_step_seconds {best:.3f}")
    print(f"torch_tokens_per_second {flags.batch * flags.sequence / best:.1f}")


if __name__ == "__main__":
    main()
