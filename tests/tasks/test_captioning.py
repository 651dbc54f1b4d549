"""Captioning with a CoCa of the real architecture, made small, and with a generator that was told what to say."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import eyechart
from eyechart.errors import DataError, UsageError
from eyechart.metrics.captions import score_captions
from eyechart.models.access import Access
from eyechart.models.local_generators import END, LONGEST, CocaFamily, CocaGenerator, greedy
from eyechart.tasks.base import TaskContext
from eyechart.tasks.captioning import Captioning
from eyechart.types import Answer, Message, ModelCard, ModelSpec, Prompt
from support.data import encoded, noise_image, write_retrieval
from support.encoders import constant_encoder
from support.tasks import make_context, values

SMALL = {
    "embed_dim": 32,
    "multimodal_cfg": {
        "width": 32,
        "context_length": 76,
        "vocab_size": 49408,
        "layers": 1,
        "dim_head": 16,
        "heads": 2,
        "n_queries": 4,
        "attn_pooler_heads": 2,
    },
    "vision_cfg": {
        "image_size": 32,
        "layers": 1,
        "width": 32,
        "patch_size": 16,
        "head_width": 16,
        "attentional_pool": True,
        "attn_pooler_queries": 4,
        "attn_pooler_heads": 2,
        "output_tokens": True,
    },
    "text_cfg": {
        "context_length": 76,
        "vocab_size": 49408,
        "width": 32,
        "heads": 2,
        "layers": 1,
        "embed_cls": True,
        "output_tokens": True,
    },
    "custom_text": True,
}
CAPTIONS = [
    ["a dog runs on grass", "the dog is running"],
    ["two cats sleep on a bed"],
    ["a red bus in the city street"],
]
RIGHT = ("a dog runs on grass", "two cats sleep on a bed", "a red bus in the city street")


@pytest.fixture(scope="module")
def coca(tmp_path_factory):
    """A small CoCa with random weights, saved as open_clip saves: architecture and checkpoint."""
    import open_clip
    import torch

    folder = tmp_path_factory.mktemp("coca")
    (folder / "coca_small.json").write_text(json.dumps(SMALL))
    open_clip.add_model_config(folder)
    torch.manual_seed(0)
    torch.save(open_clip.create_model("coca_small").state_dict(), folder / "weights.pt")
    return ModelSpec("open_clip", str(folder / "coca_small.json"), str(folder / "weights.pt"))


class Told:
    """A generator that was told what to say, by the position of the image."""

    def __init__(self, *texts):
        self.card = ModelCard("test", "told", "0", "none")
        self.texts = texts

    def generate(self, prompts, repeat=0):
        for prompt, text in zip(prompts, self.texts, strict=True):
            yield prompt.id, text if isinstance(text, Answer) else Answer(text)

    def spent(self):
        return {}


def caption(tmp_path, *texts, captions=CAPTIONS, on_error="fail", **options):
    manifest = make_context(
        write_retrieval(tmp_path / "data", captions=captions), constant_encoder(), tmp_path
    ).manifest
    task = Captioning()
    settings = task.Settings.picked(options)
    context = TaskContext(manifest, Told(*texts), None, tmp_path / "result.json", on_error=on_error)
    return task.score(task.predict(context, settings), settings)


class TestScores:
    def test_they_are_the_caption_metrics_as_fractions(self, tmp_path):
        said = ("a dog on the grass", "some cats in bed", "the street of a city")

        outcome = caption(tmp_path, *said)

        expected = {name: value / 100 for name, value in score_captions(said, CAPTIONS, "ptb").items()}
        assert values(outcome) == pytest.approx(expected)
        assert list(outcome.metrics) == ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"]

    def test_means_over_images_are_those_of_the_records(self, tmp_path):
        outcome = caption(tmp_path, "a dog on the grass", "some cats in bed", "the street of a city")

        for name in ("ROUGE_L", "CIDEr"):
            assert outcome.metrics[name].value == pytest.approx(np.mean([r[name] for r in outcome.records]), abs=1e-6)
            assert (outcome.metrics[name].low, outcome.metrics[name].high) == (None, None), "three images are too few"

    def test_means_over_images_have_an_interval_from_five_images_on(self, tmp_path):
        outcome = caption(tmp_path, *RIGHT, "a dog on the grass", "some cats in bed", captions=CAPTIONS + CAPTIONS[:2])

        for name in ("ROUGE_L", "CIDEr"):
            assert outcome.metrics[name].low < outcome.metrics[name].value < outcome.metrics[name].high
        assert outcome.metrics["CIDEr"].value > 1

    def test_they_agree_with_pycocoevalcap(self, tmp_path):
        from pycocoevalcap.bleu.bleu import Bleu
        from pycocoevalcap.cider.cider import Cider
        from pycocoevalcap.rouge.rouge import Rouge

        said = ("a dog on the grass", "some cats in bed", "the street of a city")
        outcome = values(caption(tmp_path, *said))

        truths, results = dict(enumerate(CAPTIONS)), {i: [text] for i, text in enumerate(said)}
        bleu = Bleu(4).compute_score(truths, results, verbose=0)[0]
        assert [outcome[f"Bleu_{n}"] for n in range(1, 5)] == pytest.approx(bleu)
        assert outcome["ROUGE_L"] == pytest.approx(Rouge().compute_score(truths, results)[0])
        assert outcome["CIDEr"] == pytest.approx(Cider().compute_score(truths, results)[0])

    def test_a_model_that_always_says_the_same_gets_chance(self, tmp_path):
        outcome = caption(tmp_path, *["a dog in the city"] * 3)

        assert all(metric.value == pytest.approx(metric.chance) for metric in outcome.metrics.values())

    def test_right_captions_beat_chance(self, tmp_path):
        outcome = caption(tmp_path, *RIGHT)

        assert all(metric.value > metric.chance for metric in outcome.metrics.values())

    def test_space_around_a_caption_does_not_count(self, tmp_path):
        outcome = caption(tmp_path, f"\n {RIGHT[0]} \n", " ", RIGHT[2])

        assert [record["caption"] for record in outcome.records] == [RIGHT[0], "", RIGHT[2]]
        assert [(notice.kind, notice.count) for notice in outcome.notices] == [("empty_captions", 1)]

    def test_an_empty_caption_is_scored_and_counted(self, tmp_path):
        outcome = caption(tmp_path, "", *RIGHT[1:])

        assert [(notice.kind, notice.count) for notice in outcome.notices] == [("empty_captions", 1)]
        assert len(outcome.records) == 3


class TestFailures:
    BROKEN = Answer("", error="the image cannot be decoded")

    def test_an_image_without_an_answer_ends_the_run(self, tmp_path):
        with pytest.raises(DataError, match=r"1 image has no caption; the first: .*cannot be decoded"):
            caption(tmp_path, self.BROKEN, *RIGHT[1:])

    def test_or_is_left_out_when_skipping(self, tmp_path):
        assert len(caption(tmp_path, self.BROKEN, *RIGHT[1:], on_error="skip").records) == 2


class TestJava:
    def test_what_is_missing_is_said_plainly(self, tmp_path, monkeypatch):
        monkeypatch.setattr(shutil, "which", lambda _: None)

        outcome = caption(tmp_path, *RIGHT, metrics="full")

        assert [notice.message for notice in outcome.notices] == [
            "METEOR and SPICE are not computed: Java is not installed."
        ]

    @pytest.mark.slow
    @pytest.mark.skipif(shutil.which("java") is None, reason="METEOR is a Java program")
    def test_meteor_is_computed_where_java_is(self, tmp_path, monkeypatch):
        monkeypatch.setattr("pycocoevalcap.spice.spice.Spice.__init__", _no_network)

        outcome = caption(tmp_path, *RIGHT, metrics="full")

        assert outcome.metrics["METEOR"].value > 0.9
        assert [notice.message for notice in outcome.notices] == ["not computed: SPICE: OSError('no network')"]


def _no_network(self):
    raise OSError("no network")


class TestCoca:
    def test_captions_are_the_likeliest_tokens_of_the_model_itself(self, coca):
        """Step by step with open_clip's own forward pass, one image at a time."""
        import torch

        generator = CocaGenerator(replace(coca, access=Access(batch_size=2)))
        model = generator.encoder.model
        pixels = torch.from_numpy(np.stack([generator.encoder.prepare_image(noise_image(i)) for i in range(3)]))
        with torch.inference_mode():
            together = greedy(model, pixels)
            for i in range(3):
                tokens = [49406]
                while len(tokens) < LONGEST and tokens[-1] != END:
                    logits = model(pixels[i : i + 1], torch.tensor([tokens]), output_labels=False)["logits"][0, -1]
                    if len(tokens) < 5:
                        logits[END] = -torch.inf
                    tokens.append(int(logits.argmax()))
                assert together[i].tolist()[: len(tokens)] == tokens

    def test_a_broken_image_is_an_error_of_its_own(self, coca):
        from eyechart.io.images import ImageRef

        answer = CocaGenerator(coca).generate([Message("user", (ImageRef("x", data=b"no"), "Describe"))])

        assert "cannot decode" in answer.error

    def test_a_deep_image_is_not_white(self, coca):
        """Pillow's own conversion cuts at 255, which makes an image of 16 bits white."""
        from eyechart.io.images import ImageRef

        deep = np.random.default_rng(0).integers(0, 1 << 16, (32, 32), np.uint16)
        flat = Image.fromarray((deep >> 8).astype(np.uint8))
        generator = CocaGenerator(coca)

        seen, meant = (
            generator.prepare(Prompt("", (Message("user", (ImageRef("x", data=encoded(image)),)),)))
            for image in (Image.fromarray(deep), flat)
        )

        np.testing.assert_array_equal(seen, meant)

    def test_the_whole_run_writes_captions_once_and_a_second_run_loads_nothing(self, coca, tmp_path, monkeypatch):
        root = write_retrieval(tmp_path / "data", captions=CAPTIONS)
        settings = {
            "model_type": "open_clip",
            "model": [coca.name],
            "pretrained": [coca.pretrained],
            "dataset": ["wds/x"],
            "dataset_root": str(root),
            "task": "captioning",
            "output": str(tmp_path / "result.json"),
        }
        (first,) = eyechart.evaluate(**settings)
        monkeypatch.setattr(CocaFamily, "load", lambda *_: pytest.fail("the model was loaded again"))

        (again,) = eyechart.evaluate(**settings)

        assert set(first.metrics) == {"Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"}
        assert again.metrics == first.metrics
        assert [record["caption"] for record in first.iter_records()] == [r["caption"] for r in again.iter_records()]
        assert first.counts == {"listed": 3, "scored": 3, "failed": 0}

    def test_the_same_model_encodes_and_writes_in_one_run(self, coca, tmp_path):
        root = write_retrieval(tmp_path / "data", captions=CAPTIONS)

        results = eyechart.evaluate(
            model_type="open_clip",
            model=[coca.name],
            pretrained=[coca.pretrained],
            dataset=["wds/x"],
            dataset_root=str(root),
            task=["zeroshot_retrieval", "captioning"],
            output=str(tmp_path / "{task}.json"),
        )

        assert [result.task for result in results] == ["zeroshot_retrieval", "captioning"]

    def test_a_model_without_a_decoder_is_refused(self, tmp_path):
        architecture = {
            "embed_dim": 8,
            "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16},
            "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
        }
        path = tmp_path / "clip_small.json"
        path.write_text(json.dumps(architecture))

        for name in (str(path), "ViT-B-32"):
            with pytest.raises(UsageError, match="no text decoder"):
                CocaFamily().check(ModelSpec("open_clip", name))
        with pytest.raises(UsageError, match="no text decoder"):
            CocaGenerator(ModelSpec("open_clip", str(path)))

    def test_the_librarys_own_cocas_are_known(self):
        CocaFamily().check(ModelSpec("open_clip", "coca_ViT-B-32"))

    @pytest.mark.parametrize("decoding", ["beam_search", "magic"])
    def test_a_decoding_other_than_greedy_is_refused(self, coca, decoding):
        spec = ModelSpec(coca.family, coca.name, coca.pretrained, options={"settings": {"decoding": decoding}})
        with pytest.raises(UsageError, match=f"Unknown decoding: '{decoding}'"):
            CocaFamily().check(spec)
