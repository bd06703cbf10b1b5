"""kit.yaml: good files load, bad ones are answered with every fault and its place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.config import load
from kit.config.load import variables
from kit.config.schema import format_size, parse_size
from kit.config.tree import parse
from kit.errors import KitError, MissingError, UsageError

ROOT = Path(__file__).parents[3]
GOOD = """\
name: x
engine: {vllm: 0.32.0, device: cpu}
model: {reference: llama, served_name: tiny}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "kit.yaml"
    path.write_text(text)
    return path


def faults(tmp_path: Path, text: str, *sets: str, **environ: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        load(write(tmp_path, text), sets, environ)
    return caught.value.evidence


@pytest.mark.parametrize("name", ["kit.yaml", "examples/embedded.yaml", "examples/llama-one-gpu.yaml"])
def test_the_shipped_files_are_good(name: str) -> None:
    assert load(ROOT / name, environ={}).kit.schema_ == "kit/1"


def test_the_production_file_drafts_five_tokens_on_eight_cards() -> None:
    kit = load(ROOT / "kit.yaml", environ={}).kit
    assert kit.speculative is not None
    assert (kit.speculative.num_speculative_tokens, kit.gpus.count, kit.parallel.tensor) == (5, 8, 8)
    assert kit.server.host == "127.0.0.1"


def test_every_fault_at_once_with_place_and_nearest_key(tmp_path: Path) -> None:
    text = GOOD.replace("name: x", "name: Bad Name") + "server:\n  prot: 1\n  port: '8000'\nlimits:\n  shm: 5\nzap: 1\n"
    found = faults(tmp_path, text)
    assert found == [
        "kit.yaml:1:1: name: must be 1 to 40 lower-case letters, digits and hyphens; found 'Bad Name'",
        "kit.yaml:5:3: server.prot: is not a known key; did you mean `port`?",
        "kit.yaml:6:3: server.port: must be a whole number; found '8000'",
        "kit.yaml:8:3: limits.shm: must be a size with a unit, such as 6GiB (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB);"
        " found 5",
        "kit.yaml:9:1: zap: is not a known key; allowed: schema, name, engine, model, speculative, gpus, parallel,"
        " server, limits, caches, mounts, smoke",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:\n\tb: 1\n\tc: 2\n", ["kit.yaml:2:1: a tab in the", "kit.yaml:3:1: a tab in the"]),
        (GOOD + "name: y\n", ["kit.yaml:4:1: name: a second time; the first is in line 1"]),
        ("a: [1\n", ["kit.yaml:2:1: not YAML"]),
        ("- a\n", ["kit.yaml:1:1: the file must hold a mapping"]),
        ("just text\n", ["kit.yaml:1:1: the file must hold a mapping"]),
        ("a: 1\n---\nb: 2\n", ["not YAML: expected a single document"]),
        ("a: !!python/object/apply:os.system [x]\n", ["a: "]),
        ("<<: {a: 1}\n", ["kit.yaml:1:1: keys must be plain words"]),
        (GOOD.replace("0.32.0", "0.32"), ["kit.yaml:2:10: engine.vllm: must be text; found 0.32; quote it"]),
        (GOOD.replace("llama", "lama"), ["did you mean `llama`?"]),
        ("", ["name: is needed and missing", "engine: is needed and missing", "model: is needed and missing"]),
        (GOOD.replace("reference: llama, ", ""), ["model: needs one of `path` and `reference`"]),
        (GOOD + "gpus: {count: 2}\n", ["gpus.count: must be 0 when engine.device is cpu"]),
        (GOOD + "server: {host: 0.0.0.0}\n", ["server.host: is open to the network: that needs server.api_key_file"]),
        (GOOD.replace("cpu}", "cpu, args: [--port=1]}"), ["engine.args[0]: --port is set by server.port"]),
        (GOOD.replace("cpu}", "cpu, args: [-tp, '2']}"), ["engine.args[0]: -tp is set by parallel.tensor"]),
        (GOOD.replace("cpu}", "cpu, env: {HF_TOKEN: x}}"), ["engine.env.HF_TOKEN: looks like a secret"]),
        (GOOD.replace("device: cpu", "device: cuda"), ["gpus.count: 0 GPUs for parallel.tensor"]),
        (
            GOOD.replace("device: cpu", "device: cuda") + "gpus: {count: 2, devices: ['0']}\n",
            ["gpus.devices: 1 named, gpus.count is 2"],
        ),
        (
            GOOD + "speculative: {drafter: {reference: aux}}\nparallel: {pipeline: 2}\n",
            ["parallel.pipeline: 2 with EAGLE-3"],
        ),
        (GOOD + 'mounts: [{source: a, target: /model}]\n', ["mounts[0].target: /model is already taken"]),
        (GOOD.replace("tiny", '"a\\nb"'), ["model.served_name: must be text of one line"]),
        ("a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &b{i} [{','.join([f'*b{i-1}' if i else '*a'] * 9)}]\n"
          for i in range(9)), ["unfolds to far more"]),
    ],
)  # fmt: skip
def test_a_fault_is_named(tmp_path: Path, text: str, said: list[str]) -> None:
    found = faults(tmp_path, text)
    for part in said:
        assert any(part in line for line in found), found


