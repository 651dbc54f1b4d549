"""Weights that would like to run, and the places that load some."""

import ast
import pickle
from pathlib import Path

import numpy as np
import pytest

from eyechart.errors import EyechartError
from eyechart.tasks.text_classifiers import load_mean_classifier

SOURCES = sorted((Path(__file__).parent.parent.parent / "src").rglob("*.py"))


def calls(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}


def test_torch_loads_tensors_only_wherever_it_loads():
    loads = [(path, options) for path in SOURCES for name, options in calls(path) if name == "torch.load"]

    assert loads
    assert all(options.get("weights_only") == "True" for _, options in loads)


def test_numpy_never_unpickles():
    loads = [options for path in SOURCES for name, options in calls(path) if name in ("np.load", "numpy.load")]

    assert loads
    assert all(options.get("allow_pickle") == "False" for options in loads)


@pytest.mark.parametrize(
    "name", ["joblib.load", "dill.load", "cloudpickle.load", "marshal.loads", "yaml.load", "shelve.open"]
)
def test_other_ways_to_load_code_are_not_used(name):
    assert not [path for path in SOURCES for found, _ in calls(path) if found == name]


def test_a_classifier_file_that_is_a_pickle_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "pwned",))

    (tmp_path / "clf.safetensors").write_bytes(pickle.dumps(Evil()))

    with pytest.raises(EyechartError, match="not a classifier file"):
        load_mean_classifier([tmp_path / "clf.safetensors"], "model", ["a", "b", "c"])
    assert not (tmp_path / "pwned").exists()


def test_a_torch_classifier_that_is_code_is_refused(tmp_path):
    import torch

    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "pwned",))

    torch.save(Evil(), tmp_path / "clf.pt")

    with pytest.raises(EyechartError):
        load_mean_classifier([tmp_path / "clf.pt"], "model", ["a", "b", "c"])
    assert not (tmp_path / "pwned").exists()


def test_a_pickle_in_an_npy_member_is_refused_and_not_run(tmp_path):
    from eyechart.datasets.webdataset import _vector

    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "pwned",))

    np.save(tmp_path / "x.npy", np.array([Evil()], dtype=object))

    with pytest.raises(EyechartError, match=r"cannot read the \.npy"):
        _vector({"npy": (tmp_path / "x.npy").read_bytes()}, "")
    assert not (tmp_path / "pwned").exists()
