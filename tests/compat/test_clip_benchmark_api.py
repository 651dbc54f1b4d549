"""The functions of CLIP_benchmark's modules: signatures, and what differs on purpose."""

import inspect
import json
import math
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from eyechart.cli import main
from eyechart.cli.act_as import SURFACES
from eyechart.compat.import_shim import _Finder
from eyechart.datasets.row_dataset import RowDataset
from eyechart.errors import DataError, EyechartError, UsageError
from support.data import (
    encoded,
    noise_image,
    png,
    write_classification,
    write_multilabel,
    write_retrieval,
    write_shards,
)

torch = pytest.importorskip("torch")

SIGNATURES = {
    "clip_benchmark.cli.run": "(args)",
    "clip_benchmark.cli.main": "()",
    "clip_benchmark.cli.get_parser_args": "()",
    "clip_benchmark.datasets.builder.build_dataset": "(dataset_name, root='root', transform=None, split='test', "
    "download=True, annotation_file=None, language='en', task='zeroshot_classification', wds_cache_dir=None, "
    "custom_classname_file=None, custom_template_file=None, **kwargs)",
    "clip_benchmark.datasets.builder.build_wds_dataset": "(dataset_name, transform, split='test', data_dir='root', "
    "cache_dir=None)",
    "clip_benchmark.datasets.builder.get_dataset_collate_fn": "(dataset_name)",
    "clip_benchmark.datasets.builder.get_dataset_default_task": "(dataset)",
    "clip_benchmark.datasets.builder.image_captions_collate_fn": "(batch)",
    "clip_benchmark.metrics.zeroshot_classification.zero_shot_classifier": "(model, tokenizer, classnames, templates, "
    "device, amp=True)",
    "clip_benchmark.metrics.zeroshot_classification.run_classification": "(model, classifier, dataloader, device, "
    "amp=True)",
    "clip_benchmark.metrics.zeroshot_classification.accuracy": "(output, target, topk=(1,))",
    "clip_benchmark.metrics.zeroshot_classification.average_precision_per_class": "(scores, targets)",
    "clip_benchmark.metrics.zeroshot_classification.evaluate": "(model, dataloader, tokenizer, classnames, templates, "
    "device, amp=True, verbose=False, save_clf=None, load_clfs=[])",
    "clip_benchmark.metrics.zeroshot_retrieval.evaluate": "(model, dataloader, tokenizer, device, amp=True, "
    "recall_k_list=[5])",
    "clip_benchmark.metrics.zeroshot_retrieval.recall_at_k": "(scores, positive_pairs, k)",
    "clip_benchmark.metrics.zeroshot_retrieval.batchify": "(func, X, Y, batch_size, device, *args, **kwargs)",
    "clip_benchmark.metrics.zeroshot_retrieval.dataloader_with_indices": "(dataloader)",
    "clip_benchmark.metrics.image_caption_selection.evaluate": "(model, dataloader, tokenizer, device, amp=True)",
    "clip_benchmark.metrics.linear_probe.evaluate": "(model, train_dataloader, dataloader, fewshot_k, batch_size, "
    "num_workers, lr, epochs, model_id, seed, feature_root, device, val_dataloader=None, normalize=True, amp=True, "
    "verbose=False)",
    "clip_benchmark.metrics.linear_probe.train": "(dataloader, input_shape, output_shape, weight_decay, lr, epochs, "
    "amp, device, seed)",
    "clip_benchmark.metrics.linear_probe.infer": "(model, dataloader, amp, device)",
    "clip_benchmark.metrics.linear_probe.find_peak": "(wd_list, idxs, train_loader, val_loader, input_shape, "
    "output_shape, lr, epochs, amp, device, verbose, seed)",
    "clip_benchmark.metrics.linear_probe.cosine_lr": "(optimizer, base_lrs, warmup_length, steps)",
    "clip_benchmark.metrics.linear_probe.FeatureDataset": "(features, targets)",
    "clip_benchmark.metrics.linear_probe.Featurizer": "(model, normalize=True)",
    "clip_benchmark.models.load_clip": "(model_type, model_name, pretrained, cache_dir, device='cuda')",
    "clip_benchmark.models.open_clip.load_open_clip": "(model_name='ViT-B-32-quickgelu', pretrained='laion400m_e32', "
    "cache_dir=None, device='cpu')",
    "clip_benchmark.model_collection.get_model_collection_from_file": "(path)",
    "clip_benchmark.webdataset_builder.convert_dataset": "(dataset, split, output_folder, *, transform=None, "
    "image_format='webp', max_count=10000, max_size=1000000000, multilabel=False, verbose=True)",
    "clip_benchmark.webdataset_builder.convert_retrieval_dataset": "(dataset, split, output_folder, *, transform=None, "
    "image_format='webp', max_count=10000, max_size=1000000000, verbose=True)",
    "clip_benchmark.webdataset_builder.PIL_to_bytes": "(image_format)",
    "clip_benchmark.webdataset_builder.path_to_bytes": "(filepath)",
}
"""As version 1.6.2 has them, annotations left out."""


