"""A model's weight files judged against each other and against the index. Pure: works on a `ModelFolder` as read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kit.model.findings import Finding, some
from kit.model.folder import INDEX, Fault, ModelFolder
from kit.model.safetensors import FAULTS, Header, Tensor

FETCH = "fetch the named files again from the model's origin, then: kit model verify"
Module = tuple[tuple[str, Tensor], ...]
_NUMBERED = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors")
_DIGITS = re.compile(r"(?<=\.)\d+(?=\.|$)")


@dataclass(frozen=True)
class Group:
    """All tensors that differ in nothing but layer and expert numbers.

    `kind` is their name with # for each number: "model.layers.#.mlp.experts.#.down_proj.weight".
    """

    kind: str
    tensor: Tensor
    count: int

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return self.count * self.tensor.nbytes


@dataclass(frozen=True)
class Weights:
    """The tensors that vLLM will load, from the files that it will read."""

    tensors: Mapping[str, Tensor]
    groups: tuple[Group, ...]
    files: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(group.nbytes for group in self.groups)

    @property
    def bytes_by_dtype(self) -> dict[str, int]:
        """Bytes of each type, largest first."""
        sums: Counter[str] = Counter()
        for group in self.groups:
            sums[group.tensor.dtype] += group.nbytes
        return dict(sums.most_common())

    def without_layers_from(self, count: int) -> tuple[Group, ...]:
        """The groups of the tensors outside layers `count` and above."""
        kept = {name: tensor for name, tensor in self.tensors.items() if _layer(name) < count}
        return _groups(_variants(_modules(kept)))


def judge_weights(folder: ModelFolder) -> Weights:
    """The weights of a folder, and what is wrong with its files."""
    findings: list[Finding] = []
    if folder.fault:
        findings.append(
            _finding("model-folder", folder.fault.text, "a readable folder with the model", "check the path")
        )
        return Weights({}, (), (), tuple(findings))
    weight_map = _weight_map(folder.index, findings)
    used = set(weight_map.values()) if weight_map else set(folder.shards)
    _judge_presence(folder, used, weight_map, findings)
    _judge_faults({name: value for name, value in folder.shards.items() if name in used}, findings)
    headers = {name: h for name, h in folder.shards.items() if name in used and isinstance(h, Header)}
    tensors, duplicates = _merged(headers)
    if duplicates:
        findings.append(
            _finding(
                "tensor-duplicate",
                f"{len(duplicates)} tensors are in two files: {some(duplicates)}",
                "each tensor once",
                "remove the files that do not belong to this model",
            )
        )
    if weight_map:
        _judge_index(weight_map, headers, folder, findings)
    variants = _variants(_modules(tensors))
    if not has_losses(findings):
        findings += _incomplete_modules(variants)
    return Weights(tensors, _groups(variants), tuple(sorted(headers)), tuple(findings))


def has_losses(findings: Iterable[Finding]) -> bool:
    """Whether files or tensors are known to be lost; what follows from that need not be reported once more."""
    return any(
        finding.severity == "fail" and finding.id.startswith(("shard-", "index-", "weights-", "tensor-missing"))
        for finding in findings
    )


def _modules(tensors: Mapping[str, Tensor]) -> dict[str, Module]:
    """Module name -> its parts and their tensors; "a.b.weight" is part "weight" of module "a.b"."""
    modules: dict[str, Module] = {}
    makes: dict[Module, Module] = {}  # a large model has 70,000 modules of a few makes
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        make = (*modules.get(module, ()), (part, tensor))
        modules[module] = makes.setdefault(make, make)
    return modules


def _layer(name: str) -> int:
    """The number of the layer that a tensor belongs to; -1 for none."""
    number = name.partition(".layers.")[2].partition(".")[0]
    return int(number) if number.isdecimal() else -1


def _variants(modules: Mapping[str, Module]) -> dict[str, dict[Module, list[str]]]:
    """Kind of module -> each make of it that occurs -> the modules of that make."""
    variants: defaultdict[str, defaultdict[Module, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, parts in modules.items():
        variants[_DIGITS.sub("#", name)][parts].append(name)
    return {kind: dict(makes) for kind, makes in variants.items()}


def _groups(variants: Mapping[str, Mapping[Module, list[str]]]) -> tuple[Group, ...]:
    counts: Counter[tuple[str, Tensor]] = Counter()
    for kind, makes in variants.items():
        for parts, names in makes.items():
            for part, tensor in parts:
                counts[f"{kind}.{part}" if kind else part, tensor] += len(names)
    return tuple(Group(kind, tensor, count) for (kind, tensor), count in sorted(counts.items()))


def _finding(id: str, found: str, want: str, fix: str = FETCH) -> Finding:
    return Finding(id, "fail", found, want, fix)


def _warning(id: str, found: str, want: str, fix: str) -> Finding:
    return Finding(id, "warn", found, want, fix)


def _weight_map(index: Mapping[str, Any] | Fault | None, findings: list[Finding]) -> dict[str, str]:
    if index is None:
        return {}
    if isinstance(index, Fault):
        findings.append(_finding("index-invalid", index.text, f"{INDEX} as the model's origin has it"))
        return {}
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        findings.append(_finding("index-invalid", f"{INDEX} has no weight_map of tensor to file", "such a map"))
        return {}
    outside = sorted({file for file in weight_map.values() if "/" in file or file in ("", ".", "..")})
    if outside:
        findings.append(_finding("index-invalid", f"{INDEX} names {some(outside)}", "files of this folder alone"))
        return {}
    return weight_map


def _judge_presence(
    folder: ModelFolder, used: set[str], weight_map: Mapping[str, str], findings: list[Finding]
) -> None:
    if not folder.shards and not used and folder.other_weights:
        findings.append(
            _warning(
                "weights-format",
                f"weights are in {some(list(folder.other_weights))}: nothing is known of them without loading",
                "weights as *.safetensors",
                "take the model's safetensors files, if its origin has them",
            )
        )
    elif not folder.shards and not used:
        findings.append(_finding("weights-missing", f"no weight files in {folder.path}", "weights as *.safetensors"))
    missing = sorted(used - set(folder.shards)) or _missing_of_series(folder.shards, bool(weight_map))
    if missing:
        findings.append(
            _finding("shard-missing", f"{len(missing)} weight files are not there: {some(missing)}", "all of them")
        )
    # Mistral's models bring the same weights once more, in a file of their own format.
    unlisted = sorted(name for name in set(folder.shards) - used if not name.startswith("consolidated"))
    if unlisted:
        findings.append(
            _warning(
                "shard-unlisted",
                f"{INDEX} does not name {some(unlisted)}",
                "every weight file in the index",
                "vLLM will not read them; remove them, or fetch the index that belongs to them",
            )
        )


def _missing_of_series(names: Iterable[str], indexed: bool) -> list[str]:
    """Without an index, files numbered n-of-m tell how many there should be."""
    series: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match and not indexed:
            series[match[1], match[3]].add(int(match[2]))
    return [
        f"{stem}-{number:05}-of-{total}.safetensors"
        for (stem, total), there in sorted(series.items())
        for number in range(1, int(total) + 1)
        if number not in there
    ]


def _judge_faults(shards: Mapping[str, Header | Fault], findings: list[Finding]) -> None:
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in shards.items():
        if isinstance(value, Fault):
            by_kind[value.kind].append(f"{name} ({value.text})")
    for kind, texts in sorted(by_kind.items()):
        plural = "s" if len(texts) > 1 else ""
        findings.append(
            _finding(
                f"shard-{kind}", f"{len(texts)} weight file{plural}: {some(texts)}", f"whole files; here {FAULTS[kind]}"
            )
        )


def _merged(headers: Mapping[str, Header]) -> tuple[dict[str, Tensor], list[str]]:
    tensors: dict[str, Tensor] = {}
    duplicates: list[str] = []
    for _, header in sorted(headers.items()):
        duplicates += [name for name in header.tensors if name in tensors]
        tensors.update(header.tensors)
    return tensors, sorted(duplicates)


def _judge_index(
    weight_map: Mapping[str, str], headers: Mapping[str, Header], folder: ModelFolder, findings: list[Finding]
) -> None:
    lost = sorted(name for name, file in weight_map.items() if file in headers and name not in headers[file].tensors)
    if lost:
        findings.append(
            _finding(
                "tensor-missing",
                f"{len(lost)} tensors are not in the file that {INDEX} names: {some(lost)}",
                "every tensor of the index",
            )
        )
    extra = sorted(name for header in headers.values() for name in header.tensors if name not in weight_map)
    if extra:
        findings.append(
            _warning(
                "tensor-unlisted",
                f"{len(extra)} tensors are not in {INDEX}: {some(extra)}",
                "every tensor in the index",
                "files and index are of two versions of the model: fetch all of them from one",
            )
        )
    metadata = folder.index.get("metadata") if isinstance(folder.index, Mapping) else None
    claimed = metadata.get("total_size") if isinstance(metadata, dict) else None
    complete = len(headers) == len(set(weight_map.values()))
    found = sum(tensor.nbytes for header in headers.values() for tensor in header.tensors.values())
    if complete and type(claimed) is int and claimed != found:
        findings.append(
            _warning(
                "index-size",
                f"{INDEX} says {claimed:,} bytes, the files hold {found:,}",
                "the same",
                "files and index are of two versions of the model, or the index was written carelessly",
            )
        )


def _incomplete_modules(variants: Mapping[str, Mapping[Module, list[str]]]) -> list[Finding]:
    """Modules that lack a part which their like have: a scale without which packed weights mean nothing."""
    incomplete: list[str] = []
    for makes in variants.values():
        usual = dict(max(makes.items(), key=lambda item: len(item[1]))[0])
        for make, names in makes.items():
            parts = dict(make)
            # Of other types it is another kind: one layer left unquantized on purpose.
            if set(parts) < set(usual) and all(parts[part].dtype == usual[part].dtype for part in parts):
                lost = min(set(usual) - set(parts))
                incomplete += [f"{name} without {lost}" for name in names]
    if not incomplete:
        return []
    return [
        _finding(
            "tensor-missing",
            f"{len(incomplete)} modules lack a part that others of their kind have: {some(sorted(incomplete))}",
            "all parts of each module",
        )
    ]
