"""Probes on tiny sources in the ways that vLLM's releases are written."""

from __future__ import annotations

from typing import Any

import pytest

from kit.patches.inside.probe import PROBES, Finding, judge

LIST = """
class Config:
    def verify(self):
        {name} = {types}
        if self.method == "eagle3" and not any(
            supported in self.target_model_config.hf_text_config.model_type for supported in {name}
        ):
            raise ValueError("only supported for")
"""
BRANCH = """
class Proposer:
    def load_model(self, target_model):
        if self.get_model_name(target_model) in ["Qwen"]:
            self.model.config.image_token_index = target_model.config.image_token_id
        {branch}
        else:
            self.model.config.image_token_index = target_model.config.image_token_index
"""
READS = "self.model.config.image_token_index = target_model.config.media_placeholder_token_id"
MODEL = """
class Base(nn.Module{bases}):
    def forward(self):
        {body}
class DeepseekV3(Base):
    pass
"""
ACCEPTS = {"id": "p", "probe": {"kind": "model-types-accepted", "files": ["a.py"], "types": ["kimi_k2", "kimi_k25"]}}
SPECIAL = {
    "id": "p",
    "probe": {
        "kind": "special-case",
        "files": ["a.py", "b.py"],
        "case": "Kimi",
        "default": "image_token_index",
        "reads": "media_placeholder_token_id",
    },
}
INTERFACE = {
    "id": "p",
    "probe": {
        "kind": "class-interface",
        "files": ["a.py"],
        "class": "DeepseekV3",
        "interface": "SupportsEagle3",
        "uses": ["aux_layers"],
    },
}
ABSENT = {"id": "p", "probe": {"kind": "constant-absent", "files": ["a.py"], "constant": "not supported."}}
MARK = "# kit patch: p\n"


def gate(*types: str, name: str = "eagle3_target_supported") -> str:
    return LIST.format(name=name, types=list(types))


def branch(test: str, body: str = READS) -> str:
    return BRANCH.format(branch=f"elif {test}:\n            {body}")


@pytest.mark.parametrize(
    ("patch", "source", "state"),
    [
        pytest.param(ACCEPTS, gate("llama", "qwen"), "needed", id="list without"),
        pytest.param(ACCEPTS, gate("llama", name="aux_hidden_states_supported"), "needed", id="list of another name"),
        pytest.param(ACCEPTS, gate("llama", "kimi_k25"), "needed", id="list with only one of them"),
        pytest.param(ACCEPTS, gate("llama", "kimi_k2"), "not-needed", id="kimi_k2 is a part of kimi_k25"),
        pytest.param(ACCEPTS, gate("llama", "kimi_k2") + MARK, "applied", id="our mark"),
        pytest.param(ACCEPTS, gate("llama") + MARK, "broken", id="our mark, but not our change"),
        pytest.param(ACCEPTS, "x = ['llama']\n", "not-needed", id="no list is searched any more"),
        pytest.param(ACCEPTS, "def f(:\n", "broken", id="no Python"),
        pytest.param(SPECIAL, BRANCH.format(branch=""), "needed", id="no branch"),
        pytest.param(SPECIAL, branch("name == 'Kimi'"), "not-needed", id="a branch for it"),
        pytest.param(SPECIAL, branch("name in ('Kimi', 'Kimi3')"), "not-needed", id="a branch for several"),
        pytest.param(SPECIAL, branch("name == 'Kimi'", "pass"), "needed", id="a branch that reads something else"),
        pytest.param(SPECIAL, branch("name == 'Llama'"), "needed", id="a branch for another"),
        pytest.param(SPECIAL, branch("name == 'Kimi'") + MARK, "applied", id="our branch"),
        pytest.param(SPECIAL, "class Proposer: pass\n", "not-needed", id="nothing is read any more"),
        pytest.param(INTERFACE, MODEL.format(bases="", body="pass"), "needed", id="no interface"),
        pytest.param(INTERFACE, MODEL.format(bases=", SupportsEagle", body="pass"), "needed", id="the older interface"),
        pytest.param(INTERFACE, MODEL.format(bases=", SupportsEagle3", body="pass"), "needed", id="declared, not done"),
        pytest.param(
            INTERFACE, MODEL.format(bases=", SupportsEagle3", body="self.aux_layers"), "not-needed", id="by its base"
        ),
        pytest.param(
            INTERFACE, MARK + MODEL.format(bases=", SupportsEagle3", body="self.aux_layers"), "applied", id="ours"
        ),
        pytest.param(INTERFACE, "class Other: pass\n", "needed", id="no such class"),
        pytest.param(ABSENT, "assert x is None, 'not supported.'\n", "needed", id="asserted"),
        pytest.param(ABSENT, "# 'not supported.'\n", "not-needed", id="only a comment"),
    ],
)
def test_what_a_probe_finds(patch: dict[str, Any], source: str, state: str) -> None:
    finding = judge({"a.py": source}.get, patch)
    assert finding.state == state, finding


def test_a_probe_looks_into_every_file_it_names() -> None:
    old, new = BRANCH.format(branch=""), "class Proposer: pass\n"
    assert judge({"a.py": new, "b.py": old}.get, SPECIAL).state == "needed"
    assert judge({"a.py": new, "b.py": new}.get, SPECIAL).state == "not-needed"


def test_no_file_at_all_is_no_answer() -> None:
    assert judge({}.get, SPECIAL) == Finding("broken", "none of these files is there: a.py, b.py")


def test_the_reason_is_told() -> None:
    assert judge({"a.py": gate("llama")}.get, ACCEPTS).why == "eagle3_target_supported leaves out kimi_k2, kimi_k25"
    assert judge({"a.py": BRANCH.format(branch="")}.get, SPECIAL).why == (
        "load_model reads image_token_index for every model, Kimi has media_placeholder_token_id"
    )


def test_every_kind_of_probe_is_tested_here() -> None:
    assert {patch["probe"]["kind"] for patch in (ACCEPTS, SPECIAL, INTERFACE, ABSENT)} == set(PROBES)  # type: ignore[index]