@cache
def module_of(name):
    """Return what a script gets by importing a module of the original."""
    module = ModuleType(name)
    assert name in SURFACES["clip_benchmark"]
    _Finder("clip_benchmark").exec_module(module)
    return module


def served(name):
    """Return what a script gets under a name of the original."""
    module, _, attribute = name.rpartition(".")
    return getattr(module_of(module), attribute)


def of(module, name):
    return served(f"clip_benchmark.{module}.{name}")


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_the_original(name):
    found = inspect.signature(served(name))
    plain = [value.replace(annotation=inspect.Parameter.empty) for value in found.parameters.values()]
    text = str(inspect.Signature(plain))

    # A list as a default is shared by all calls, so ours are tuples.
    assert text.replace("(5,)", "[5]").replace("load_clfs=()", "load_clfs=[]") == SIGNATURES[name]


class Toy:
    """Encodes an image as its mean colour, and a text as the colour that it names."""

    COLOURS = ("red", "green", "blue")

    def encode_image(self, images):
        return images.mean(dim=(2, 3))

    def encode_text(self, tokens):
        return torch.eye(3)[tokens[:, 0]] + 0.1


def tokenize(texts):
    return torch.tensor([[next(i for i, word in enumerate(Toy.COLOURS) if word in text)] for text in texts])


def plain(colour, n=1):
    images = torch.zeros(n, 3, 4, 4)
    images[:, Toy.COLOURS.index(colour)] = 1
    return images


def batches(*colours, targets):
    return [(plain(colour), target) for colour, target in zip(colours, targets, strict=True)]


