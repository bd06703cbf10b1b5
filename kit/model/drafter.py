"""An EAGLE-3 drafter judged against its target: would it start, and would its guesses mean anything? Pure.

A wrong drafter often starts healthy: a missing d2t, wrong auxiliary layers or a missing fc show only in the
acceptance rate, or at the first request. Everything here can be read from headers and config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packaging.version import Version

from kit.model.config import ModelConfig
from kit.model.draft_vocabulary import judge_draft_vocabulary
from kit.model.findings import Finding
from kit.model.folder import ModelFolder
from kit.model.safetensors import Tensor
from kit.model.target import ModelFacts, judge_config
from kit.model.weights import judge_weights

LLAMA_LIKE = ("llama", "qwen")
MLA_LIKE = ("deepseek", "kimi")
MLA_DRAFTERS_SINCE = Version("0.18")
POSITIONS_OF_TARGET_SINCE = Version("0.27")  # from then on the drafter's rotary embedding is sized by the target's
FLAGS_SINCE = {
    "norm_before_fc": Version("0.18"),
    "fc_norm": Version("0.22"),
    "norm_output": Version("0.22"),
    "num_aux_hidden_states": Version("0.22"),
}
"""Keys of a drafter's config that change its computation, and the first vLLM that reads each."""
DEFAULT_AUXILIARY = 3
LAYER_PREFIXES = ("midlayer.", "layers.0.", "model.layers.0.", "model.midlayer.")
CONTACT = "take the drafter that was trained for this target; its model card names the target"
AGAIN = "fetch the drafter's weights again"
MIXED = "config.json and weights are of two drafters: fetch both from one"
LAYER_IDS = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True)
class Use:
    """How the drafter will be used: the version of vLLM and the longest context, None where not known."""

    vllm: str | None = None
    max_model_len: int | None = None


def judge_drafter(folder: ModelFolder, target: ModelFacts, use: Use | None = None) -> ModelFacts:
    """Everything known of a drafter, and everything wrong with it for this target."""
    config, findings = judge_config(folder)
    weights = judge_weights(folder)
    findings += weights.findings
    if config:
        judge = _Judge(config, target.config, weights.tensors, folder.small, use or Use())
        findings += judge.architecture()
        if weights.tensors:
            findings += judge.all()
    return ModelFacts(folder.path.name, config, weights, tuple(findings))


