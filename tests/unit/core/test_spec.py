import copy
from dataclasses import replace

import pytest

from glowplug.core.document import Document
from glowplug.core.reference import LayoutRepository, RegistryRepository
from glowplug.core.spec import (
    MAX_VERSION_LENGTH,
    CogConfig,
    CogWorkload,
    FileVersion,
    GitVersion,
    LiteralVersion,
    ModelSpec,
    Override,
    Overrides,
    ProveSpec,
    PythonWorkload,
    RunSpec,
    Spec,
    settle,
    version_flaw,
    version_tag,
)
from glowplug.core.spec_schema import parse_spec
from glowplug.core.surroundings import Surroundings
from glowplug.errors import SpecError

SMALLEST = {
    "model": {"name": "flux", "version": "v3"},
    "run": {"python": "mymodel:warm"},
    "artifact": "ghcr.io/acme/flux-cache",
}
COG = CogConfig("predict.py:Predictor", {"A": "cog", "B": "cog"})
DELETED = object()


def read_cog(folder):
    if folder == "nowhere":
        raise SpecError("nowhere holds no cog.yaml")
    return COG


def file_digest(path):
    if path.endswith("nowhere.png"):
        raise SpecError(f"{path} cannot be read: No such file or directory")
    return "sha256:" + path.encode().hex()


def parse(values, environ=None, overrides=None, **document):
    around = Surroundings(environ or {}, read_cog, file_digest, overrides or {})
    return parse_spec(Document("glowplug.yaml", values, **document), around)


def problems_of(values, environ=None, overrides=None, **document):
    with pytest.raises(SpecError) as caught:
        parse(values, environ, overrides, **document)
    assert caught.value.exit_code == 3
    return str(caught.value).splitlines()


def changed(changes):
    """Return the smallest spec with ``{"run.seed": 1}`` put in."""
    values = copy.deepcopy(SMALLEST)
    for path, value in changes.items():
        *sections, key = path.split(".")
        section = values
        for name in sections:
            section = section.setdefault(name, {})
        if value is DELETED:
            del section[key]
        else:
            section[key] = value
    return values


def test_smallest_spec_gets_the_defaults():
    assert parse(SMALLEST) == Spec(
        ModelSpec("flux", LiteralVersion("v3")),
        RunSpec(PythonWorkload("mymodel:warm", "."), ({},), {}, (), None, 3600.0, 0),
        RegistryRepository("ghcr.io", "acme/flux-cache"),
        ProveSpec(1e-3, 0, 3),
    )


def test_every_key_is_read():
    run = {
        "python": "pkg.mymodel:App.warm",
        "inputs": [{"prompt": "a cat", "width": 1024, "cfg": None}, [1, 2.5], "text", 7, False],
        "dir": "src",
        "interpreter": "/opt/venv/bin/python",
        "env": {"OMP_NUM_THREADS": "4", "HOME_OF": "${WHO}/x", "EMPTY": "", "PLAIN": "$${WHO} $WHO"},
        "secrets": ["HF_TOKEN"],
        "timeout_s": 90,
        "seed": 7,
    }
    prove = {"output_tolerance": 0, "max_compile_work": 2, "steady_runs": 5}
    spec = parse(changed({"run": run, "prove": prove, "artifact": "oci:./build/cache"}), {"WHO": "me"})
    assert spec.run == RunSpec(
        PythonWorkload("pkg.mymodel:App.warm", "src"),
        ({"prompt": "a cat", "width": 1024, "cfg": None}, [1, 2.5], "text", 7, False),
        {"OMP_NUM_THREADS": "4", "HOME_OF": "me/x", "EMPTY": "", "PLAIN": "${WHO} $WHO"},
        ("HF_TOKEN",),
        "/opt/venv/bin/python",
        90.0,
        7,
    )
    assert spec.prove == ProveSpec(0.0, 2, 5)
    assert spec.artifact == LayoutRepository("./build/cache")


def test_cog_workload_takes_what_cog_yaml_says():
    spec = parse(changed({"run": {"cog": "model", "weights": "https://x/w.bin", "env": {"B": "spec"}}}))
    assert spec.run.workload == CogWorkload(
        "model", "predict.py:Predictor", {"A": "cog", "B": "cog"}, "https://x/w.bin"
    )
    assert spec.run.environment == {"A": "cog", "B": "spec", "COG_WEIGHTS": "https://x/w.bin"}