def test_precedence_is_flag_variable_file_default(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + "server: {port: 1}\n")
    assert load(path, [], {}).kit.server.port == 1
    assert load(path, [], {"KIT_SERVER_PORT": "2"}).kit.server.port == 2
    both = load(path, ["server.port=3"], {"KIT_SERVER_PORT": "2"})
    assert both.kit.server.port == 3
    assert both.sources["server", "port"] == "--set"
    assert both.kit.limits.restarts == 3


def test_a_fault_from_outside_names_where_it_came_from(tmp_path: Path) -> None:
    found = faults(tmp_path, GOOD, "server.hots=1", KIT_SERVER_PORT="x")
    assert found == [
        "kit.yaml: server.port: must be a whole number; found 'x' (from KIT_SERVER_PORT)",
        "kit.yaml: server.hots: is not a known key; did you mean `host`? (from --set)",
    ]


def test_a_list_item_can_be_set(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + "mounts: [{source: a, target: /a}]\n")
    assert load(path, ["mounts.0.source=b"], {}).kit.mounts[0].source == "b"


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="there is no"):
        load(tmp_path / "kit.yaml")
    (tmp_path / "kit.yaml").write_bytes(b"name: x\n\xff\xfe")
    with pytest.raises(UsageError) as caught:
        load(tmp_path)
    assert caught.value.evidence == ["kit.yaml:2:1: is not UTF-8 text"]
    (tmp_path / "kit.yaml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(UsageError, match="larger than"):
        load(tmp_path)


def test_variables_name_each_key_once() -> None:
    names = [name for name, _ in variables()]
    assert len(names) == len(set(names))
    assert "KIT_SMOKE_GATES_ACCEPTANCE_RATE" in names
    assert not {"KIT_HOME", "KIT_FILE"} & set(names)


@pytest.mark.parametrize(("text", "size"), [("6GiB", 6 << 30), ("1.5 GB", 1_500_000_000), ("64B", 64)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert parse_size(format_size(size)) == size


@given(st.text(max_size=200))
def test_any_text_is_answered_not_crashed_on(text: str) -> None:
    tree = parse(text)
    assert tree.faults or tree.data is None or tree.positions


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["reference", "path", "port"]), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["engine", "model", "server", "limits", "smoke", "x"]), values))
def test_any_yaml_is_answered_with_faults(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    import yaml

    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(value), errors="replace")
    with pytest.raises(KitError) as caught:
        load(path, [], {})
    assert caught.value.exit_code == 2
    assert caught.value.evidence