class TestClassification:
    zero_shot_classifier = staticmethod(of("metrics.zeroshot_classification", "zero_shot_classifier"))
    evaluate = staticmethod(of("metrics.zeroshot_classification", "evaluate"))
    accuracy = staticmethod(of("metrics.zeroshot_classification", "accuracy"))

    def test_a_classifier_has_a_unit_column_for_each_class(self):
        found = self.zero_shot_classifier(Toy(), tokenize, Toy.COLOURS, ["a {c}", "the {c}"], "cpu")

        assert (found.shape, found.dtype) == ((3, 3), torch.float32)
        assert torch.allclose(found.norm(dim=0), torch.ones(3))

    def test_prompts_of_each_class_are_used_as_they_are(self):
        own = {"rot": ["red {c}", "very red"], "blau": ["blue"]}

        found = self.zero_shot_classifier(Toy(), tokenize, ["rot", "blau"], own, "cpu")

        assert found.argmax(dim=0).tolist() == [0, 2]

    def test_no_classes_are_refused(self):
        with pytest.raises(UsageError, match="No class names"):
            self.zero_shot_classifier(Toy(), tokenize, [], ["a {c}"], "cpu")

    def test_templates_of_another_kind_are_refused(self):
        with pytest.raises(UsageError, match="list or a dict, not a str"):
            self.zero_shot_classifier(Toy(), tokenize, Toy.COLOURS, "a {c}", "cpu")

    def test_precision_on_a_cpu_is_float32_whatever_amp_says(self):
        class Watching(Toy):
            def encode_image(self, images):
                assert not torch.is_autocast_enabled("cpu")
                return super().encode_image(images)

        loader = batches("red", "blue", targets=[torch.tensor([0]), torch.tensor([1])])

        found = self.evaluate(Watching(), loader, tokenize, Toy.COLOURS, ["{c}"], "cpu", amp=True)

        assert found["acc1"] == 0.5
        assert math.isnan(found["acc5"])

    def test_ties_count_against_the_label(self):
        logits = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 0.5]])

        assert self.accuracy(logits, torch.tensor([0, 1]), topk=(1, 2)) == [0.5, 1.0]

    def test_a_constant_scorer_is_never_right(self):
        assert self.accuracy(torch.ones(4, 3), torch.tensor([0, 1, 2, 0])) == [0.0]

    def test_of_two_equal_columns_the_first_can_be_right_as_with_imagenets_double_names(self):
        logits = torch.tensor([[2.0, 0.0, 2.0], [1.0, 3.0, 1.0]])

        assert self.accuracy(logits, torch.tensor([0, 1])) == [1.0]
        assert self.accuracy(logits, torch.tensor([2, 1]), topk=(1, 2)) == [0.5, 1.0]

    def test_a_label_that_is_no_class_is_refused(self):
        with pytest.raises(DataError, match="Label 3 is out of range for 3 classes"):
            self.accuracy(torch.rand(1, 3), torch.tensor([3]))

    def test_a_class_without_positives_has_an_average_precision_of_0(self):
        precision = of("metrics.zeroshot_classification", "average_precision_per_class")

        found = precision(torch.tensor([[0.9, 0.1], [0.2, 0.3], [0.1, 0.2]]), torch.tensor([[1, 0], [0, 0], [1, 0]]))

        assert found.tolist() == pytest.approx([(1 + 2 / 3) / 2, 0])

    def test_saved_classifiers_are_torch_files_and_are_averaged(self, tmp_path):
        loader = batches("red", "blue", targets=[torch.tensor([0]), torch.tensor([2])])
        first = self.evaluate(Toy(), loader, tokenize, Toy.COLOURS, ["{c}"], "cpu", save_clf=tmp_path / "a.any")
        torch.save(torch.load(tmp_path / "a.any", weights_only=True)[:, [2, 1, 0]], tmp_path / "turned.pt")

        twice = [tmp_path / "a.any"] * 2
        assert self.evaluate(Toy(), loader, None, Toy.COLOURS, None, "cpu", load_clfs=twice) == pytest.approx(
            first, nan_ok=True
        )
        turned = self.evaluate(Toy(), loader, None, Toy.COLOURS, None, "cpu", load_clfs=[tmp_path / "turned.pt"])
        assert (first["acc1"], turned["acc1"]) == (1.0, 0.0)

    def test_scripts_silence_it_by_its_name(self):
        assert list(of("metrics.zeroshot_classification", "tqdm")([1, 2], desc="x")) == [1, 2]