@pytest.mark.parametrize(
    ("version", "source"),
    [
        ("v3", LiteralVersion("v3")),
        ("${SHA}-${RUN}", LiteralVersion("abc-7")),
        ({"git": "describe"}, GitVersion("describe")),
        ({"git": "commit"}, GitVersion("commit")),
        ({"file": "weights.bin"}, FileVersion("weights.bin")),
    ],
)
def test_version_sources(version, source):
    assert (
        parse(changed({"model.version": version}), {"SHA": "abc", "RUN": "7"}).model.version_source == source
    )


MISSING_MODEL = "model is missing; write model: {name: flux-schnell, version: v3}"
MISSING_RUN = "run is missing; write run: {python: mymodel:warm} or run: {cog: .}"
MISSING_ARTIFACT = "artifact is missing; write ghcr.io/acme/flux-cache or oci:./build/cache"
ONE_SOURCE = (
    "model.version: must name one source: {git: describe}, {git: commit}, {file: PATH} or {image: digest}"
)
EMPTY = "is empty; write a value, or leave the key out"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": DELETED}, MISSING_MODEL),
        ({"run": DELETED}, MISSING_RUN),
        ({"artifact": DELETED}, MISSING_ARTIFACT),
        ({"modell": {}}, "modell: unknown key; did you mean 'model'?"),
        ({"zzz": 1}, "zzz: unknown key; possible here: model, run, artifact, prove"),
        ({"model": None}, f"model: {EMPTY}"),
        ({"model": "flux"}, "model: must be a mapping of keys to values, but is the text 'flux'"),
        ({"model.name": DELETED}, "model: name is missing; write one such as flux-schnell"),
        (
            {"model.name": "Flux Dev"},
            "model.name: 'Flux Dev' may hold only a-z, 0-9, '.', '_' and '-', at most 128 of them",
        ),
        ({"model.name": 7}, "model.name: must be text, but is the number 7; quote it"),
        (
            {"model.version": DELETED},
            'model: version is missing; write v3, "${GIT_SHA}", {git: describe} or {file: weights.bin}',
        ),
        ({"model.version": None}, f"model.version: {EMPTY}"),
        ({"model.version": " "}, f"model.version: {EMPTY}"),
        ({"model.version": "${EMPTY}"}, "model.version: is empty"),
        ({"model.version": "${SHA}"}, "model.version: ${SHA} is not set in the environment"),
        (
            {"model.version": "${SHA:-x}"},
            "model.version: '${SHA:-x}' cannot be read; write ${NAME}, or $${ for a plain ${",
        ),
        (
            {"model.version": "${SHA"},
            "model.version: '${SHA' cannot be read; write ${NAME}, or $${ for a plain ${",
        ),
        (
            {"model.version": "///"},
            "model.version: '///' holds no letter and no digit, of which a tag could be made",
        ),
        ({"model.version": "a\tb"}, "model.version: 'a\\tb' holds characters that cannot be printed"),
        (
            {"model.version": "x" * 65},
            (
                "model.version: is 65 characters long, which leaves no room for the GPU type in a tag; "
                "use at most 64"
            ),
        ),
        ({"model.version": ["v3"]}, "model.version: must be text, but is a list"),
        ({"model.version": {}}, ONE_SOURCE),
        ({"model.version": {"git": "describe", "file": "x"}}, ONE_SOURCE),
        ({"model.version": {"gti": "describe"}}, "model.version.gti: unknown key; did you mean 'git'?"),
        (
            {"model.version": {"git": "tag"}},
            "model.version.git: must be describe or commit, but is the text 'tag'",
        ),
        ({"model.version": {"file": None}}, f"model.version.file: {EMPTY}"),
        ({"run": {}}, "run: names nothing to run; write python: mymodel:warm, cog: . or command: [...]"),
        ({"run.cog": "."}, "run: has both cog and python; keep one"),
        (
            {"run.input": []},
            "run.input: unknown key; did you mean 'inputs'?",
        ),
        (
            {"run.python": "mymodel.warm"},
            "run.python: must look like module:callable, but is the text 'mymodel.warm'",
        ),
        (
            {"run.weights": "w.bin"},
            "run.weights: only a Cog predictor takes weights; pass them through inputs or env",
        ),
        (
            {"run": {"cog": ".", "dir": "x"}},
            "run.dir: a Cog model runs in the folder of its cog.yaml; leave dir out",
        ),
        ({"run": {"cog": "nowhere"}}, "run.cog: nowhere holds no cog.yaml"),
        (
            {"run": {"cog": ".", "inputs": ["a cat"]}},
            "run.inputs[0]: must map a predictor's inputs to values, but is the text 'a cat'",
        ),
        ({"run.inputs": []}, "run.inputs: lists nothing; leave the key out for one call without arguments"),
        (
            {"run.inputs": {"prompt": "x"}},
            "run.inputs: must be a list, one '- ' line per entry, but is a mapping",
        ),
        ({"run.inputs": [{}, None]}, "run.inputs[1]: is empty; write {} for a call without arguments"),
        (
            {"run.inputs": [{"cfg": [float("nan")]}]},
            "run.inputs[0].cfg[0]: must be a finite number, but is nan",
        ),
        (
            {"run.inputs": [{True: 1}]},
            "run.inputs[0].True: this key was read by YAML as the truth value true; quote it",
        ),
        ({"run.env": ["A=1"]}, "run.env: must be a mapping of keys to values, but is a list"),
        ({"run.env": {"A-B": "1"}}, "run.env.A-B: is no name of an environment variable"),
        ({"run.env": {"A": True}}, "run.env.A: must be text, but is the truth value true; quote it"),
        (
            {"run.env": {"A": "1"}, "run.secrets": ["A"]},
            "run.env.A: is listed in run.secrets too; keep one",
        ),
        (
            {"run.env": {"A": "x${EMPTY}"}, "run.secrets": ["EMPTY"]},
            "run.env.A: ${EMPTY} is a secret (run.secrets), and would be recorded here",
        ),
        (
            {"run.secrets": "HF_TOKEN"},
            "run.secrets: must be a list, one '- ' line per entry, but is the text 'HF_TOKEN'",
        ),
        ({"run.secrets": [5]}, "run.secrets[0]: must be text, but is the number 5; quote it"),
        ({"run.secrets": ["A", "A"]}, "run.secrets[1]: A is listed twice"),
        ({"run.secrets": ["a b"]}, "run.secrets[0]: 'a b' is no name of an environment variable"),
        (
            {"run.secrets": ["TRITON_TOKEN"]},
            (
                "run.secrets[0]: torch would write the value of TRITON_TOKEN into the cache, as it does for "
                "every name with TORCH, DYNAMO, INDUCTOR, TRITON in it; rename the variable"
            ),
        ),
        ({"run.timeout_s": 0}, "run.timeout_s: must be a number of at least 1, but is 0"),
        ({"run.timeout_s": float("inf")}, "run.timeout_s: must be a number of at least 1, but is inf"),
        (
            {"run.timeout_s": "60"},
            "run.timeout_s: must be a number, but is the text '60'; write it without quotes",
        ),
        ({"run.timeout_s": "soon"}, "run.timeout_s: must be a number, but is the text 'soon'"),
        ({"run.seed": -1}, "run.seed: must be a number of at least 0, but is -1"),
        ({"run.seed": 1.5}, "run.seed: must be a whole number, but is the number 1.5"),
        ({"run.seed": 2**32}, "run.seed: must be at most 4294967295, but is 4294967296"),
        ({"run.seed": True}, "run.seed: must be a number, but is the truth value true"),
        (
            {"artifact": "ghcr.io/acme/flux:v3"},
            (
                "artifact: 'ghcr.io/acme/flux:v3' carries a tag or a digest where a repository is expected; "
                "write ghcr.io/acme/flux; tags are made from the model's version and the GPU type"
            ),
        ),
        ({"artifact": "${REPO}"}, "artifact: ${REPO} is not set in the environment"),
        ({"prove": []}, "prove: must be a mapping of keys to values, but is a list"),
        ({"prove.steady_runs": 0}, "prove.steady_runs: must be a number of at least 1, but is 0"),
        ({"prove.tolerance": 1}, "prove.tolerance: unknown key; did you mean 'output_tolerance'?"),
    ],
)
def test_each_mistake_gives_one_message(changes, expected):
    assert problems_of(changed(changes), {"EMPTY": ""}) == [f"glowplug.yaml: {expected}"]


