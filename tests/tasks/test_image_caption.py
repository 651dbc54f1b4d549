"""Captions from a generator behind a real server: the files, the bad days, and what is paid."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eyechart import run_task
from eyechart.api.errors import BudgetExceededError, KeyRefusedError, ModelNotServedError, UnreachableError
from eyechart.errors import DataError, IncompleteError, UsageError
from eyechart.io.safe_parse import MAX_TEXT
from eyechart.tasks.image_caption import caption_problem, data_folder
from eyechart.types import Answer
from support.data import noise_image, write_classification
from support.openai_server import OpenAIServer, Status, first_attempts
from support.retrieval_data import caption_config, many_images, read_rows, sent_image, write_queries

MODEL = ("internvl2-8b",)
DATA = Path("outputs/internvl2-8b/custom/retrieval_data")


def test_the_documented_config_gives_the_documented_files(custom):
    with OpenAIServer(models=MODEL, answer=lambda _: "这是一张图片。") as server:
        [result] = run_task(caption_config(server, custom))

    assert result.facts == {
        "conversion_successful": True,
        "convertion_successful": True,
        "save_path": "outputs/internvl2-8b/custom/retrieval_data",
    }
    assert (DATA / "corpus.jsonl").read_text(encoding="utf-8").startswith('{"_id":0,"text":"这是一张图片。"')
    assert [row["_id"] for row in read_rows(DATA / "corpus.jsonl")] == [0, 1, 2, 3, 4]
    queries = read_rows(DATA / "queries.jsonl")
    assert [(row["_id"], row["text"]) for row in queries[:3]] == [(0, "dog"), (1, "building"), (2, "city")]
    assert [row["image_id"] for row in queries[:4]] == ["0", "1", "2", "2"]
    expected = "query-id\tcorpus-id\tscore\n0\t0\t1\n1\t1\t1\n2\t2\t1\n3\t2\t1\n4\t3\t1\n5\t3\t1\n6\t4\t1\n7\t4\t1\n"
    assert (DATA / "qrels" / "test.tsv").read_text() == expected
    assert read_rows(DATA / "qrels.jsonl")[3] == {"query-id": 3, "corpus-id": 2, "score": 1}


def test_the_result_has_the_documented_keys_and_stands_in_both_documented_places(custom):
    with OpenAIServer(models=MODEL) as server:
        run_task(caption_config(server, custom))

    body = json.loads(Path("outputs/internvl2-8b/custom_image_caption.json").read_text())
    assert [body[key] for key in ("dataset", "model", "task")] == ["custom", "internvl2-8b", "image_caption"]
    assert body["metrics"]["convertion_successful"] is True
    assert body["metrics"]["conversion_successful"] is True
    assert json.loads(Path("outputs/internvl2-8b/custom/custom_image_caption.json").read_text()) == body


def test_each_caption_can_be_traced_to_its_image(custom):
    with OpenAIServer(models=MODEL) as server:
        [result] = run_task(caption_config(server, custom))

    rows = read_rows(DATA / "corpus.jsonl")
    assert [Path(row["image_source"]).name for row in rows] == [
        "dog.jpg",
        "AMNH.jpg",
        "tokyo.jpg",
        "tesla.jpg",
        "running.jpg",
    ]
    records = list(result.iter_records())
    assert [(record["id"], record["caption"]) for record in records] == [(row["image_id"], row["text"]) for row in rows]


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_the_limit_is_exact_whatever_the_batch_size(custom, limit):
    with OpenAIServer(models=MODEL) as server:
        run_task(caption_config(server, custom, limit=limit, batch_size=2))

    assert len(server.paid) == limit
    assert len(read_rows(DATA / "corpus.jsonl")) == limit


def test_the_prompt_and_the_image_are_sent_as_they_are(custom):
    config = caption_config(server := OpenAIServer(models=MODEL), custom, limit=1)
    config["eval_config"]["eval"]["models"][0] |= {"prompt": "What is {this}?", "max_tokens": 50}
    with server:
        run_task(config)

    [request] = [request for request in server.requests if request.method == "POST"]
    assert request.body["messages"][0]["content"][1] == {"type": "text", "text": "What is {this}?"}
    assert (request.body["max_tokens"], request.body["temperature"]) == (50, 0.0)
    assert sent_image(request.body).size == (40, 30)


def test_images_of_any_form_arrive_as_servers_can_read_them(here):
    Path("d").mkdir()
    rows = []
    for name, image in {
        "transparent.png": Image.new("RGBA", (20, 20), (255, 0, 0, 0)),
        "palette.gif": noise_image(1).quantize(),
        "deep.tiff": Image.fromarray(np.full((9, 9), 65535, np.uint16)),
        "print.tiff": noise_image(2).convert("CMYK"),
        "huge.png": Image.new("L", (6000, 40), 128),
        "modern.webp": noise_image(3),
    }.items():
        image.save(f"d/{name}")
        rows.append({"image_path": name, "query": name})
    write_queries(Path("d"), rows)

    with OpenAIServer(models=MODEL) as server:
        [result] = run_task(caption_config(server, "d"))

    assert result.facts["conversion_successful"] is True
    arrived = [sent_image(request.body) for request in server.requests if request.method == "POST"]
    assert {image.format for image in arrived} <= {"JPEG", "PNG"}
    assert {image.mode for image in arrived} <= {"RGB", "L"}
    assert max(max(image.size) for image in arrived) == 6000  # in full size
    [transparent] = [image for image in arrived if image.size == (20, 20)]
    assert transparent.convert("RGB").getpixel((5, 5)) == (255, 255, 255)


@pytest.mark.parametrize(("length", "problem"), [(MAX_TEXT, ""), (MAX_TEXT + 1, "1000001 characters")])
def test_a_caption_may_be_as_long_as_a_text(length, problem):
    found = caption_problem(Answer("x" * length))

    assert problem in found
    assert bool(found) == bool(problem)


def test_an_image_that_fails_is_listed_and_the_result_says_so(custom):
    def answer(body):
        return None if sent_image(body).getpixel((0, 0)) == dog else "A caption."

    dog = Image.open("custom_eval/multimodal/images/dog.jpg").getpixel((0, 0))
    with OpenAIServer(models=MODEL, answer=answer) as server:
        [result] = run_task(caption_config(server, custom, min_success=0.8))

    assert result.facts["conversion_successful"] is result.facts["convertion_successful"] is False
    assert result.counts == {"listed": 5, "scored": 4, "failed": 1}
    named = "custom_eval/multimodal/images/dog.jpg: The caption is empty."
    assert [dict(failure) for failure in result.failures] == [{"id": "0", "reason": named}]
    # The others are there under their own ids, and the failed image's query stays: nothing can answer it.
    assert [row["_id"] for row in read_rows(DATA / "corpus.jsonl")] == [1, 2, 3, 4]
    assert len(read_rows(DATA / "queries.jsonl")) == 8


def test_an_image_that_cannot_be_read_is_not_forgotten(here):
    data = many_images(Path("d"), 3)
    with Path("d/1.png").open("r+b") as file:
        file.truncate(300 * 1024 * 1024)  # more than is ever read; it takes no space on the disk
    with OpenAIServer(models=MODEL) as server:
        [result] = run_task(caption_config(server, data, on_error="skip"))

    assert result.facts["conversion_successful"] is False
    assert result.counts == {"listed": 3, "scored": 2, "failed": 1, "skipped": 1}


def test_a_refused_image_fails_alone_with_the_servers_words(custom):
    refusal = Status(400, {"error": {"message": "image too small"}})
    faults = [refusal]
    with OpenAIServer(models=MODEL) as server:
        server.fault = lambda path, body, attempt: faults.pop() if body and faults else None
        [result] = run_task(caption_config(server, custom, concurrency=1, min_success=0.8))

    assert [failure["reason"] for failure in result.failures] == [
        f"custom_eval/multimodal/images/dog.jpg: {server.api_base} rejected the request (status 400): 'image too small'"
    ]


def test_a_later_run_asks_only_for_what_is_missing(custom):
    broken = [True]

    def answer(body):
        return "" if broken and sent_image(body).getpixel((0, 0)) == dog else "A caption."

    dog = Image.open("custom_eval/multimodal/images/dog.jpg").getpixel((0, 0))
    with OpenAIServer(models=MODEL, answer=answer) as server:
        with pytest.raises(IncompleteError, match="1 of 5 samples are lost"):
            run_task(caption_config(server, custom))
        broken.clear()
        before = len(server.requests)
        [result] = run_task(caption_config(server, custom))
        later = [request for request in server.requests[before:] if request.method == "POST"]

    assert result.facts["conversion_successful"] is True
    assert (result.details["spent"]["model"]["from_store"], result.details["spent"]["model"]["asked"], len(later)) == (
        4,
        1,
        1,
    )


def test_two_datasets_never_share_a_folder_of_captions():
    names = ("set", "set_image_caption", "my_image_caption_set", "my_set")

    assert len({data_folder(Path(f"m/{name}_image_caption.json")) for name in names}) == len(names)
    assert data_folder(Path("m/set_image_caption_de.json")) == Path("m/set_de/retrieval_data")


def test_equal_images_are_paid_once(here):
    Path("d").mkdir()
    for name in "abc":
        noise_image(0).save(f"d/{name}.png")
    write_queries(Path("d"), [{"image_path": f"{name}.png", "query": name} for name in "abc"])

    with OpenAIServer(models=MODEL) as server:
        run_task(caption_config(server, "d"))

    assert sum(server.paid.values()) == 1
    assert len(read_rows(DATA / "corpus.jsonl")) == 3


def test_with_all_captions_stored_no_server_is_needed(custom):
    with OpenAIServer(models=MODEL) as server:
        [first] = run_task(caption_config(server, custom))
        config = caption_config(server, custom)

    [again] = run_task(config)  # the server is gone

    assert again.details["files"] == first.details["files"]


def test_skip_existing_looks_at_the_contents(custom):
    with OpenAIServer(models=MODEL) as server:
        run_task(caption_config(server, custom, skip_existing=True))
        stamp = Path("outputs/internvl2-8b/custom_image_caption.json").stat().st_mtime_ns

        run_task(caption_config(server, custom, skip_existing=True))
        assert Path("outputs/internvl2-8b/custom_image_caption.json").stat().st_mtime_ns == stamp

        (DATA / "corpus.jsonl").write_text("somebody else's\n")
        run_task(caption_config(server, custom, skip_existing=True))
        assert len(read_rows(DATA / "corpus.jsonl")) == 5

        run_task(caption_config(server, custom, skip_existing=True, limit=2))
        assert len(read_rows(DATA / "corpus.jsonl")) == 2


def test_a_cap_on_requests_is_kept_and_what_was_paid_is_kept(here):
    data = many_images(Path("d"), 12)
    with OpenAIServer(models=MODEL) as server:
        with pytest.raises(BudgetExceededError, match="Request limit of 5"):
            run_task(caption_config(server, data, limit=None, max_requests=5))
        assert sum(server.paid.values()) == 5
        assert not DATA.exists()

        [result] = run_task(caption_config(server, data, limit=None))

    assert sum(server.paid.values()) == 12
    assert result.details["spent"]["model"]["from_store"] == 5


def test_the_cap_of_one_config_is_not_the_cap_of_the_next(here):
    data = many_images(Path("d"), 12)
    with OpenAIServer(models=MODEL) as server:
        capped = caption_config(server, data, limit=None, max_requests=5, output_dir="first")
        free = caption_config(server, data, limit=None, output_dir="second")
        with pytest.raises(BudgetExceededError, match="Request limit of 5"):
            run_task([capped, free])

    assert sum(server.paid.values()) == 12
    assert Path("second/internvl2-8b/custom_image_caption.json").is_file()


def test_a_cap_on_tokens_stops_the_run(here):
    data = many_images(Path("d"), 12)
    with OpenAIServer(models=MODEL) as server, pytest.raises(BudgetExceededError, match="Token limit of 45"):
        run_task(caption_config(server, data, limit=None, max_total_tokens=45, concurrency=1))

    assert sum(server.paid.values()) == 3  # 15 tokens each


def test_a_dry_run_counts_and_asks_nothing(here):
    data = many_images(Path("d"), 12)
    with OpenAIServer(models=MODEL) as server:
        [result] = run_task(caption_config(server, data, limit=None, dry_run=True))
        assert not server.requests
        run_task(caption_config(server, data, limit=4))
        [later] = run_task(caption_config(server, data, limit=None, dry_run=True))

    assert result.metrics == {
        "images": 12,
        "requests": 12,
        "estimated_prompt_tokens": 12 * (8 + 1),
        "estimated_completion_tokens": 1200,
        "estimated_seconds": (12 + 1200 / 50) / 8,
    }
    assert later.metrics["requests"] == 8


def test_retry_after_is_honoured(custom):
    with OpenAIServer(models=MODEL, fault=None) as server:
        server.fault = lambda path, body, attempt: (
            first_attempts(1, Status(429, headers={"Retry-After": "1"}))(path, body, attempt) if body else None
        )
        [result] = run_task(caption_config(server, custom, limit=1))

    times = [request.at for request in server.requests if request.method == "POST"]
    assert result.facts["conversion_successful"] is True
    assert times[1] - times[0] >= 1


def test_a_classification_dataset_gives_class_names_as_queries(here):
    write_classification(Path("my_pets"), n=7)
    with OpenAIServer(models=MODEL) as server:
        run_task(caption_config(server, None, dataset_name=["my_pets"]))

    folder = Path("outputs/internvl2-8b/my_pets/retrieval_data")
    assert [row["text"] for row in read_rows(folder / "queries.jsonl")] == ["cat", "dog", "bird"]
    relevant = [(row["query-id"], row["corpus-id"]) for row in read_rows(folder / "qrels.jsonl")]
    assert relevant == [(0, 0), (0, 3), (0, 6), (1, 1), (1, 4), (2, 2), (2, 5)]


def test_a_server_that_is_down_is_noticed_before_captioning(custom):
    with OpenAIServer(models=MODEL) as server:
        config = caption_config(server, custom, tries=1)

    with pytest.raises(UnreachableError, match="Cannot connect to"):
        run_task(config)

    assert not Path("outputs/internvl2-8b").exists()


def test_a_wrong_key_is_noticed_before_captioning(custom):
    with (
        OpenAIServer(models=MODEL, key="right") as server,
        pytest.raises(KeyRefusedError, match="rejected the API key"),
    ):
        run_task(caption_config(server, custom))

    assert not server.paid


def test_a_model_that_is_not_served_is_noticed_before_captioning(custom):
    with OpenAIServer(models=("internvl2-8b-chat",)) as server, pytest.raises(ModelNotServedError) as refusal:
        run_task(caption_config(server, custom))

    assert "Did you mean internvl2-8b-chat" in str(refusal.value)


def test_of_two_models_both_are_tried_before_one_is_paid(custom):
    with OpenAIServer(models=MODEL) as server:
        config = caption_config(server, custom, tries=1)
        config["eval_config"]["eval"]["models"].append({"model_name": "other", "api_base": "http://127.0.0.1:9/v1"})

        with pytest.raises(UnreachableError):
            run_task(config)

    assert not server.paid


def test_a_model_that_writes_is_refused_where_vectors_are_needed(custom):
    with OpenAIServer(models=MODEL) as server, pytest.raises(UsageError, match="text instead of embeddings"):
        run_task(caption_config(server, custom, task=None))

    assert not server.requests


def test_two_prompts_for_one_model_do_not_share_a_folder(custom):
    with OpenAIServer(models=MODEL) as server:
        config = caption_config(server, custom)
        models = config["eval_config"]["eval"]["models"]
        models.append({**models[0], "prompt": "In one word?"})
        first, second = run_task(config)

    assert first.path != second.path
    assert first.facts["save_path"] != second.facts["save_path"]
    assert [result.details["prompt"] for result in (first, second)] == [
        "Describe this image in English",
        "In one word?",
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (None, "There is no"),
        (['{"image_path": "a.png", "query": ["x"]}', "{broken"], "line 2: not valid JSON"),
        (['{"image_path": "no.png", "query": ["x"]}'], "line 1: the image 'no.png' does not exist"),
        (['{"image_path": "a.png", "query": []}'], "line 1: query is empty"),
        (['{"image_path": "a.png"}', "", '{"query": ["x"]}'], "line 1: query must be a list of texts"),
    ],
)
def test_bad_rows_are_reported_with_their_lines_before_anything_is_asked(here, lines, said):
    Path("d").mkdir()
    noise_image(0).save("d/a.png")
    if lines is not None:
        Path("d/image_queries.jsonl").write_text("\n".join(lines) + "\n")

    with OpenAIServer(models=MODEL) as server, pytest.raises(DataError) as refusal:
        run_task(caption_config(server, "d"))

    assert said in str(refusal.value)
    assert not server.requests


def test_all_bad_rows_are_reported_at_once_and_extra_fields_are_welcome(here):
    Path("d").mkdir()
    noise_image(0).save("d/a.png")
    good = {"image_path": "a.png", "query": ["x"], "source": "me", "year": 2024}
    write_queries(Path("d"), [good, {**good, "query": 5}, good, {**good, "image_path": "c.png"}])

    with OpenAIServer(models=MODEL) as server:
        with pytest.raises(DataError) as refusal:
            run_task(caption_config(server, "d"))
        noise_image(1).save("d/b.png")
        write_queries(Path("d"), [good, good | {"id": "second", "image_path": "b.png"}])
        [result] = run_task(caption_config(server, "d"))

    assert "2 bad lines" in str(refusal.value)
    assert "line 2" in str(refusal.value)
    assert "line 4" in str(refusal.value)
    assert result.counts["scored"] == 2
