"""Local generators: a tiny random LLaVA, saved by the library, loaded through our path."""

import json
import shutil
from dataclasses import replace

import pytest

from eyechart.errors import ModelError, UsageError
from eyechart.io.images import ImageRef
from eyechart.models.access import Access
from eyechart.models.lazy_model import LazyModel
from eyechart.models.local_generators import TransformersGeneratorFamily, generation_parameters
from eyechart.models.towers.checkpoints import load_error
from eyechart.types import Message, ModelSpec, Prompt
from support.data import encoded, noise_image
from support.tiny_vlm import save_tiny_mllama, save_tiny_paligemma, save_tiny_vlm

FAMILY = TransformersGeneratorFamily()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_vlm(tmp_path_factory.mktemp("vlm"))


def spec_of(folder, **settings):
    return ModelSpec("transformers", str(folder), options={"settings": {"max_tokens": 8, **settings}})


def question(seed, text="Describe this"):
    return (Message("user", (ImageRef("test", data=encoded(noise_image(seed))), text)),)


def test_the_answer_is_that_of_the_librarys_documented_usage(folder):
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor, model = (kind.from_pretrained(folder) for kind in (AutoProcessor, AutoModelForImageTextToText))
    chat = [
        {"role": "user", "content": [{"type": "image", "image": noise_image(3)}, {"type": "text", "text": "What?"}]}
    ]
    inputs = processor.apply_chat_template(
        chat, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    with torch.inference_mode():
        out = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    expected = processor.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()

    answer = FAMILY.load(spec_of(folder)).generate(question(3, "What?"))

    assert answer.text == expected
    assert answer.usage == {"prompt_tokens": inputs["input_ids"].shape[1], "completion_tokens": 8}
    assert answer.finish_reason == "length"


def test_batches_of_different_lengths_answer_like_single_questions(folder):
    prompts = [Prompt(str(i), question(i, "Describe" + " this" * i)) for i in range(5)]
    one, many = (FAMILY.load(replace(spec_of(folder), access=Access(batch_size=size))) for size in (1, 4))

    assert dict(many.generate_many(prompts)) == dict(one.generate_many(prompts))


def test_the_image_counts(folder):
    generator = FAMILY.load(spec_of(folder, max_tokens=12))

    answers = {generator.generate(question(seed)).text for seed in range(6)}

    assert len(answers) > 1


def test_a_broken_image_fails_alone(folder):
    broken = (Message("user", (ImageRef("bad.png", data=b"not an image"), "What?")),)
    prompts = [Prompt("good", question(0)), Prompt("bad", broken)]

    answers = dict(FAMILY.load(replace(spec_of(folder), access=Access(batch_size=2))).generate_many(prompts))

    assert "bad.png: cannot decode" in answers["bad"].error
    assert not answers["good"].error


def test_every_answer_is_kept_before_it_is_given(folder):
    kept = []
    for name, answer in FAMILY.load(replace(spec_of(folder), access=Access(batch_size=2))).generate_many(
        [Prompt(str(i), question(i)) for i in range(3)], lambda *pair: kept.append(pair)
    ):
        assert (name, answer) in kept


def test_the_fingerprint_changes_with_weights_and_settings_only(folder, tmp_path):
    other = save_tiny_vlm(tmp_path / "other", seed=1)
    specs = [spec_of(folder), spec_of(folder, max_tokens=9), spec_of(other)]

    prints = [FAMILY.load(spec).card.fingerprint for spec in specs]

    assert len(set(prints)) == 3
    assert FAMILY.load(replace(spec_of(folder), access=Access(batch_size=7))).card.fingerprint == prints[0]


def test_the_card_is_known_to_the_next_run_without_loading(folder):
    spec = spec_of(folder)
    card = LazyModel(spec, FAMILY).card

    class NeverLoaded(TransformersGeneratorFamily):
        def load(self, spec):
            raise AssertionError("loaded")

    assert LazyModel(spec, NeverLoaded()).card == card


def test_a_model_that_cannot_write_is_refused_before_loading(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "clip"}))

    with pytest.raises(UsageError, match="clip model, which does not generate text about images"):
        FAMILY.check(spec_of(tmp_path))