@pytest.mark.parametrize(
    ("values", "found"), [(None, "empty"), ([], "a list"), ("x", "the text 'x'"), (3, "the number 3")]
)
def test_a_spec_is_a_mapping(values, found):
    assert problems_of(values) == [f"glowplug.yaml: must be a mapping of keys to values, but is {found}"]


def test_all_problems_come_at_once_in_the_order_of_the_file():
    values = {"run": {"python": "x"}, "prove": {"steady_runs": 0}, "model": {"name": "A", "version": 1.1}}
    lines = {"model.name": 2, "model.version": 3, "run.python": 5, "prove.steady_runs": 7}
    assert problems_of(values, lines=lines, texts={"model.version": "1.10"}) == [
        "glowplug.yaml: artifact is missing; write ghcr.io/acme/flux-cache or oci:./build/cache",
        "glowplug.yaml:2: model.name: 'A' may hold only a-z, 0-9, '.', '_' and '-', at most 128 of them",
        "glowplug.yaml:3: model.version: 1.10 was read by YAML as the number 1.1; quote it",
        "glowplug.yaml:5: run.python: must look like module:callable, but is the text 'x'",
        "glowplug.yaml:7: prove.steady_runs: must be a number of at least 1, but is 0",
    ]


def test_a_part_without_a_line_takes_the_line_around_it():
    values = changed({"run.inputs": [{"a": float("inf")}]})
    assert problems_of(values, lines={"run.inputs": 9}) == [
        "glowplug.yaml:9: run.inputs[0].a: must be a finite number, but is inf"
    ]