class TestRetrieval:
    evaluate = staticmethod(of("metrics.zeroshot_retrieval", "evaluate"))

    def test_recall_is_the_share_of_queries_with_a_hit(self):
        loader = [(torch.cat([plain("red"), plain("blue")]), [["red", "green"], ["blue"]])]

        found = self.evaluate(Toy(), loader, tokenize, "cpu", recall_k_list=[1])

        # "green" is as near to red as to blue: a tie, which is no hit.
        assert found == pytest.approx({"image_retrieval_recall@1": 2 / 3, "text_retrieval_recall@1": 1.0})

    def test_captions_belong_to_images_of_their_own_batch(self):
        whole = [(torch.cat([plain("red"), plain("blue")]), [["red", "red"], ["blue"]])]
        parts = [(plain("red"), [["red", "red"]]), (plain("blue"), [["blue"]])]

        found = [self.evaluate(Toy(), loader, tokenize, "cpu", recall_k_list=[1]) for loader in (whole, parts)]

        assert found[0] == found[1] == {"image_retrieval_recall@1": 1.0, "text_retrieval_recall@1": 1.0}

    def test_an_image_without_a_caption_is_refused(self):
        with pytest.raises(DataError, match="no caption"):
            self.evaluate(Toy(), [(plain("red"), [[]])], tokenize, "cpu")

    def test_recall_at_k_is_recall_in_the_strict_sense_and_negatives_come_first_among_equals(self):
        recall_at_k = of("metrics.zeroshot_retrieval", "recall_at_k")
        scores = torch.tensor([[3.0, 2.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
        positive = torch.tensor([[True, False, True, False], [True, False, False, False]])

        assert recall_at_k(scores, positive, 1).tolist() == [0.5, 0.0]
        assert recall_at_k(scores, positive, 3).tolist() == [1.0, 0.0]
        assert recall_at_k(scores, positive, 9).tolist() == [1.0, 1.0]

    def test_rows_are_worked_on_a_few_at_a_time(self):
        batchify = of("metrics.zeroshot_retrieval", "batchify")
        sizes = []

        def count(x, y, k):
            sizes.append(len(x))
            return x + k * y

        assert batchify(count, torch.arange(5), torch.ones(5), 2, "cpu", k=10).tolist() == [10, 11, 12, 13, 14]
        assert sizes == [2, 2, 1]


class TestSelection:
    evaluate = staticmethod(of("metrics.image_caption_selection", "evaluate"))

    def test_winoground_has_two_images_and_two_texts(self):
        right = torch.stack([plain("red")[0], plain("blue")[0]])
        loader = [(torch.stack([right, right.flip(0)]), [["red", "blue"], ["red", "blue"]])]

        assert self.evaluate(Toy(), loader, tokenize, "cpu") == {"image_acc": 0.5, "text_acc": 0.5, "acc": 0.5}

    def test_the_only_image_of_sugarcrepe_counts_as_found(self):
        loader = [(torch.cat([plain("red"), plain("blue")]), [["red", "blue"], ["red", "blue"]])]

        assert self.evaluate(Toy(), loader, tokenize, "cpu") == {"image_acc": 1.0, "text_acc": 0.5, "acc": 0.5}

    def test_a_constant_scorer_finds_nothing(self):
        class Constant(Toy):
            def encode_text(self, tokens):
                return torch.ones(len(tokens), 3)

        loader = [(plain("red"), [["red", "blue"]])]

        assert self.evaluate(Constant(), loader, tokenize, "cpu")["text_acc"] == 0


def test_captions_are_scored_as_fractions(monkeypatch):
    open_clip = pytest.importorskip("open_clip")
    monkeypatch.setenv("PATH", "")  # without Java there is neither METEOR nor SPICE

    class Captioner:
        def generate(self, images):
            return open_clip.tokenize(["A dog runs on the grass." if image.mean() > 0 else "a cat" for image in images])

    loader = [(torch.stack([torch.ones(3), -torch.ones(3)]), [["a dog runs on the grass"], ["a cat", "the cat"]])]

    found = of("metrics.captioning", "evaluate")(Captioner(), loader, batch_size=2, device="cpu", transform=None)

    assert set(found) == {"Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"}
    assert found["Bleu_1"] == pytest.approx(1, abs=1e-6)
    [(images, texts)] = loader
    parts = [(images[:1], texts[:1]), (images[1:], texts[1:])]
    assert of("metrics.captioning", "evaluate")(Captioner(), parts, batch_size=1, device="cpu") == found


def test_japanese_clip_is_loaded_by_its_library(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "support" / "stand_ins")

    model, transform, tokenizer = of("models", "load_clip")("ja_clip", "any", "rinna/x", None, "cpu")

    tokens = tokenizer(["\u732b", "\u72ac"]).to("cpu")
    assert model.eval().encode_text(tokens).shape == model.encode_image(torch.rand(2, 3, 32, 32)).shape == (2, 16)
    assert transform(noise_image()).shape == (3, 32, 32)


def test_an_unknown_model_type_is_refused_with_those_that_there_are():
    with pytest.raises(EyechartError, match="TYPE2FUNC"):
        of("models", "load_clip")("openclip", "ViT-B-32", "openai", None)


class TestProbe:
    def test_it_gives_what_the_task_gives_on_any_device(self, tmp_path):
        from eyechart.tasks.probe_data import Features
        from eyechart.tasks.probes import LinearProbe

        rng = np.random.default_rng(0)
        labels = rng.integers(0, 6, 90)
        pixels = torch.from_numpy((np.eye(6)[labels, :, None, None] + rng.random((90, 6, 2, 2))).astype(np.float32))
        parts = [(pixels[i : i + 30], torch.from_numpy(labels[i : i + 30])) for i in range(0, 90, 30)]
        evaluate = of("metrics.linear_probe", "evaluate")
        how = {"fewshot_k": -1, "batch_size": 16, "num_workers": 0, "lr": 0.1, "epochs": 3, "model_id": "m", "seed": 5}

        found = evaluate(Toy(), parts[:1], parts[1:2], **how, feature_root=tmp_path, device="cpu")

        def features(part):
            vectors = torch.nn.functional.normalize(Toy().encode_image(part[0]), dim=-1).numpy()
            return Features(vectors, part[1].numpy())

        probe = LinearProbe()
        settings = probe.Settings.picked({"fewshot_epochs": 3, "fewshot_lr": 0.1, "batch_size": 16, "seed": 5})
        scores = probe.learn(features(parts[0]), None, settings, "cpu").scores(features(parts[1]).vectors)
        assert found["lp_acc1"] == pytest.approx(np.mean(scores.argmax(axis=1) == labels[30:60]))
        assert {key: found[key] for key in ("weight_decay", "epochs", "seed", "fewshot_k", "normalized")} == {
            "weight_decay": 0.0, "epochs": 3, "seed": 5, "fewshot_k": -1, "normalized": True,
        }  # fmt: skip
        again = evaluate(None, None, None, **how, feature_root=tmp_path, device="cpu")
        assert again == found

    def test_it_learns_from_streams_and_chooses_on_a_validation_set(self, tmp_path):
        root = write_classification(tmp_path / "data", n=12)
        dataset = of("datasets.builder", "build_dataset")("wds/x", str(root), transform=to_tensor)
        loaders = [torch.utils.data.DataLoader(dataset, batch_size=5) for _ in range(3)]

        found = of("metrics.linear_probe", "evaluate")(
            Toy(), *loaders[:2], 2, 4, 0, 0.1, 1, "m", 0, str(tmp_path), "cpu", val_dataloader=loaders[2]
        )

        assert 1e-6 <= found["weight_decay"] <= 100
        assert math.isnan(found["lp_acc5"])
        assert torch.load(tmp_path / "m" / "features_val.pt", weights_only=True).shape == (12, 3)

    def test_without_model_and_features_there_is_nothing_to_do(self, tmp_path):
        evaluate = of("metrics.linear_probe", "evaluate")

        with pytest.raises(UsageError, match="training and test data"):
            evaluate(None, None, None, 1, 2, 0, 0.1, 1, "m", 0, str(tmp_path), "cpu")

    def test_its_parts_work_alone(self):
        parts = {name: of("metrics.linear_probe", name) for name in ("FeatureDataset", "train", "infer", "find_peak")}
        rows = parts["FeatureDataset"](torch.eye(4).repeat(5, 1), torch.arange(4).repeat(5))
        loader = torch.utils.data.DataLoader(rows, batch_size=5)

        layer = parts["train"](loader, 4, 4, 0.0, 0.1, 20, False, "cpu", 0)
        logits, target = parts["infer"](layer, loader, False, "cpu")

        assert (logits.argmax(dim=1) == target).all()
        assert parts["find_peak"]([100.0, 0.0], [0, 1], loader, loader, 4, 4, 0.1, 5, False, "cpu", False, 0) in (0, 1)

    def test_the_rate_rises_while_warming_up_and_falls_along_a_cosine(self):
        weights = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weights], lr=9.0)
        adjust = of("metrics.linear_probe", "cosine_lr")(optimizer, 0.8, 4, 12)
        rates = []
        for step in range(12):
            adjust(step)
            rates.append(optimizer.param_groups[0]["lr"])

        assert rates[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
        assert rates[4:] == pytest.approx([0.4 * (1 + math.cos(math.pi * i / 8)) for i in range(8)])


class TestDatasets:
    build_dataset = staticmethod(of("datasets.builder", "build_dataset"))

    def test_a_stream_has_no_length_until_it_is_given_one(self, tmp_path):
        dataset = self.build_dataset("wds/x", str(write_classification(tmp_path, n=5)))

        with pytest.raises(TypeError, match="no length"):
            len(dataset)
        assert len(dataset.with_length(3)) == 3
        assert bool(dataset)

    def test_stages_do_not_change_the_stream_that_they_were_added_to(self, tmp_path):
        dataset = self.build_dataset("wds/x", str(write_classification(tmp_path, n=5)))

        first, second = (list(dataset.batched(3)) for _ in range(2))

        assert [len(batch[1]) for batch in first] == [len(batch[1]) for batch in second] == [3, 2]
        assert [len(batch[1]) for batch in dataset.batched(3, partial=False)] == [3]
        assert [target for _, target in dataset] == [0, 1, 2, 0, 1]
        assert [target for _, target in dataset.select(lambda pair: pair[1] > 0).slice(2)] == [1, 2]

    def test_once_its_stages_were_set_new_ones_go_to_the_stream_itself_as_in_webdataset_0_2(self, tmp_path):
        dataset = self.build_dataset("wds/x", str(write_classification(tmp_path, n=3)))
        dataset.pipeline = dataset.pipeline[:5]

        dataset.to_tuple("cls", "__key__")

        assert list(dataset) == [(0, "s0000000"), (1, "s0000001"), (2, "s0000002")]

    def test_shuffling_loses_nothing(self, tmp_path):
        import random

        dataset = self.build_dataset(
            "wds/x", str(write_classification(tmp_path, labels=list(range(20)), classes=names(20)))
        )

        found = [target for _, target in dataset.shuffle(5, initial=5, rng=random.Random(0))]

        assert sorted(found) == list(range(20)) != found
        in_order = [target for _, target in dataset.shuffle(1, initial=1, rng=random.Random(0))]
        filled = [target for _, target in dataset.shuffle(1, initial=20, rng=random.Random(0))]
        assert sorted(filled) == in_order == list(range(20)) != filled

    def test_class_names_may_be_in_a_file_of_the_user(self, tmp_path):
        root = write_classification(tmp_path / "data", n=3)
        (tmp_path / "names.json").write_text(json.dumps({"x": ["one", "two", "three"]}))

        dataset = self.build_dataset("wds/x", str(root), custom_classname_file=str(tmp_path / "names.json"))

        assert list(dataset.classes) == ["one", "two", "three"]

    def test_workers_share_the_shards(self, tmp_path):
        root = write_classification(tmp_path, labels=list(range(9)), classes=names(9), shards=3)
        dataset = self.build_dataset("wds/x", str(root), transform=to_tensor)

        loader = torch.utils.data.DataLoader(dataset.batched(2), batch_size=None, num_workers=2)

        assert sorted(int(label) for _, labels in loader for label in labels) == list(range(9))

    def test_captions_and_several_labels_are_lists_and_vectors(self, tmp_path):
        texts = self.build_dataset("wds/x", str(write_retrieval(tmp_path / "a", captions=[["one", "two"], ["three"]])))
        many = write_multilabel(tmp_path / "b", labels=[[1, 0, 1]], classes=("a", "b", "c"))

        assert [captions for _, captions in texts] == [["one", "two"], ["three"]]
        assert (texts.classes, texts.templates) == (None, None)
        assert [target.tolist() for _, target in self.build_dataset("wds/x", str(many))] == [[1, 0, 1]]

    def test_images_are_rgb_and_what_is_no_image_text_or_number_stays_bytes(self, tmp_path):
        root = write_classification(tmp_path, n=1, shards=1)
        grey = encoded(noise_image(1, mode="L"))
        write_shards(
            root / "test", [[("a.png", grey), ("a.cls", b"2"), ("a.pyd", b"\x80\x04."), ("a.json", b"[1]")]], 1
        )
        dataset = self.build_dataset("wds/x", str(root))
        dataset.pipeline = dataset.pipeline[:5]

        (sample,) = dataset

        assert sample["png"].mode == "RGB"
        assert (sample["cls"], sample["pyd"], sample["json"], sample["__key__"]) == (2, b"\x80\x04.", [1], "a")

    @pytest.mark.parametrize(
        ("members", "said"),
        [
            ([("a.png", b"no image"), ("a.cls", b"1")], "cannot decode the image"),
            ([("a.png", png()), ("a.cls", b"one")], r"Cannot decode .*a\.cls"),
            ([("a.png", png())], "has no cls, only png"),
            ([("a.png", png()), ("a.npy", b"\x80\x04."), ("a.cls", b"1")], r"Cannot decode .*a\.npy"),
        ],
    )
    def test_a_sample_that_cannot_be_read_is_an_error_that_names_it(self, tmp_path, members, said):
        root = write_classification(tmp_path, n=1, shards=1)
        write_shards(root / "test", [members], 1)

        with pytest.raises(DataError, match=said):
            list(self.build_dataset("wds/x", str(root)))

    def test_a_class_without_a_name_and_borrowed_templates_are_told(self, tmp_path):
        root = write_classification(tmp_path, n=3, classes=("cat", "", "bird"))
        (root / "zeroshot_classification_templates.txt").unlink()

        with pytest.warns(UserWarning, match="wds/x") as said:
            dataset = self.build_dataset("wds/x", str(root))

        assert (dataset.classes, dataset.templates) == (["cat", "", "bird"], ["a photo of a {c}."])
        assert [str(warning.message) for warning in said] == [
            "wds/x: class 1 has no name.",
            "wds/x has no templates: using 'a photo of a {c}.'.",
        ]

    def test_other_datasets_are_indexed(self, tmp_path):
        for place, name in enumerate(("cat", "dog")):
            (tmp_path / "test" / name).mkdir(parents=True)
            (tmp_path / "test" / name / "1.png").write_bytes(png(place))
        (tmp_path / "prompts.json").write_text('{"pets": ["one {c}", "two {c}"]}')

        dataset = self.build_dataset(
            "folder/pets", str(tmp_path), transform=to_tensor, custom_template_file=str(tmp_path / "prompts.json")
        )

        assert (len(dataset), dataset.classes, dataset.templates) == (2, ["cat", "dog"], ["one {c}", "two {c}"])
        assert [target for _, target in dataset] == [0, 1]
        assert isinstance(dataset.dataset, RowDataset)
        images, labels = next(iter(torch.utils.data.DataLoader(dataset, batch_size=2)))
        assert (images.shape, labels.tolist()) == ((2, 3, 30, 40), [0, 1])

    def test_questions_have_all_their_images_and_texts(self, tmp_path):
        (tmp_path / "questions.jsonl").write_text('{"images": ["a.png", "b.png"], "texts": ["one", "two", "wrong"]}')
        for place, name in enumerate("ab"):
            (tmp_path / f"{name}.png").write_bytes(png(place))

        dataset = self.build_dataset("selection/x", str(tmp_path), transform=to_tensor)

        images, texts = dataset[0]
        assert (len(dataset), images.shape, texts) == (1, (2, 3, 30, 40), ["one", "two", "wrong"])

    @pytest.mark.parametrize(
        ("name", "task", "collate"),
        [
            ("flickr30k", "zeroshot_retrieval", "image_captions_collate_fn"),
            ("sugar_crepe/add_att", "image_caption_selection", "image_captions_collate_fn"),
            ("winoground", "image_caption_selection", "image_captions_collate_fn"),
            ("cifar10", "zeroshot_classification", "default_collate"),
            ("anything", "zeroshot_classification", "default_collate"),
        ],
    )
    def test_tasks_and_collating_follow_the_dataset(self, name, task, collate):
        assert of("datasets.builder", "get_dataset_default_task")(name) == task
        assert of("datasets.builder", "get_dataset_collate_fn")(name) is of("datasets.builder", collate)

    def test_captions_stay_as_they_are_in_a_batch(self):
        collate = of("datasets.builder", "image_captions_collate_fn")

        images, texts = collate([(torch.zeros(3), ["a", "b"]), (torch.ones(3), ["c"])])

        assert (images.shape, texts) == ((2, 3), (["a", "b"], ["c"]))


def to_tensor(image):
    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy()).float()


def names(count):
    return tuple(f"class {i}" for i in range(count))


class TestExport:
    @pytest.mark.parametrize("multilabel", [False, True])
    def test_a_dataset_of_a_script_comes_back_from_its_webdataset(self, tmp_path, multilabel):
        class Mine(list):
            classes = ("a", "b", "c")
            templates = ("a photo of a {c}.",)

        targets = [[1, 0, 1], [0, 1, 0]] if multilabel else [2, 0]
        data = Mine(zip([noise_image(0), noise_image(1)], targets, strict=True))
        to_bytes = of("webdataset_builder", "PIL_to_bytes")("webp")

        of("webdataset_builder", "convert_dataset")(
            data, "test", str(tmp_path), transform=to_bytes, max_count=1, multilabel=multilabel
        )

        back = of("datasets.builder", "build_dataset")("wds/x", str(tmp_path), transform=np.asarray)
        images, labels = zip(*back, strict=True)
        assert [np.asarray(label).tolist() for label in labels] == targets
        assert all(np.array_equal(image, np.asarray(noise_image(i))) for i, image in enumerate(images))
        assert (back.classes, back.templates) == (["a", "b", "c"], ["a photo of a {c}."])
        assert (tmp_path / "test" / "nshards.txt").read_text() == "2\n"

    def test_captions_are_written_with_files_as_they_are(self, tmp_path):
        (tmp_path / "a.png").write_bytes(png())

        of("webdataset_builder", "convert_retrieval_dataset")(
            [(str(tmp_path / "a.png"), ["one", "two"])],
            "test",
            str(tmp_path / "out"),
            transform=of("webdataset_builder", "path_to_bytes"),
        )

        back = of("datasets.builder", "build_dataset")("wds/x", str(tmp_path / "out"))
        assert [captions for _, captions in back] == [["one", "two"]]

    def test_an_unknown_format_is_refused(self):
        with pytest.raises(EyechartError, match="tiff"):
            of("webdataset_builder", "PIL_to_bytes")("tiff")


class TestCommandLine:
    def test_flags_are_parsed_to_the_names_of_the_original(self, monkeypatch):
        monkeypatch.setattr("sys.argv", ["x", "eval", "--dataset", "a", "b", "--quiet", "--no_amp", "--recall_k", "1"])

        _, args = of("cli", "get_parser_args")()

        assert (args.which, args.dataset, args.verbose, args.amp, args.recall_k) == (
            "eval",
            ["a", "b"],
            False,
            False,
            [1],
        )

    def test_a_run_of_parsed_flags_gives_what_the_command_gives(self, tmp_path, monkeypatch):
        root = write_classification(tmp_path / "data", labels=[i % 6 for i in range(12)], classes=names(6))
        tiny = ["--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny"]
        words = ["eval", "--dataset", "wds/x", "--dataset_root", str(root), *tiny, "--quiet", "--output"]
        monkeypatch.setattr("sys.argv", ["x", *words, str(tmp_path / "run.json")])

        _, args = of("cli", "get_parser_args")()
        args.dataset = "wds/x"  # scripts set single values

        assert of("cli", "run")(args) == 0
        assert main([*words, str(tmp_path / "command.json")]) == 0
        first, second = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("run", "command"))
        assert first["metrics"] == second["metrics"]
        assert first["job"]["digest"] == second["job"]["digest"]

    def test_a_run_that_fails_is_an_error_of_the_script(self, tmp_path, monkeypatch):
        class Args:
            dataset = "wds/x"
            dataset_root = str(tmp_path / "missing")
            model, pretrained, model_type = "eyechart-tiny", "eyechart-tiny", "onnx"

        with pytest.raises(EyechartError, match="There is no dataset at"):
            of("cli", "run")(Args)

    def test_results_are_put_into_a_table(self, tmp_path):
        class Args:
            files = (str(tmp_path / "r.json"),)
            output = str(tmp_path / "all.csv")

        body = (
            '{"dataset": "d", "model": "m", "pretrained": "p", "task": "t", "language": "en", "metrics": {"acc1": 0.5}}'
        )
        (tmp_path / "r.json").write_text(body)

        of("cli", "main_build")(Args)

        assert (tmp_path / "all.csv").read_text().splitlines()[1].endswith("m p,0.5")

    def test_a_command_that_fails_ends_the_script(self, monkeypatch):
        monkeypatch.setattr("sys.argv", ["x", "info", "no-such-thing-at-all"])

        with pytest.raises(SystemExit, match=r"[12]"):
            of("cli", "main")()


