#!/usr/bin/python3
"""Trains a tiny GPT-2 in plain PyTorch and writes what a correct implementation must reproduce.

    /usr/bin/python3 make_gpt2_golden.py          writes gpt2_tiny/ beside this file
    /usr/bin/python3 make_gpt2_golden.py --check  fails unless a fresh run gives the committed numbers

The model is GPT-2 as published (Radford et al. 2019): LayerNorm before attention and MLP and at the end,
learned positions, tanh GELU, biases everywhere, weights of linear maps stored [in, out], output head tied to
the token embedding. Only PyTorch and NumPy are needed. README.md describes the files.
"""

import argparse
import json
import math
import pathlib
import random
import struct

import numpy
import torch

LAYERS, HIDDEN, HEADS, VOCABULARY, CONTEXT = 2, 48, 4, 97, 32
EPSILON = 1e-5
SEQUENCE, BATCH, STEPS, VALIDATION_BATCHES = 16, 4, 10, 2
# 7 steps an epoch: two windows are left over, steps 8 to 10 begin again.
TRAINING_WINDOWS, VALIDATION_WINDOWS = 30, 8
LEARNING_RATE, LEAST_LEARNING_RATE, WARM_UP_STEPS = 3e-3, 3e-4, 2
BETA_1, BETA_2, ADAM_EPSILON, WEIGHT_DECAY, CLIP_NORM = 0.9, 0.95, 1e-8, 0.1, 1.0
SEED = 20240613
FOLDER = pathlib.Path(__file__).resolve().parent / "gpt2_tiny"


def parameter_shapes():
    """Names as Hugging Face's GPT2Model has them, in model order."""
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


def initial_parameters():
    """Larger than GPT-2's own, and no bias 0 or norm 1, so that a mistake in any tensor shows in the loss."""
    generator = numpy.random.RandomState(SEED)
    parameters = {}
    for name, shape in parameter_shapes().items():
        values = generator.standard_normal(shape)
        if len(shape) == 2:
            values *= 0.1
        else:
            values = values * 0.05 + (1.0 if "ln_" in name and name.endswith("weight") else 0.0)
        parameters[name] = values.astype(numpy.float32)
    return parameters