def test_a_missing_folder_and_a_missing_template_are_clear_errors(folder, tmp_path):
    import shutil

    with pytest.raises(ModelError, match="Checkpoint not found"):
        FAMILY.check(spec_of(tmp_path / "nowhere"))
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "chat_template.jinja").unlink()

    with pytest.raises(ModelError, match="no chat template"):
        FAMILY.load(spec_of(copy))


@pytest.mark.parametrize("key", ["num_return_sequences", "return_dict_in_generate"])
def test_a_prompt_gets_one_answer_whatever_the_generation_config_says(folder, tmp_path, key):
    other = shutil.copytree(folder, tmp_path / "other")
    config = other / "generation_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {key: 2, "num_beams": 2}))

    prompts = [Prompt(str(seed), question(seed)) for seed in range(2)]
    answers = [dict(FAMILY.load(spec_of(where, num_beams=2)).generate_many(prompts)) for where in (folder, other)]
    assert answers[0] == answers[1]


def test_a_setting_that_the_library_does_not_have_is_an_error(folder):
    with pytest.raises(ModelError, match=r"cannot generate.*'n'"):
        list(FAMILY.load(spec_of(folder, n=2)).generate_many([Prompt("1", question(1))]))


def test_a_text_with_the_mark_of_an_image_is_an_answer_with_an_error(folder):
    prompts = [Prompt("1", question(1, "What does <image> mean?")), Prompt("2", question(2))]
    answers = dict(FAMILY.load(spec_of(folder)).generate_many(prompts))

    assert "The text contains <image>" in answers["1"].error
    assert answers["2"] == dict(FAMILY.load(spec_of(folder)).generate_many(prompts[1:]))["2"]


@pytest.fixture(scope="module")
def paligemma(tmp_path_factory):
    return save_tiny_paligemma(tmp_path_factory.mktemp("paligemma"))


LIBRARYS_OWN = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning:transformers")
"""PaliGemma's processor hands tokens to numpy in an old way."""


@LIBRARYS_OWN
def test_a_model_without_a_chat_template_answers_as_by_the_librarys_documented_usage(paligemma):
    import torch
    from transformers import PaliGemmaForConditionalGeneration, PaliGemmaProcessor

    processor = PaliGemmaProcessor.from_pretrained(paligemma)
    model = PaliGemmaForConditionalGeneration.from_pretrained(paligemma)
    inputs = processor(images=noise_image(3), text="<image>answer en What?", return_tensors="pt")
    with torch.inference_mode():
        out = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    expected = processor.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()

    made = FAMILY.load(spec_of(paligemma))
    answer = made.generate(question(3, "answer en What?"))

    assert answer.text == expected
    assert answer.usage["prompt_tokens"] == inputs["input_ids"].shape[1]
    prompts = [Prompt(str(i), question(i, "Describe" + " this" * i)) for i in range(3)]
    one = FAMILY.load(replace(spec_of(paligemma), access=Access(batch_size=1)))
    assert dict(made.generate_many(prompts)) == dict(one.generate_many(prompts))


@LIBRARYS_OWN
def test_what_a_plain_prompt_cannot_hold_is_that_questions_error(paligemma):
    made = FAMILY.load(spec_of(paligemma))
    said = dict(
        made.generate_many(
            [
                Prompt("text", (Message("user", ("Only a text",)),)),
                Prompt("chat", (*question(1), Message("assistant", ("yes",)), *question(2))),
                Prompt("good", question(1)),
            ]
        )
    )

    assert "needs an image" in said["text"].error
    assert "conversation" in said["chat"].error
    assert not said["good"].error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ImportError("Package `num2words` is required to run SmolVLM. Install it with `pip install num2words`."),
         "pip install num2words"),
        (ModuleNotFoundError("No module named 'einops.layers'", name="einops.layers"), "pip install einops"),
    ],
)  # fmt: skip
def test_a_library_that_a_processor_needs_is_named_with_the_pip_line(error, line):
    told = load_error("transformers m", error)

    assert told.advice == f"Install it with: {line}"