def test_a_message_stays_on_its_line():
    assert problems_of(changed({"run.python": "a\nb"})) == [
        "glowplug.yaml: run.python: must look like module:callable, but is the text 'a b'"
    ]


def test_flags_come_before_variables_and_an_empty_variable_is_none():
    environ = {"GLOWPLUG_VERSION": "v4", "GLOWPLUG_ARTIFACT": ""}
    assert settle(Overrides(), environ) == {"version": Override("v4", "environment", "GLOWPLUG_VERSION")}
    assert settle(Overrides(version="v5", artifact="oci:x"), environ) == {
        "version": Override("v5", "flag", "--version"),
        "artifact": Override("oci:x", "flag", "--artifact"),
    }


def test_an_override_makes_the_specs_own_value_irrelevant():
    values = changed({"model.version": "${UNSET}", "artifact": DELETED})
    spec = parse(values, overrides=settle(Overrides("${v}4", "oci:cache"), {}))
    assert spec.model.version_source == LiteralVersion("${v}4")
    assert spec.artifact == LayoutRepository("cache")


def test_a_wrong_override_is_named_as_it_was_given():
    settled = settle(Overrides(version=""), {"GLOWPLUG_ARTIFACT": "acme"})
    assert problems_of(SMALLEST, overrides=settled) == [
        "--version: is empty",
        (
            "GLOWPLUG_ARTIFACT: 'acme' does not start with a registry host; "
            "a reference looks like ghcr.io/acme/flux-cache:v3 or oci:./build/cache:v3"
        ),
    ]


def digest_with(changes):
    return parse(changed(changes), {"HF_TOKEN": "canary"}).digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"run.python": "mymodel:other"},
        {"run.dir": "src"},
        {"run.inputs": [{"a": 1}]},
        {"run.env": {"A": "1"}},
        {"run.secrets": ["HF_TOKEN"]},
        {"run.seed": 1},
        {"prove.output_tolerance": 0.5},
        {"prove.max_compile_work": 1},
        {"prove.steady_runs": 1},
        {"run": {"cog": "."}},
    ],
)
def test_digest_follows_what_is_captured_or_proved(changes):
    assert digest_with(changes) != digest_with({})


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"name": "other", "version": "v9"}},
        {"artifact": "oci:elsewhere"},
        {"run.interpreter": "/opt/python"},
        {"run.timeout_s": 5},
        {"run.seed": 0},
    ],
)
def test_digest_ignores_what_changes_nothing(changes):
    assert digest_with(changes) == digest_with({})


def test_digest_ignores_the_order_of_names_but_not_of_inputs():
    first = digest_with({"run.env": {"A": "1", "B": "2"}, "run.inputs": [1, 2]})
    assert first == digest_with({"run.env": {"B": "2", "A": "1"}, "run.inputs": [1, 2]})
    assert first != digest_with({"run.env": {"A": "1", "B": "2"}, "run.inputs": [2, 1]})


def test_digest_follows_cog_yaml_and_the_weights():
    spec = parse(changed({"run": {"cog": "."}}))
    other_ref = replace(spec.run.workload, ref="other.py:Predictor")
    other_weights = replace(spec.run.workload, weights="w")
    digests = {
        replace(spec, run=replace(spec.run, workload=workload)).digest()
        for workload in (spec.run.workload, other_ref, other_weights)
    }
    assert len(digests) == 3


def test_digest_is_stable_across_releases():
    assert parse(SMALLEST).digest() == (
        "sha256:66c2886b38b67adc5c0dd88d85bd46372ee5f9e12db0dbdcc8a2160a9d79a2ab"
    )


def test_a_version_becomes_a_tag():
    assert version_tag("feature/flux v3") == "feature-flux-v3"
    assert version_flaw("v" * MAX_VERSION_LENGTH) is None
    assert version_flaw("v" * (MAX_VERSION_LENGTH + 1)) is not None