def make_tokens(seed, windows):
    """Runs of a + b * i modulo the vocabulary with noise: there is something to learn."""
    chooser = random.Random(seed)
    tokens = []
    while len(tokens) < windows * SEQUENCE + 1 + 5:  # five tokens too few for another window
        start, stride = chooser.randrange(VOCABULARY), chooser.choice([1, 2, 5])
        for i in range(chooser.randrange(4, 12)):
            noisy = chooser.random() < 0.1
            tokens.append(chooser.randrange(VOCABULARY) if noisy else (start + stride * i) % VOCABULARY)
    return tokens[: windows * SEQUENCE + 1 + 5]


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
    scores = q @ k.transpose(-1, -2) / math.sqrt(HIDDEN // HEADS)
    future = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    mixed = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ v
    mixed = mixed.transpose(1, 2).reshape(batch, length, HIDDEN)
    return mixed @ p[h + "attn.c_proj.weight"] + p[h + "attn.c_proj.bias"]


def token_losses(p, windows):
    """Cross entropy of every target; windows [batch, SEQUENCE + 1] gives [batch, SEQUENCE]."""
    inputs, targets = windows[:, :-1], windows[:, 1:]
    x = p["wte.weight"][inputs] + p["wpe.weight"][: inputs.shape[1]]
    for layer in range(LAYERS):
        h = f"h.{layer}."
        x = x + attention(layer_norm(x, p[h + "ln_1.weight"], p[h + "ln_1.bias"]), p, h)
        inner = layer_norm(x, p[h + "ln_2.weight"], p[h + "ln_2.bias"]) @ p[h + "mlp.c_fc.weight"]
        inner = gelu_new(inner + p[h + "mlp.c_fc.bias"])
        x = x + inner @ p[h + "mlp.c_proj.weight"] + p[h + "mlp.c_proj.bias"]
    logits = layer_norm(x, p["ln_f.weight"], p["ln_f.bias"]) @ p["wte.weight"].T
    return -torch.log_softmax(logits, dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def learning_rate(k):
    """Of step k = 1 .. STEPS: linear warm-up, then half a cosine down to the least."""
    if k <= WARM_UP_STEPS:
        return LEARNING_RATE * k / WARM_UP_STEPS
    progress = (k - WARM_UP_STEPS) / (STEPS - WARM_UP_STEPS)
    falling = 0.5 * (1 + math.cos(math.pi * progress))
    return LEAST_LEARNING_RATE + (LEARNING_RATE - LEAST_LEARNING_RATE) * falling


def batch_of(tokens, batch, windows):
    indices = [(batch * BATCH + i) % windows for i in range(BATCH)]
    return torch.tensor([tokens[w * SEQUENCE : w * SEQUENCE + SEQUENCE + 1] for w in indices])


def sample(tensor):
    """What is kept of a tensor: its 2-norm and six elements spread over it."""
    flat = tensor.detach().reshape(-1).double()
    indices = sorted({i * (flat.numel() - 1) // 5 for i in range(6)})
    return {"norm": flat.norm().item(), "indices": indices, "values": [flat[i].item() for i in indices]}


def train(dtype, training, validation):
    p = {n: torch.tensor(v, dtype=dtype, requires_grad=True) for n, v in initial_parameters().items()}
    groups = [
        {"params": [t for t in p.values() if t.dim() == 2], "weight_decay": WEIGHT_DECAY},
        {"params": [t for t in p.values() if t.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(BETA_1, BETA_2), eps=ADAM_EPSILON)
    steps_per_epoch = TRAINING_WINDOWS // BATCH
    run = {"losses": [], "gradient_norms": []}

    def validate():
        with torch.no_grad():
            batches = [batch_of(validation, j, VALIDATION_WINDOWS) for j in range(VALIDATION_BATCHES)]
            losses = [token_losses(p, batch) for batch in batches]
        return torch.cat(losses).mean().item()

    run["initial_validation_loss"] = validate()
    for k in range(1, STEPS + 1):
        losses = token_losses(p, batch_of(training, (k - 1) % steps_per_epoch, TRAINING_WINDOWS))
        optimizer.zero_grad()
        losses.mean().backward()
        if k == 1:
            run["step_1_first_window_token_losses"] = losses[0].tolist()
            run["step_1_gradients"] = {n: sample(t.grad) for n, t in p.items()}
        norm = torch.nn.utils.clip_grad_norm_(p.values(), CLIP_NORM)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(k)
        optimizer.step()
        run["losses"].append(losses.mean().item())
        run["gradient_norms"].append(norm.item())
    run["final_validation_loss"] = validate()
    run["final_parameters"] = {n: sample(t) for n, t in p.items()}
    return run


def safetensors(tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors.items():
        raw = values.astype("<f4").tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def config():
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


def golden(training, validation):
    return {
        "training": {
            "tokens": "tokens.bin",
            "validation_tokens": "validation.bin",
            "sequence": SEQUENCE,
            "global_batch_sequences": BATCH,
            "order": "sequential",
            "steps": STEPS,
            "validation_batches": VALIDATION_BATCHES,
            "learning_rate": LEARNING_RATE,
            "least_learning_rate": LEAST_LEARNING_RATE,
            "warm_up_steps": WARM_UP_STEPS,
            "schedule": "cosine",
            "beta_1": BETA_1,
            "beta_2": BETA_2,
            "epsilon": ADAM_EPSILON,
            "weight_decay": WEIGHT_DECAY,
            "clip_norm": CLIP_NORM,
        },
        "learning_rates": [learning_rate(k) for k in range(1, STEPS + 1)],
        "float32": train(torch.float32, training, validation),
        "float64": train(torch.float64, training, validation),
        "made_with": f"torch {torch.__version__}, numpy {numpy.__version__}",
    }


def files():
    training, validation = make_tokens(SEED, TRAINING_WINDOWS), make_tokens(SEED + 1, VALIDATION_WINDOWS)
    weights = {"transformer." + name: values for name, values in initial_parameters().items()}
    return {
        "config.json": (json.dumps(config(), indent=2) + "\n").encode(),
        "model.safetensors": safetensors(weights),
        "tokens.bin": numpy.array(training, dtype="<u2").tobytes(),
        "validation.bin": numpy.array(validation, dtype="<u2").tobytes(),
        "golden.json": (json.dumps(golden(training, validation), indent=1) + "\n").encode(),
    }


def same_numbers(a, b, tolerance):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_numbers(a[k], b[k], tolerance) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same_numbers(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, float):
        return abs(a - b) <= tolerance * max(1.0, abs(a))
    return a == b


def check(fresh):
    for name, contents in fresh.items():
        committed = (FOLDER / name).read_bytes()
        if name != "golden.json":
            assert contents == committed, f"{name} differs"
            continue
        ours, theirs = json.loads(contents), json.loads(committed)
        for part in ours:
            if part == "made_with":
                continue
            tolerance = 1e-4 if part == "float32" else 1e-10
            assert same_numbers(ours[part], theirs[part], tolerance), f"{name}: {part} differs"
    print(f"{FOLDER}: as committed")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare with gpt2_tiny/, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    fresh = files()
    if arguments.check:
        return check(fresh)
    FOLDER.mkdir(exist_ok=True)
    for name, contents in fresh.items():
        (FOLDER / name).write_bytes(contents)


if __name__ == "__main__":
    main()