def auxiliary_layers(draft: ModelConfig, target_layers: int) -> tuple[int, ...]:
    """The target layers whose input states the drafter gets: its config's, or vLLM's default for EAGLE-3."""
    named = draft.draft.eagle_aux_hidden_state_layer_ids
    return tuple(named) if named else (2, target_layers // 2, target_layers - 3)


class _Judge:
    def __init__(
        self,
        config: ModelConfig,
        target: ModelConfig | None,
        tensors: Mapping[str, Tensor],
        small: Mapping[str, bytes],
        use: Use,
    ):
        self.config, self.text, self.draft = config, config.text, config.draft
        self.target = target.text if target else None
        self.tensors, self.small, self.use = tensors, small, use
        self.hidden = self.text.hidden_size
        self.auxiliary = self.draft.num_aux_hidden_states or DEFAULT_AUXILIARY

    def all(self) -> list[Finding]:
        return [
            *self.hidden_size(),
            *self.vocabulary(),
            *self.draft_vocabulary(),
            *self.fc(),
            *self.layers(),
            *self.attention(),
            *self.norms(),
            *self.positions(),
        ]

    def architecture(self) -> list[Finding]:
        name = self.config.architecture or ""
        lower = name.lower()
        if "eagle" in lower and "eagle3" not in lower:
            return [_fail("drafter-architecture", f"{name} is an EAGLE-1 drafter", "an EAGLE-3 drafter", CONTACT)]
        if any(word in lower for word in MLA_LIKE):
            if self.use.vllm and Version(self.use.vllm) < MLA_DRAFTERS_SINCE:
                return [
                    _fail(
                        "drafter-architecture",
                        f"{name}: vLLM {self.use.vllm} takes only Llama-type drafters",
                        f"a Llama-type drafter, or vLLM {MLA_DRAFTERS_SINCE} or later",
                        "set engine.vllm in kit.yaml to a later release, or take a Llama-type drafter",
                    )
                ]
        elif name and not any(word in lower for word in LLAMA_LIKE):
            return [
                Finding(
                    "drafter-architecture",
                    "warn",
                    f"{name} is no EAGLE-3 architecture known here",
                    "LlamaForCausalLMEagle3 or its like",
                    "check that this vLLM knows it: kit rehearse",
                )
            ]
        return []

    def hidden_size(self) -> list[Finding]:
        findings = []
        wanted = self.target.hidden_size if self.target else None
        reads = self.draft.target_hidden_size or self.hidden
        if wanted and reads and reads != wanted:
            findings.append(
                _fail(
                    "drafter-hidden-size",
                    f"made for a target of hidden size {reads}; the target's is {wanted}",
                    f"a drafter for hidden size {wanted}",
                    CONTACT,
                )
            )
        return findings + self._shape("norm.weight", (self.hidden,), needed=False)

    def vocabulary(self) -> list[Finding]:
        findings = []
        wanted, said = (self.target.vocab_size if self.target else None), self.text.vocab_size
        if wanted and said and wanted != said:
            findings.append(
                _fail(
                    "drafter-vocabulary",
                    f"config.json says a vocabulary of {said}; the target's is {wanted}",
                    f"vocab_size {wanted} (draft_vocab_size may be smaller)",
                    CONTACT,
                )
            )
        if self._named("embed_tokens.weight"):
            findings += self._shape("embed_tokens.weight", (said, None))
        return findings + self._shape("lm_head.weight", (self._draft_vocabulary(), self.hidden), needed=False)

    def _draft_vocabulary(self) -> int | None:
        return self.draft.draft_vocab_size or self.text.vocab_size

    def draft_vocabulary(self) -> list[Finding]:
        draft, full = self._draft_vocabulary(), self.target.vocab_size if self.target else self.text.vocab_size
        if not draft or not full or draft == full:
            return []
        findings = judge_draft_vocabulary(draft, full, self.tensors, self.small)
        if not self._named("lm_head.weight"):
            findings.append(_fail("drafter-tensor", "no lm_head.weight of its own", "one row per draft token", AGAIN))
        return findings

    def fc(self) -> list[Finding]:
        if self.draft.use_aux_hidden_state is False:
            return []
        reads = self.draft.target_hidden_size or self.hidden
        found = self._named("fc.weight")
        quantized = any(name.startswith(("fc.", "model.fc.")) for name in self.tensors)
        if not found and not quantized:
            return [
                _fail(
                    "drafter-fc",
                    "no fc.weight: vLLM would start and read uninitialised memory in its place",
                    "fc.weight, which joins the auxiliary states",
                    AGAIN,
                )
            ]
        if not found or not reads or not self.hidden:
            return []
        shape, wanted = self.tensors[found].shape, (self.hidden, self.auxiliary * reads)
        if shape == wanted:
            return []
        joins = f", it joins {shape[1] / reads:g} states" if len(shape) == 2 else ""
        return [
            _fail(
                "drafter-fc",
                f"fc.weight is {list(shape)}{joins}",
                f"{list(wanted)}: {self.auxiliary} auxiliary states of {reads}",
                MIXED,
            )
        ]

    def layers(self) -> list[Finding]:
        if self.draft.use_aux_hidden_state is False or not (self.target and self.target.num_hidden_layers):
            return []
        count = self.target.num_hidden_layers
        layers = auxiliary_layers(self.config, count)
        named = bool(self.draft.eagle_aux_hidden_state_layer_ids)
        source = f"config.json: {LAYER_IDS}" if named else f"vLLM's default for a target of {count} layers"
        text = f"{source} is {list(layers)}"
        if len(set(layers)) < len(layers):
            want = "different layers; the first request would die of a shape otherwise"
        elif not all(0 <= layer < count for layer in layers):
            want = f"layers 0 to {count - 1} of the target"
        elif len(layers) != self.auxiliary:
            want = f"{self.auxiliary} layers, as many as fc joins"
        elif list(layers) != sorted(layers):
            want = "ascending: vLLM hands the states over in the order of the layers, whatever the list says"
        else:
            return []
        fix = "correct it in the drafter's config.json" if named else f"name the layers in config.json: {LAYER_IDS}"
        return [_fail("drafter-layers", text, want, fix)]

    def attention(self) -> list[Finding]:
        prefix = next((p for p in LAYER_PREFIXES if any(name.startswith(p) for name in self.tensors)), None)
        if prefix is None:
            return [_fail("drafter-tensor", "no decoder layer (midlayer or layers.0)", "one", AGAIN)]
        if self.text.mla or any(word in (self.config.architecture or "").lower() for word in MLA_LIKE):
            return []
        heads, size, hidden = self.text.num_attention_heads, self.text.head_size, self.hidden
        if not (heads and size and hidden and self.text.kv_heads):
            return []
        key = self.text.kv_heads * size
        wanted = {
            "q_proj": (heads * size, 2 * hidden),
            "k_proj": (key, 2 * hidden),
            "v_proj": (key, 2 * hidden),
            "o_proj": (hidden, heads * size),
        }
        findings = []
        for part, shape in wanted.items():
            module = f"{prefix}self_attn.{part}."
            if not any(
                name.startswith(module) for name in self.tensors
            ) and f"{prefix}self_attn.qkv_proj.weight" not in (self.tensors):
                findings.append(_fail("drafter-tensor", f"no {module}weight", "one", AGAIN))
            findings += self._shape(f"{module}weight", shape, needed=False)
        return findings

    def norms(self) -> list[Finding]:
        """Flags that change the computation, against the tensors that go with them and the vLLM that reads them."""
        findings = []
        for flag, tensor in (("norm_before_fc", "input_norm."), ("fc_norm", "fc_norm.")):
            there, value = any(tensor in name for name in self.tensors), getattr(self.draft, flag)
            if value and not there:
                text = f"config.json sets {flag}, and there is no {tensor}weight"
                findings.append(_fail("drafter-norm", text, "both or none", MIXED))
            if there and not value:
                text = f"there is {tensor}weight, and config.json does not set {flag}: it would be left out"
                fix = f'set "{flag}": true in the drafter\'s config.json'
                findings.append(_fail("drafter-norm", text, "both or none", fix))
        for flag, since in FLAGS_SINCE.items():
            value = getattr(self.draft, flag)
            if value and value != DEFAULT_AUXILIARY and self.use.vllm and Version(self.use.vllm) < since:
                text = f"config.json sets {flag}, which vLLM {self.use.vllm} does not read"
                fix = f"set engine.vllm in kit.yaml to {since} or later"
                findings.append(_fail("drafter-norm", text, f"vLLM {since} or later", fix))
        return findings

    def positions(self) -> list[Finding]:
        limit = self.text.max_position_embeddings
        wanted = self.use.max_model_len or (self.target.max_position_embeddings if self.target else None)
        sized_by_target = self.use.vllm and Version(self.use.vllm) >= POSITIONS_OF_TARGET_SINCE
        if not limit or not wanted or limit >= wanted or sized_by_target:
            return []
        return [
            Finding(
                "drafter-positions",
                "warn",
                f"the drafter has {limit:,} positions, the context {wanted:,}: beyond those its guesses are wrong",
                "as many as the context",
                f"in kit.yaml: model.max_model_len {limit}, or engine.vllm {POSITIONS_OF_TARGET_SINCE} or later",
            )
        ]

    def _named(self, name: str) -> str | None:
        return next((full for full in (name, f"model.{name}") if full in self.tensors), None)

    def _shape(self, name: str, wanted: tuple[int | None, ...], needed: bool = True) -> list[Finding]:
        found = self._named(name)
        if found is None:
            return [_fail("drafter-tensor", f"no {name}", "one", AGAIN)] if needed else []
        shape = self.tensors[found].shape
        if len(shape) == len(wanted) and all(w is None or w == s for w, s in zip(wanted, shape, strict=True)):
            return []
        want = ", ".join("any" if size is None else str(size) for size in wanted)
        return [
            _fail(
                "drafter-shape",
                f"{found} is {list(shape)}",
                f"[{want}] by config.json",
                MIXED,
            )
        ]


def _fail(id: str, found: str, want: str, fix: str) -> Finding:
    return Finding(id, "fail", found, want, fix)
