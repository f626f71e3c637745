#!/usr/bin/env python3
"""Whether two directories hold the same model as Hugging Face's loaders see it: compare_models.py DIRECTORY DIRECTORY

Reads config.json and model.safetensors by the format's description alone, with nothing but Python's own library.
Exits with 1 and a line for each difference. Of the configs, members that only one has are not compared.
"""

import json
import pathlib
import struct
import sys

NOT_OF_THE_MODEL = {"bos_token_id", "eos_token_id"}  # of the tokenizer


def tensors(path):
    """Name to (dtype, shape, bytes)."""
    contents = path.read_bytes()
    (length,) = struct.unpack("<Q", contents[:8])
    header = json.loads(contents[8 : 8 + length])
    data = contents[8 + length :]
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            assert entry["format"] == "pt", f"{path}: format is {entry['format']}, transformers wants pt"
            continue
        begin, end = entry["data_offsets"]
        assert 0 <= begin <= end <= len(data), f"{path}: {name} lies outside the file"
        found[name] = (entry["dtype"], entry["shape"], data[begin:end])
    return found


def differences(a, b):
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            yield f"{name} is only in {'the first' if name in a else 'the second'}"
        elif a[name] != b[name]:
            yield f"{name} differs: {a[name][:2]}, {b[name][:2]}"


def config_differences(a, b):
    for name in sorted(a.keys() & b.keys() - NOT_OF_THE_MODEL):
        if a[name] != b[name]:
            yield f"config.json: {name} is {a[name]} and {b[name]}"


def main():
    first, second = (pathlib.Path(argument) for argument in sys.argv[1:3])
    configs = [json.loads((folder / "config.json").read_text()) for folder in (first, second)]
    weights = [tensors(folder / "model.safetensors") for folder in (first, second)]
    found = [*config_differences(*configs), *differences(*weights)]
    print("\n".join(found) or f"{first} and {second}: the same model of {len(weights[0])} tensors")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