def limit_memory(generator, most):
    """Double of a GPU that holds only some prompts: a larger batch raises what torch raises there."""
    generate, sizes = generator.model.generate, []

    def limited(**inputs):
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > most:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return generate(**inputs)

    generator.model.generate = limited
    return sizes


@pytest.mark.parametrize(("most", "sizes"), [(8, [7]), (4, [7, 3, 3, 1]), (1, [7, 3, *[1] * 7])])
def test_a_batch_that_does_not_fit_into_memory_is_halved_until_it_does(folder, most, sizes):
    prompts = [Prompt(str(i), question(i)) for i in range(7)]
    wanted = dict(FAMILY.load(spec_of(folder, max_tokens=1)).generate_many(prompts))
    generator, kept = FAMILY.load(replace(spec_of(folder, max_tokens=1), access=Access(batch_size=8))), []
    tried = limit_memory(generator, most)

    found = list(generator.generate_many(prompts, lambda name, answer: kept.append((name, answer))))

    assert dict(found) == wanted
    assert kept == found
    assert tried == sizes
    assert [notice.kind for notice in generator.notices()] == ["smaller_batches"] * (most < 7)


def test_the_size_that_fits_is_kept_for_the_next_batches(folder):
    generator = FAMILY.load(replace(spec_of(folder, max_tokens=1), access=Access(batch_size=4)))
    tried = limit_memory(generator, 2)

    list(generator.generate_many([Prompt(str(i), question(i)) for i in range(8)]))

    assert tried == [4, 2, 2, 2, 2]
    assert str(generator.notices()[0].message) == (
        "Batches of 4 did not fit into memory; the batch size was reduced to 2."
    )


def test_a_single_prompt_that_does_not_fit_is_an_error_that_says_so(folder):
    generator = FAMILY.load(replace(spec_of(folder, max_tokens=1), access=Access(batch_size=4)))
    tried = limit_memory(generator, 0)

    with pytest.raises(ModelError, match="A single input does not fit into memory"):
        list(generator.generate_many([Prompt(str(i), question(i)) for i in range(3)]))
    assert tried == [3, 1]


def test_prompts_with_and_without_images_share_a_batch(tmp_path):
    folder = save_tiny_mllama(tmp_path / "mllama")
    prompts = [
        Prompt("first", question(0)),
        Prompt("blind", (Message("user", ("Say something",)),)),
        Prompt("second", question(1, "What is it?")),
    ]
    one, many = (FAMILY.load(replace(spec_of(folder), access=Access(batch_size=size))) for size in (1, 4))

    assert list(many.generate_many(prompts)) == list(one.generate_many(prompts))


def test_a_local_model_has_the_defaults_of_an_api_model(folder):
    spec = ModelSpec("transformers", str(folder))

    assert FAMILY.parameters(spec) == {"max_new_tokens": 2048, "do_sample": False}
    assert generation_parameters(spec) == {"temperature": 0, "max_tokens": 2048}
    own = replace(spec, options={"settings": {"temperature": None, "max_tokens": 9}})
    assert FAMILY.parameters(own) == {"max_new_tokens": 9}  # generation_config.json decides on sampling


def test_separate_weights_are_refused_because_they_would_be_ignored(folder):
    with pytest.raises(UsageError, match=r"does not apply to .*: models of this family have no separate weights"):
        TransformersGeneratorFamily().check(replace(spec_of(folder), pretrained="other/weights"))
    TransformersGeneratorFamily().check(replace(spec_of(folder), pretrained=str(folder)))
