"""What the golden numbers of every model family share: the data, the training loop, the files.

README.md describes them. A `Model` says what is particular to one. Only PyTorch and NumPy are needed.
"""

import argparse
import json
import math
import pathlib
import random
import struct

import numpy
import torch

VOCABULARY, CONTEXT = 97, 32
SEQUENCE, BATCH, STEPS, VALIDATION_BATCHES = 16, 4, 10, 2
# 7 steps an epoch: two windows are left over, steps 8 to 10 begin again.
TRAINING_WINDOWS, VALIDATION_WINDOWS = 30, 8
LEARNING_RATE, LEAST_LEARNING_RATE, WARM_UP_STEPS = 3e-3, 3e-4, 2
BETA_1, BETA_2, ADAM_EPSILON, WEIGHT_DECAY, CLIP_NORM = 0.9, 0.95, 1e-8, 0.1, 1.0
SEED = 20240613


class Model:
    """One tiny model."""

    folder = ""  # beside this file
    prefix = ""  # of the tensors' names in model.safetensors
    bare = ()  # the tensors without it

    def shapes(self):
        """Name without the prefix to shape, in model order."""
        raise NotImplementedError

    def logits(self, p, inputs):
        """p: name to tensor. inputs [batch, length] gives [batch, length, VOCABULARY], in p's dtype."""
        raise NotImplementedError

    def config(self):
        """config.json"""
        raise NotImplementedError

    def initial_parameters(self):
        """Larger than usual, no bias 0 and no gain 1, so that a mistake in any tensor shows in the loss."""
        generator = numpy.random.RandomState(SEED)
        parameters = {}
        for name, shape in self.shapes().items():
            values = generator.standard_normal(shape)
            if len(shape) == 2:
                values *= 0.1
            else:
                values = values * 0.05 + (1.0 if name.endswith("weight") else 0.0)
            parameters[name] = values.astype(numpy.float32)
        return parameters

    def stored_name(self, name):
        return name if name in self.bare else self.prefix + name

    def token_losses(self, p, windows):
        """Cross entropy of every target; windows [batch, SEQUENCE + 1] gives [batch, SEQUENCE]."""
        logits, targets = self.logits(p, windows[:, :-1]), windows[:, 1:]
        return -torch.log_softmax(logits, dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def causal_attention(q, k, v):
    """Each [batch, heads, length, head size]."""
    length = q.shape[-2]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    future = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    return torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ v


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


def train(model, dtype, training, validation):
    p = {n: torch.tensor(v, dtype=dtype, requires_grad=True) for n, v in model.initial_parameters().items()}
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
            losses = [model.token_losses(p, batch) for batch in batches]
        return torch.cat(losses).mean().item()

    run["initial_validation_loss"] = validate()
    for k in range(1, STEPS + 1):
        losses = model.token_losses(p, batch_of(training, (k - 1) % steps_per_epoch, TRAINING_WINDOWS))
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


def golden(model, training, validation):
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
        "float32": train(model, torch.float32, training, validation),
        "float64": train(model, torch.float64, training, validation),
        "made_with": f"torch {torch.__version__}, numpy {numpy.__version__}",
    }


def files(model):
    training, validation = make_tokens(SEED, TRAINING_WINDOWS), make_tokens(SEED + 1, VALIDATION_WINDOWS)
    weights = {model.stored_name(name): values for name, values in model.initial_parameters().items()}
    return {
        "config.json": (json.dumps(model.config(), indent=2) + "\n").encode(),
        "model.safetensors": safetensors(weights),
        "tokens.bin": numpy.array(training, dtype="<u2").tobytes(),
        "validation.bin": numpy.array(validation, dtype="<u2").tobytes(),
        "golden.json": (json.dumps(golden(model, training, validation), indent=1) + "\n").encode(),
    }


def same_numbers(a, b, tolerance):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_numbers(a[k], b[k], tolerance) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same_numbers(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, float):
        return abs(a - b) <= tolerance * max(1.0, abs(a))
    return a == b


def check(folder, fresh):
    for name, contents in fresh.items():
        committed = (folder / name).read_bytes()
        if name != "golden.json":
            assert contents == committed, f"{folder}/{name} differs"
            continue
        ours, theirs = json.loads(contents), json.loads(committed)
        for part in ours:
            if part == "made_with":
                continue
            # Adam moves a weight whose gradient is all rounding (the bias of GPT-2's keys) as far as others, and
            # which way depends on the processor.
            tolerance = 1e-3 if part == "float32" else 1e-10
            assert same_numbers(ours[part], theirs[part], tolerance), f"{folder}/{name}: {part} differs"
    print(f"{folder}: as committed")


def main(description, models):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for model in models:
        folder = pathlib.Path(__file__).resolve().parent / model.folder
        fresh = files(model)
        if arguments.check:
            check(folder, fresh)
            continue
        folder.mkdir(exist_ok=True)
        for name, contents in fresh.items():
            (folder / name).write_bytes(contents)
