"""Job specs: a mapping, YAML or a file becomes a JobSpec as the command line reads it. Errors name the field."""
from __future__ import annotations

import difflib
import math
import numbers
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Union

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from .errors import InvalidArgument
from .v1 import job_pb2

Spec = Union[Mapping[str, Any], str, "os.PathLike[str]", job_pb2.JobSpec]

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
          "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_ENUM_NICKNAMES = {"1f1b": "one_forward_one_backward", "zb-h1": "zero_bubble_h1", "zb-v": "zero_bubble_v",
                   "interleaved-1f1b": "interleaved_1f1b", "interleaved-gpipe": "interleaved_gpipe"}
_WHOLE = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
_REAL = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)


class _Plain(str):
    """A scalar of YAML without quotes: what it is, its field says."""


def read_spec(spec: Spec) -> job_pb2.JobSpec:
    """A text without line breaks that ends in .yaml, .yml or .json is a file's name; any other is YAML."""
    if isinstance(spec, job_pb2.JobSpec):
        return spec
    read = job_pb2.JobSpec()
    if isinstance(spec, Mapping):
        _fill(read, spec, "")
        return read
    if isinstance(spec, str) and ("\n" in spec or not spec.endswith((".yaml", ".yml", ".json"))):
        name, text = "the spec", spec
    else:
        name = os.fspath(spec)
        try:
            text = pathlib.Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"cannot read {name}: {error}") from error
    try:
        _fill(read, _parse(text), "")
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from None
    return read


def _parse(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise InvalidArgument("python3-yaml is not installed, and reads specs that are text; give a dict") from None

    def plain(node: yaml.Node | None) -> Any:
        if isinstance(node, yaml.MappingNode):
            entries: dict[str, Any] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.value in entries:
                    raise InvalidArgument(f"line {key.start_mark.line + 1}: a key must be a word that is given once")
                entries[key.value] = plain(value)
            return entries
        if isinstance(node, yaml.SequenceNode):
            return [plain(element) for element in node.value]
        if not isinstance(node, yaml.ScalarNode) or (node.style is None and node.tag == "tag:yaml.org,2002:null"):
            return None
        return str(node.value) if node.style else _Plain(node.value)

    try:
        return plain(yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise InvalidArgument(f"not valid YAML (indentation?): {error}") from error


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _fail(path: str, problem: str) -> InvalidArgument:
    return InvalidArgument(f"{path}: {problem}" if path else problem)


def _fill(message: Message, value: Any, path: str) -> None:
    """Puts a mapping's values into the fields that its keys name."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise _fail(path, 'must have keys of its own ("key: value" lines)')
    for name, inner in value.items():
        field, place = message.DESCRIPTOR.fields_by_name.get(name), _join(path, str(name))
        if field is None:
            known = list(message.DESCRIPTOR.fields_by_name)
            nearest = difflib.get_close_matches(str(name), known, 1)
            raise _fail(place, "unknown key; " + (f'did you mean "{nearest[0]}"?' if nearest else "known are " + ", ".join(known)))
        is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
        if field.label != FieldDescriptor.LABEL_REPEATED:
            if is_message:
                getattr(message, name).SetInParent()
                _fill(getattr(message, name), inner, place)
            else:
                _store(lambda scalar: setattr(message, field.name, scalar), field, inner, place)
            continue
        if inner is not None and (isinstance(inner, (str, bytes)) or not isinstance(inner, Sequence)):
            raise _fail(place, "must be a list")
        for index, element in enumerate(inner or ()):
            if is_message:
                _fill(getattr(message, name).add(), element, f"{place}[{index}]")
            else:
                _store(getattr(message, name).append, field, element, f"{place}[{index}]")


def _store(store: Any, field: FieldDescriptor, value: Any, path: str) -> None:
    if value is None:
        raise _fail(path, "has no value; give one or leave the key out")
    try:
        store(_scalar(field, value))
    except (TypeError, ValueError) as error:
        raise _fail(path, str(error)) from None


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    """Of the field's type. ValueError: it is none, says why."""
    kind, is_text, is_number = field.cpp_type, isinstance(value, str), isinstance(value, numbers.Real) and not isinstance(value, bool)
    shown = value if isinstance(value, _Plain) or not is_text else f'"{value}"'
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return _enum(field.enum_type, str(value))
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if not is_text and not isinstance(value, os.PathLike):
            raise ValueError(f"{value!r} is not a text")
        return os.fspath(value)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        if isinstance(value, bool):
            return value
        if isinstance(value, _Plain) and value in ("true", "false"):
            return value == "true"
        raise ValueError(f"{shown} is neither true nor false")
    if kind in _REAL:
        return _real(value, is_number, shown)
    assert kind in _WHOLE
    if is_number and isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, _Plain) and re.fullmatch(r"[+-]?[0-9]+", value):
        return int(value)
    size = re.fullmatch(r"([0-9.]+) *([A-Za-z]*)", value) if is_text and field.name.endswith("_bytes") else None
    if size is not None and size[2] in _UNITS and (isinstance(value, _Plain) or size[2]):
        return round(float(size[1]) * _UNITS[size[2]])
    raise ValueError(f"{shown} is not a whole number" + (" or a size such as 512MiB" if field.name.endswith("_bytes") else ""))


def _real(value: Any, is_number: bool, shown: Any) -> float:
    if is_number:
        return float(value)
    words = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
    if isinstance(value, _Plain) and value in words:
        return words[value]
    if isinstance(value, _Plain) and re.fullmatch(r"[-+.0-9eE]+", value):
        try:
            return float(value)
        except ValueError:
            pass
    raise ValueError(f"{shown} is not a number")


def word(enum: EnumDescriptor, number: int) -> str:
    """An enum's value as specs and the command line write it: "shuffled", "running"."""
    prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
    known = enum.values_by_number.get(number)
    return str(number) if known is None else str(known.name).removeprefix(prefix).lower()


def _enum(enum: EnumDescriptor, text: str) -> int:
    wanted = _ENUM_NICKNAMES.get(text, text)
    words = {word(enum, value.number): int(value.number) for value in enum.values[1:]}
    if wanted not in words:
        raise ValueError(f'"{text}" is none of {", ".join(words)}')
    return words[wanted]