def test_the_place_of_a_process_is_read_from_its_launcher(monkeypatch):
    world_info_from_env = of("cli", "world_info_from_env")

    assert world_info_from_env() == (0, 0, 1)
    for name, value in {"MPI_LOCALRANKID": "1", "PMI_RANK": "5", "PMI_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)
    assert world_info_from_env() == (1, 5, 8)


def test_the_dummy_is_zeros_after_the_transform(tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seen.py").write_text(
        "import numpy as np\n\n\nclass Seen:\n"
        "    def prepare_image(self, image):\n        return np.asarray(image, np.float32) - 7\n\n"
        "    def encode_images(self, batch):\n"
        "        return [[1.0, 0.0] if not np.any(one) else [0.0, 1.0] for one in batch]\n\n"
        "    def encode_texts(self, texts):\n"
        "        return [[1.0, 0.0] if 'blank' in text else [0.0, 1.0] for text in texts]\n"
    )

    assert main(["eval", "--dataset", "dummy", "--model", "python:seen:Seen", "--quiet"], program="clip_benchmark") == 0

    [file] = tmp_path.glob("*.json")
    assert json.loads(file.read_text())["metrics"]["acc1"] == 1
    from eyechart.compat.clip_benchmark.datasets import build_dataset

    image, label = build_dataset("dummy", transform=lambda image: torch.ones(1))[0]
    assert (tuple(image.shape), int(image.abs().sum()), label) == ((3, 224, 224), 0, 0)
