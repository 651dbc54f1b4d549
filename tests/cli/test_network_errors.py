"""No network: one kind of advice for data and models, and `--offline`, which asks nobody."""

import os
import subprocess
import sys
from itertools import pairwise

import huggingface_hub
import pytest

from eyechart.datasets.remote.download import no_network
from eyechart.errors import DataError, ModelError, is_unreachable, unreachable
from eyechart.io.files import offline_hub, one_connection_attempt
from eyechart.models.hub import download
from eyechart.models.towers.checkpoints import load_error, load_errors
from eyechart.types import ModelSpec
from support.hub_server import hub_serving

NOWHERE = "http://127.0.0.1:9"
HELP = ("--offline", "HF_ENDPOINT", "--hub modelscope")


def test_a_model_of_a_hub_that_cannot_be_reached(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    spec = ModelSpec("transformers", "org/name", options={"cache_dir": str(tmp_path)})

    with pytest.raises(ModelError, match="Cannot reach huggingface for org/name") as caught:
        download("org/name", spec)

    assert [word for word in HELP if word not in caught.value.advice] == []


def test_who_forbids_asking_is_not_told_to_check_the_network(tmp_path):
    spec = ModelSpec("transformers", "org/name", options={"cache_dir": str(tmp_path)})

    with (
        offline_hub(wanted=True),
        pytest.raises(ModelError, match=r"org/name: .*--offline .* forbids") as caught,
    ):
        download("org/name", spec)

    assert "Run once without it." in caught.value.advice
    assert "Check the network" not in caught.value.advice


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://huggingface.co/datasets/a/b", HELP),
        ("https://modelscope.cn/datasets/a/b", ("--offline", "MODELSCOPE_ENDPOINT", "--hub huggingface")),
        ("https://data.example/wds", ("--offline",)),
    ],
)
def test_data_that_cannot_be_reached(address, words):
    error = no_network(address, OSError("Name or service not known"))

    assert isinstance(error, DataError)
    assert error.message == f"Cannot reach {address} (Name or service not known)."
    assert [word for word in words if word not in error.advice] == []
    assert ("HF_ENDPOINT" in error.advice) == ("huggingface" in address)


def caught(*chain):
    """Return the last of several errors, each of which comes from the one before."""
    for inner, outer in pairwise(chain):
        outer.__context__ = inner
    return chain[-1]


def test_what_a_library_makes_of_it_is_recognised():
    assert is_unreachable(caught(ConnectionRefusedError(), OSError("We have a problem")))
    assert is_unreachable(RuntimeError("Last error: [Errno -2] Name or service not known"))
    assert is_unreachable(caught(TimeoutError(), KeyError("x"), ValueError("y")))
    assert not is_unreachable(OSError("No such file or directory"))
    assert not is_unreachable(RuntimeError("size mismatch for visual.proj"))


def test_loading_says_so_unless_the_weights_are_what_is_wrong():
    assert load_error("transformers a/b", caught(ConnectionResetError(), OSError("no"))).message.startswith(
        "Cannot reach"
    )
    other = load_error("transformers a/b", caught(ConnectionResetError(), RuntimeError("size mismatch for x: a")))
    assert "Cannot reach" not in other.message


def test_the_kind_of_error_is_the_callers():
    assert type(unreachable(ModelError, "x", "why")) is ModelError


def test_offline_holds_while_it_lasts():
    before = os.environ.get("HF_HUB_OFFLINE")

    with offline_hub(wanted=True):
        from huggingface_hub import constants

        assert os.environ["HF_HUB_OFFLINE"] == "1"
        assert constants.is_offline_mode()
    assert os.environ.get("HF_HUB_OFFLINE") == before
    assert not constants.is_offline_mode()
    with offline_hub(wanted=False):
        assert not constants.is_offline_mode()


def test_offline_a_model_that_is_not_here_is_an_error_at_once(tmp_path):
    """No word of retries: the hub is not asked, although its address would refuse."""
    words = ["eval", "demo/scenes", "ViT-B-32:openai", "--offline", "--limit", "2", "--quiet"]
    environment = {**os.environ, "HF_ENDPOINT": NOWHERE, "HF_HUB_CACHE": str(tmp_path / "hub")}

    done = subprocess.run(
        [sys.executable, "-m", "eyechart", *words], capture_output=True, text=True, env=environment, cwd=tmp_path
    )

    assert done.returncode == 1
    assert "Retrying" not in done.stderr
    assert "Cannot reach the hub for open_clip ViT-B-32 openai" in done.stderr
    assert [word for word in HELP if word not in done.stderr] == []


@pytest.fixture
def pauses(monkeypatch):
    """The pauses of the Hugging Face client between attempts, which are not waited for."""
    found = []
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", found.append)
    return found


def test_a_hub_that_cannot_be_reached_is_asked_once_and_the_cache_is_used(tmp_path, pauses):
    place = {"repo_id": "owner/name", "filename": "config.json", "cache_dir": tmp_path / "cache"}
    (tmp_path / "hub" / "owner" / "name").mkdir(parents=True)
    (tmp_path / "hub" / "owner" / "name" / "config.json").write_text("{}")
    with hub_serving(tmp_path / "hub") as server, one_connection_attempt():
        path = huggingface_hub.hf_hub_download(**place, endpoint=server.url)

    with one_connection_attempt():
        assert huggingface_hub.hf_hub_download(**place, endpoint=NOWHERE) == path
    with pytest.raises(ModelError, match="Cannot reach the hub for it"), load_errors("it"):
        huggingface_hub.hf_hub_download("owner/name", "other.json", cache_dir=tmp_path, endpoint=NOWHERE)
    assert pauses == []


def test_a_connection_that_is_lost_later_is_retried(tmp_path, pauses):
    with hub_serving(tmp_path) as server, one_connection_attempt():
        huggingface_hub.get_session().get(server.url)
        with pytest.raises(huggingface_hub.errors.LocalEntryNotFoundError):
            huggingface_hub.hf_hub_download("owner/name", "config.json", cache_dir=tmp_path, endpoint=NOWHERE)

    assert len(pauses) > 1
