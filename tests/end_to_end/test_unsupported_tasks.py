"""A model that cannot do the task is refused when the run is planned: before anything is loaded or paid."""

import json
from pathlib import Path

import pytest

from eyechart import run_task
from eyechart.errors import EyechartError
from support.openai_server import OpenAIServer
from support.retrieval_data import caption_config, read_rows
from support.text_models import minilm
from support.tiny_vlm import save_tiny_vlm


def with_model(custom, task, **model):
    config = caption_config("http://127.0.0.1:9/v1", custom, task=task)
    config["eval_config"]["eval"]["models"] = [model]
    return config


def folder_of(kind: str, *files: str) -> str:
    """Make a folder that says what kind of model it holds; nothing of it is ever loaded."""
    Path(kind).mkdir()
    (Path(kind) / "config.json").write_text(json.dumps({"model_type": kind}))
    for file in files:
        (Path(kind) / file).write_text("{}")
    return kind


def test_a_clip_model_does_not_write_captions(custom):
    with pytest.raises(EyechartError, match="clip model, which does not generate text about images"):
        run_task(with_model(custom, "image_caption", model_name=folder_of("clip", "preprocessor_config.json")))


def test_a_text_encoder_does_not_see_images(custom):
    with pytest.raises(EyechartError, match="encodes texts only"):
        run_task(with_model(custom, None, model_name=minilm()))


def test_a_plain_language_model_does_not_see_images(custom):
    with pytest.raises(EyechartError, match="encodes texts only"):
        run_task(with_model(custom, None, model_name=folder_of("bert")))


def test_a_chat_model_behind_an_api_gives_no_vectors(custom):
    with pytest.raises(EyechartError, match="text instead of embeddings"):
        run_task(with_model(custom, "zeroshot_retrieval", model_name="vlm", api_base="http://127.0.0.1:9/v1"))


def test_a_checkpoint_file_needs_an_architecture(custom):
    with pytest.raises(EyechartError, match="of unknown architecture"):
        run_task(with_model(custom, None, model_name="weights.pt"))


def test_a_folder_without_a_model_is_refused(custom):
    Path("empty").mkdir()

    with pytest.raises(EyechartError, match="Unknown kind of model folder"):
        run_task(with_model(custom, None, model_name="empty"))


def test_an_unknown_task_is_refused_with_the_nearest(custom):
    with pytest.raises(EyechartError, match="zeroshot_retrieval"):
        run_task(with_model(custom, "zeroshot_retreival", model_name="eyechart-tiny"))


def test_an_unknown_dataset_is_refused_before_the_server_is_asked(custom):
    with OpenAIServer(models=("internvl2-8b",)) as server, pytest.raises(EyechartError, match="flickr8k"):
        run_task(caption_config(server, None, dataset_name=["flicker8k"]))

    assert not server.requests


def test_a_model_on_this_machine_writes_captions_once(custom):
    folder = str(save_tiny_vlm(Path("vlm")))
    config = with_model(custom, "image_caption", model_name=folder, max_tokens=6, prompt="What is this?")

    [first] = run_task(config)
    [again] = run_task(config)

    rows = read_rows("outputs/vlm/custom/retrieval_data/corpus.jsonl")
    assert first.facts["conversion_successful"] == (len(rows) == 5)
    assert (first.details["spent"]["model"]["asked"], again.details["spent"]["model"]["from_store"]) == (5, len(rows))
    assert first.model_card["family"] == "transformers"
