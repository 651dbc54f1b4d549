"""Models that are objects: real libraries, small random weights, and vectors as the library itself gives them."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import eyechart
from eyechart.errors import EyechartError
from eyechart.models.objects.families import ObjectFamily
from eyechart.models.objects.model_parts import ModelParts, evaluation_mode, parts_of
from eyechart.types import IN_MEMORY, InMemoryObject, ModelSpec
from support import zoo_open_clip, zoo_sentence, zoo_transformers
from support.zoo import photos, seeded

TEXTS = ["a photo of a cat", "two dogs and a house", "一只猫"]
DATA = {"images": photos(), "labels": [0, 1, 2, 0, 1], "classnames": ["cat", "dog", "rocket"]}


def encoder_of(thing):
    spec = ModelSpec(IN_MEMORY, "mine", options={IN_MEMORY: InMemoryObject(thing, "some.Kind")})
    ObjectFamily().check(spec)
    return ObjectFamily().load(spec)


def check_vectors(thing, case):
    """Compare with what the library's documentation computes."""
    encoder = encoder_of(thing)
    pixels = [encoder.prepare_image(image.convert("RGB")) for image in photos()]
    # The width of a batch may change the last bits.
    assert np.allclose(encoder.encode_images(pixels), case.images(photos()), atol=1e-5)
    assert np.allclose(encoder.encode_texts(TEXTS), case.texts(TEXTS), atol=1e-5)
    return encoder


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A triple of open_clip."""
    import open_clip

    folder = tmp_path_factory.mktemp("clip")
    case = zoo_open_clip.plain(folder)
    model, train, preprocess = open_clip.create_model_and_transforms("made", pretrained=str(folder / "epoch_1.pt"))
    return case, model.eval(), train, preprocess, open_clip.get_tokenizer("made")


class TestWhatIsTakenForAModel:
    def test_a_triple_in_any_order(self, clip):
        case, model, train, preprocess, tokenizer = clip

        for parts in ((model, preprocess, tokenizer), (tokenizer, preprocess, model), (model, tokenizer, preprocess)):
            check_vectors(parts, case)
        # As create_model_and_transforms returns them, with the tokenizer beside it: never the transform of training.
        check_vectors((model, train, preprocess, tokenizer), case)
        check_vectors(ModelParts((model, train, preprocess), tokenizer=tokenizer), case)

    def test_plain_functions_are_told_apart_by_what_they_do(self, clip):
        case, model, _, preprocess, tokenizer = clip

        def prepare(image):
            return preprocess(image)

        def tokenize(texts):
            return tokenizer(texts)

        check_vectors((model, tokenize, prepare), case)

    def test_a_module_with_its_parts_as_arguments_or_attributes(self, clip):
        case, model, _, preprocess, tokenizer = clip
        check_vectors(ModelParts(model, preprocess, tokenizer), case)

        model.preprocess, model.tokenizer = preprocess, tokenizer
        try:
            check_vectors(model, case)
        finally:
            del model.preprocess, model.tokenizer

    @pytest.mark.parametrize("make", [zoo_transformers.clip, zoo_transformers.siglip, zoo_transformers.siglip2_naflex])
    def test_a_model_of_transformers_with_its_processor_or_alone(self, make, tmp_path):
        from transformers import AutoModel, AutoProcessor

        case = make(tmp_path)
        model, processor = AutoModel.from_pretrained(tmp_path), AutoProcessor.from_pretrained(tmp_path)

        check_vectors((model, processor), case)
        check_vectors((processor.image_processor, model, processor.tokenizer), case)
        check_vectors(model, case)

    def test_a_part_of_ones_own_is_never_left_aside(self, tmp_path):
        from transformers import AutoModel, AutoProcessor

        zoo_transformers.clip(tmp_path)
        model, processor = AutoModel.from_pretrained(tmp_path), AutoProcessor.from_pretrained(tmp_path)
        dark = AutoProcessor.from_pretrained(tmp_path).image_processor
        dark.image_mean = [9, 9, 9]
        made = [encoder_of(thing) for thing in ((model, dark), (dark, model, processor))]
        pixels = [encoder.prepare_image(photos()[0].convert("RGB")) for encoder in made]
        assert all(one.max() < 0 for one in pixels)

        with pytest.raises(EyechartError, match="is not an image processor"):
            encoder_of((model, lambda image: np.asarray(image.convert("RGB"))))
        with pytest.raises(EyechartError, match="takes raw images and texts"):
            eyechart.evaluate(Direction(), DATA, preprocess=np.asarray)

    def test_a_model_of_transformers_that_was_never_saved_needs_its_processor(self, tmp_path):
        from transformers import AutoConfig, AutoModel

        zoo_transformers.clip(tmp_path)
        config = AutoConfig.from_pretrained(tmp_path)
        config.name_or_path = ""

        with pytest.raises(EyechartError, match="has no processor") as caught:
            encoder_of(AutoModel.from_config(config))
        assert "(model, processor)" in caught.value.advice

    def test_a_model_of_sentence_transformers(self, tmp_path):
        from sentence_transformers import SentenceTransformer

        case = zoo_sentence.clip(tmp_path)
        encoder = check_vectors(SentenceTransformer(str(tmp_path / "saved"), device="cpu"), case)
        assert encoder.truncated(["a cat", "cat " * 200]) == [False, True]

    def test_one_that_only_reads_says_so(self, tmp_path):
        from sentence_transformers import SentenceTransformer

        case = zoo_sentence.text(tmp_path)
        encoder = encoder_of(SentenceTransformer(str(tmp_path / "saved"), device="cpu"))

        assert np.allclose(encoder.encode_texts(TEXTS), case.texts(TEXTS), atol=1e-5)
        assert encoder.card.prompts == {"query": "query: "}
        with pytest.raises(EyechartError, match="has no encode_images"):
            encoder.encode_images([encoder.prepare_image(photos()[0])])

    @pytest.mark.parametrize("form", [list, np.asarray, "tensor", "tensors"])
    def test_any_object_with_the_two_methods_whatever_it_returns(self, form):
        import torch

        def given(rows):
            tensor = torch.tensor(rows)
            return {"tensor": tensor, "tensors": list(tensor)}.get(form) if isinstance(form, str) else form(rows)

        class Mine:
            def encode_images(self, images):
                assert all(isinstance(image, Image.Image) for image in images)
                return given([[float(image.width), float(image.height)] for image in images])

            def encode_texts(self, texts):
                return given([[float(len(text)), 1.0] for text in texts])

        encoder = encoder_of(Mine())
        pixels = [encoder.prepare_image(image) for image in photos()]

        assert encoder.encode_images(pixels).tolist() == [[image.width, image.height] for image in photos()]
        assert encoder.encode_texts(["abc"]).tolist() == [[3, 1]]

    def test_an_object_that_only_sees_is_enough_for_a_task_without_texts(self):
        class Eyes:
            def encode_images(self, images):
                return np.stack([np.asarray(image.resize((4, 4)), float).ravel() for image in images])

        (result,) = eyechart.evaluate(Eyes(), DATA, task="clustering")
        assert result.counts["scored"] == 5
        with pytest.raises(EyechartError, match="Eyes encodes images, not texts"):
            eyechart.evaluate(Eyes(), DATA)

    def test_what_is_missing_is_said_before_anything_is_read(self, clip):
        _, model, _, preprocess, _ = clip

        for thing, words in [
            (model, "has encode_image but no preprocess"),
            ((model, preprocess), "has encode_text but no tokenizer"),
            ((preprocess, preprocess), "contains 0 models"),
            ((model, model), "contains 2 models"),
            ((model, 3, preprocess), "takes neither a list of texts nor an image"),
            (object(), "is not a model"),
            (Direction, "Direction is a class"),
            ([], "model is an empty list"),
            (7, "int 7 is not a model"),
        ]:
            with pytest.raises(EyechartError, match=words) as caught:
                eyechart.evaluate(thing, {"images": ["never/read.png"], "labels": [0], "classnames": ["x"]})
            assert "--" not in caught.value.advice

    def test_a_row_too_few_is_an_error_that_names_the_method(self):
        class Short:
            def encode_images(self, images):
                return np.ones((len(images), 3))[1:]

            def encode_texts(self, texts):
                return np.ones((len(texts), 3))

        with pytest.raises(EyechartError, match=r"Short.encode_images returned shape \(4, 3\) for 5 inputs"):
            eyechart.evaluate(Short(), DATA)


class TestARun:
    def test_the_same_numbers_as_by_name(self, clip, tmp_path):
        case, model, _, preprocess, tokenizer = clip
        named = {"model": [case.spec.name], "pretrained": [case.spec.pretrained], "output": str(tmp_path / "r.json")}

        (by_name,) = eyechart.evaluate(dataset=DATA, **named)
        (by_object,) = eyechart.evaluate((model, preprocess, tokenizer), DATA)

        assert by_object.metrics == by_name.metrics
        own, other = ([r["scores"] for r in result.iter_records()] for result in (by_object, by_name))
        assert np.allclose(own, other, atol=1e-5)

    def test_the_result_says_what_the_model_was(self, clip):
        _, model, _, preprocess, tokenizer = clip
        results = eyechart.evaluate({"epoch 3": (model, preprocess, tokenizer)}, DATA)

        (result,) = results
        assert (result.model, result.pretrained, result.model_card["family"]) == ("epoch 3", "", "object")
        assert result.job["objects"] == {"model": "open_clip.model.CLIP", "dataset": "builtins.dict"}
        assert result.job["model_type"] == "object"

    def test_objects_and_names_in_one_call(self, clip, tmp_path):
        _, model, _, preprocess, tokenizer = clip
        triple = (model, preprocess, tokenizer)
        results = eyechart.evaluate([triple, "eyechart-tiny", triple], DATA)

        assert [result.model for result in results] == ["CLIP", "eyechart-tiny", "CLIP-2"]

    def test_results_come_in_the_order_of_the_models(self):
        tiny = eyechart.load_model("eyechart-tiny")
        for models in (["eyechart-tiny", Direction()], [tiny, Direction()]):
            assert [result.model for result in eyechart.evaluate(models, DATA)] == ["eyechart-tiny", "Direction"]

    def test_an_object_is_never_taken_for_what_has_its_name(self):
        data = {"name": "demo/garments", **DATA}
        own, other = eyechart.evaluate({"demo/scenes": Direction()}, [data, "demo/garments"])

        assert (own.dataset, own.counts["scored"]) == ("demo/garments-2", len(DATA["images"]))
        assert (other.dataset, other.counts["scored"]) == ("demo/garments", 600)

    def test_a_model_under_two_spellings_is_measured_once(self):
        tiny = eyechart.load_model("eyechart-tiny")
        assert len(eyechart.evaluate([tiny, "eyechart-tiny", tiny], DATA)) == 1

    @pytest.mark.parametrize("setting", [{"device": "cuda"}, {"precision": "fp16"}])
    def test_what_was_loaded_stays_as_it_was_loaded(self, setting):
        with pytest.raises(EyechartError, match="applies to models given by name"):
            eyechart.evaluate(eyechart.load_model("eyechart-tiny"), DATA, **setting)

    def test_a_module_is_left_as_it_was(self, clip):
        import torch

        _, model, _, preprocess, tokenizer = clip
        model.train()
        model.visual.eval()  # somebody has frozen a part of it
        before = {name: module.training for name, module in model.named_modules()}
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}

        eyechart.evaluate((model, preprocess, tokenizer), DATA)

        assert {name: module.training for name, module in model.named_modules()} == before
        assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
        # What it keeps of the evaluation does not stand in the way of the next step of training.
        model.encode_text(tokenizer(["a cat"])).sum().backward()
        model.zero_grad()
        model.eval()

    def test_modules_are_found_however_deep_they_lie(self):
        models = {where: make() for where, make in HOLDERS.items()}
        modes = {}
        for where, model in models.items():
            eyechart.evaluate(model, DATA)
            modes[where] = (model.modes, model.layer().training)

        assert modes == dict.fromkeys(HOLDERS, ({False}, True))

    def test_a_module_that_two_threads_measure_goes_back_when_both_have_done(self):
        import torch

        layer = torch.nn.Dropout()
        with evaluation_mode([layer]):
            first = evaluation_mode([SimpleNamespace(inside=layer)])
            with first:
                pass
            assert not layer.training
        assert layer.training

        first, second = evaluation_mode([layer]), evaluation_mode([layer])
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert not layer.training
        second.__exit__(None, None, None)
        assert layer.training

    def test_tokens_may_be_lists_by_name(self, clip):
        _, model, _, preprocess, tokenizer = clip
        parts = (model, preprocess)
        lists = eyechart.evaluate(parts, DATA, tokenizer=lambda texts: {"input_ids": tokenizer(texts).tolist()})
        assert lists[0].metrics == eyechart.evaluate(parts, DATA, tokenizer=tokenizer)[0].metrics

        with pytest.raises(EyechartError, match="does not return a tensor"):
            eyechart.evaluate(parts, DATA, tokenizer=lambda texts: [list(text.encode()) for text in texts])

    @pytest.mark.parametrize("setting", [{"device": "cpu"}, {"precision": "fp16"}, {"pretrained": "openai"}])
    def test_settings_of_named_models_are_refused_in_pythons_words(self, clip, setting):
        (name,) = setting
        _, model, _, preprocess, tokenizer = clip

        with pytest.raises(EyechartError, match=rf"^{name} applies to models"):
            eyechart.evaluate((model, preprocess, tokenizer), DATA, **setting)

    def test_a_task_that_needs_a_generator_refuses_an_object(self, clip):
        with pytest.raises(EyechartError, match="this task needs a generator"):
            eyechart.evaluate(clip[1], DATA, task="image_caption", preprocess=clip[3], tokenizer=clip[4])


class Direction:
    """Sees only how bright an image is; texts have a direction that ``flip`` turns around."""

    def __init__(self):
        import torch

        seeded()
        self.layer = torch.nn.Linear(2, 2, bias=False)
        self.layer.weight.data = torch.eye(2)
        self.images = 0

    def encode_images(self, images):
        self.images += len(images)
        return self.layer(self._rows([np.asarray(image).mean() > 127 for image in images]))

    def encode_texts(self, texts):
        return self._rows(["bright" in text for text in texts])

    def _rows(self, bright):
        import torch

        return torch.tensor([[float(one), float(not one)] for one in bright])


def shades(*values):
    return [Image.new("RGB", (8, 8), (value, value, value)) for value in values]


class Holder:
    """Holds a layer somewhere, and notes in which mode it is."""

    def __init__(self, layer, **attributes):
        self.layer = layer
        self.modes = set()
        vars(self).update(attributes)

    def encode_images(self, images):
        self.modes.add(self.layer().training)
        return np.ones((len(images), 2))

    encode_texts = encode_images


def _layer():
    import torch

    return torch.nn.Dropout()


def _in_a_list():
    layers = [_layer()]
    return Holder(lambda: layers[0], layers={"all": layers})


def _in_another_object():
    inner = SimpleNamespace(layer=_layer())
    return Holder(lambda: inner.layer, inner=inner)


def _in_the_class():
    class Own(Holder):
        shared = _layer()

    return Own(lambda: Own.shared)


HOLDERS = {"list": _in_a_list, "object": _in_another_object, "class": _in_the_class}


class TestNothingIsTakenFromTheStore:
    def test_weights_that_change_in_place_between_two_calls(self, own_cache):
        import torch

        model = Direction()
        data = {"images": shades(10, 20, 200, 220), "labels": [0, 0, 1, 1], "classnames": ["dark", "bright"]}
        (before,) = eyechart.evaluate(model, data)

        model.layer.weight.data = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
        (after,) = eyechart.evaluate(model, data)

        assert (before.metrics["acc1"], after.metrics["acc1"]) == (1.0, 0.0)
        assert before.model_card["fingerprint"] != after.model_card["fingerprint"]
        assert not list(own_cache.rglob("*.safetensors")), "vectors of an object went into the store"

    def test_a_change_that_no_probe_would_notice(self):
        """Identity by a few answers is not enough: this model changes for one image only."""
        model = Direction()
        data = {"images": shades(10, 20, 200, 220), "labels": [0, 0, 1, 1], "classnames": ["dark", "bright"]}
        (before,) = eyechart.evaluate(model, data)
        honest = model.encode_images

        def lying(images):
            vectors = honest(images).detach().numpy().copy()
            for row, image in enumerate(images):
                if image.getpixel((0, 0)) == (220, 220, 220):
                    vectors[row] = vectors[row][::-1]
            return vectors

        model.encode_images = lying
        (after,) = eyechart.evaluate(model, data)

        assert (before.metrics["acc1"], after.metrics["acc1"]) == (1.0, 0.75)

    def test_two_objects_in_one_call_that_answer_every_probe_alike(self):
        one, other = Direction(), Direction()
        honest = other.encode_images
        other.encode_images = lambda images: honest(images).flip(1) if images[0].size == (8, 8) else honest(images)
        data = {"images": shades(10, 220), "labels": [0, 1], "classnames": ["dark", "bright"]}

        results = eyechart.evaluate([one, other], data)

        assert [result.metrics["acc1"] for result in results] == [1.0, 0.0]

    def test_an_object_is_encoded_once_for_all_tasks_of_a_call_and_anew_in_the_next(self):
        model = Direction()
        data = {"images": shades(*range(0, 250, 10)), "labels": [0] * 13 + [1] * 12, "classnames": ["dark", "bright"]}

        eyechart.evaluate(model, data, task=["zeroshot_classification", "clustering"])
        first = model.images
        eyechart.evaluate(model, data, task="clustering")

        assert first < 2 * 25
        assert model.images == 2 * first

    def test_skip_existing_never_skips_an_object(self, tmp_path):
        model = Direction()
        data = {"images": shades(10, 220), "labels": [0, 1], "classnames": ["dark", "bright"]}
        settings = {"output": str(tmp_path / "r.json"), "skip_existing": True}
        eyechart.evaluate(model, data, **settings)
        first = model.images

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eyechart.evaluate(model, data, **settings)

        assert model.images == 2 * first
        eyechart.evaluate("eyechart-tiny", data, output=str(tmp_path / "tiny.json"), skip_existing=True)
        other = {**data, "labels": [1, 0]}
        (again,) = eyechart.evaluate("eyechart-tiny", other, output=str(tmp_path / "tiny.json"), skip_existing=True)
        assert [record["label"] for record in again.iter_records()] == [1, 0]


def test_a_part_that_reads_and_sees_is_not_a_model():
    with pytest.raises(EyechartError, match="is not a model"):
        parts_of("ViT-B-32")
