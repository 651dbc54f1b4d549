"""Probes through the whole pipeline: webdatasets with a train split, the embedded model, the store."""

import numpy as np
import pytest
from PIL import Image

import eyechart
from eyechart.datasets.webdataset import open_webdataset
from eyechart.demo import data_folder
from eyechart.errors import DataError, UsageError
from eyechart.io.files import cache_root
from eyechart.metrics.vectors import unit
from eyechart.models.lazy_model import LazyModel
from eyechart.models.onnx_encoder import OnnxFamily
from eyechart.stats import proportion, widen_for_draws
from eyechart.tasks.probe_data import DRAWS
from eyechart.types import DatasetSpec, ModelSpec
from support.data import encoded, write_classification, write_shards
from support.encoders import SmallEncoder, random_encoder
from support.tasks import make_context, run_task, values

TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"]}


def write_split(root, split, images, labels, classes):
    (root / "classnames.txt").write_text("\n".join(classes) + "\n")
    rows = [
        [(f"s{i:07d}.png", png), (f"s{i:07d}.cls", str(label).encode())]
        for i, (png, label) in enumerate(zip(images, labels, strict=True))
    ]
    write_shards(root / split, rows, 2)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """scikit-learn's handwritten digits as images: 700 to learn from, 500 to be scored."""
    from sklearn.datasets import load_digits

    root = tmp_path_factory.mktemp("digits")
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = [encoded(Image.fromarray((image * 15).astype(np.uint8))) for image in data.images[order]]
    labels, names = data.target[order], [f"the digit {i}" for i in range(10)]
    write_split(root, "train", images[:700], labels[:700], names)
    write_split(root, "test", images[700:1200], labels[700:1200], names)
    return root


@pytest.fixture(scope="module")
def garments(tmp_path_factory):
    """The demo's images of garments: 400 to learn from, 200 to be scored."""
    root = tmp_path_factory.mktemp("garments")
    source = open_webdataset(DatasetSpec("garments", "wds", str(data_folder("garments"))))
    samples = [sample for shard in source.shards() for sample in shard]
    order = np.random.default_rng(0).permutation(len(samples))
    images, labels = [samples[i].image.read() for i in order], [samples[i].label for i in order]
    write_split(root, "train", images[:400], labels[:400], source.info.classnames)
    write_split(root, "test", images[400:], labels[400:], source.info.classnames)
    return root


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def one_cache(shared_cache, monkeypatch):
    """Embed the images once for all tests of this file."""
    monkeypatch.setenv("EYECHART_CACHE", str(shared_cache))


def evaluate(root, tmp_path, task, **options):
    (result,) = eyechart.evaluate(
        **TINY,
        dataset=["wds/x"],
        dataset_root=str(root),
        task=task,
        output=str(tmp_path / "{task}.json"),
        task_options=options,
    )
    return result


def pixels():
    """Return an encoder whose vector of a digit is its 64 pixels."""
    encoder = SmallEncoder("pixels", lambda content: np.frombuffer(content, np.float32))
    encoder.prepare_image = lambda image: np.asarray(image, np.float32).ravel()
    return encoder


def with_pixels(root, task, shared_cache, **options):
    return run_task(task, make_context(root, pixels(), shared_cache), **options)


def features(context):
    """Return unit vectors and labels of the training and the test split."""
    return [
        (unit(part.model.images(part.manifest).vectors), np.array([entry.label for entry in part.manifest.entries]))
        for part in (context.split("train"), context)
    ]


def scikit_learns(context, strength):
    from sklearn.linear_model import LogisticRegression

    (x, y), (x_test, y_test) = features(context)
    return LogisticRegression(C=strength, tol=1e-8, max_iter=20_000).fit(x.astype(np.float64), y).score(x_test, y_test)


class TestDigits:
    """scikit-learn's digits, their pixels as features."""

    def test_the_logistic_probe_is_within_a_fifth_of_a_point_of_scikit_learns(self, digits, shared_cache):
        ours = with_pixels(digits, "logistic_probe", shared_cache)

        theirs = scikit_learns(make_context(digits, pixels(), shared_cache), ours.details["probe"]["C"])
        assert values(ours)["lp_acc1"] == pytest.approx(theirs, abs=0.002)

    def test_the_seed_compatible_probe_is_within_one_point(self, digits, shared_cache):
        better = values(with_pixels(digits, "logistic_probe", shared_cache))["lp_acc1"]

        ours = values(with_pixels(digits, "linear_probe", shared_cache, fewshot_epochs=40))["lp_acc1"]

        assert ours > better - 0.01

    def test_a_probe_learns(self, digits, shared_cache):
        outcome = with_pixels(digits, "logistic_probe", shared_cache)

        assert set(outcome.metrics) == {"lp_acc1", "lp_acc5", "lp_mean_per_class_recall"}
        assert outcome.metrics["lp_acc1"].value > 0.94
        assert outcome.metrics["lp_acc1"].low > 5 * outcome.metrics["lp_acc1"].chance

    def test_accuracy_grows_along_the_few_shot_curve(self, digits, shared_cache):
        outcome = with_pixels(digits, "knn", shared_cache, fewshot_curve=[1, 4, 16], fewshot_repeats=2)

        points = outcome.details["fewshot_curve"]
        assert [point["k"] for point in points] == [1, 4, 16]
        assert [len(point["runs"]) for point in points] == [2, 2, 2]
        assert points[0]["mean"] < points[1]["mean"] < points[2]["mean"] < outcome.metrics["knn_acc1"].value


class TestGarments:
    """The embedded model on the demo's images, through files, store and results."""

    def test_the_logistic_probe_is_within_a_fifth_of_a_point_of_scikit_learns(self, garments, tmp_path):
        result = evaluate(garments, tmp_path, "logistic_probe")

        model = LazyModel(ModelSpec("onnx", "eyechart-tiny", "eyechart-tiny"), OnnxFamily())
        context = make_context(garments, model, cache_root() / "embeddings")
        assert result.metrics["lp_acc1"] == pytest.approx(
            scikit_learns(context, result.details["probe"]["C"]), abs=0.002
        )
        assert result.counts == {"listed": 200, "scored": 200, "failed": 0}

    def test_the_seed_compatible_probe_is_within_one_point(self, garments, tmp_path):
        better = evaluate(garments, tmp_path, "logistic_probe").metrics["lp_acc1"]

        ours = evaluate(garments, tmp_path, "linear_probe", fewshot_epochs=40).metrics["lp_acc1"]

        assert ours > better - 0.01


def small(root, *, train=30, val=0):
    """Write noise with three classes in the test split, a train split and, if asked for, a val split."""
    write_classification(root, n=12)
    write_classification(root, n=train, split="train", labels=[i % 3 for i in range(train)], first=1000)
    if val:
        write_classification(root, n=val, split="val", labels=[i % 3 for i in range(val)], first=2000)
    return root


class TestWhatIsLearntFrom:
    def test_few_shots_embed_no_more_images_than_were_drawn(self, tmp_path):
        encoder = random_encoder()
        root = write_classification(tmp_path / "data", n=12)
        write_classification(root, n=30, split="train", first=1000)
        context = make_context(root, encoder, tmp_path)

        outcome = run_task("knn", context, fewshot_k=2, fewshot_repeats=1)

        assert encoder.encoded_images == 12 + 3 * 2
        assert outcome.details["probe"]["train"] == 6
        assert set(outcome.metrics) == {"knn_acc1", "knn_mean_per_class_recall"}

    def test_few_shots_tell_the_spread_over_draws(self, tmp_path):
        context = make_context(small(tmp_path / "data"), random_encoder(), tmp_path)

        outcome = run_task("logistic_probe", context, fewshot_k=2)

        draws = [run_task("logistic_probe", context, fewshot_k=2, fewshot_repeats=1, seed=seed) for seed in range(3)]
        runs = [draw.metrics["lp_acc1"].value for draw in draws]
        assert outcome.metrics["lp_acc1"].value == draws[0].metrics["lp_acc1"].value
        for number, draw in enumerate(draws[1:], 2):
            assert [record[f"rank_{number}"] for record in outcome.records] == [one["rank"] for one in draw.records]
        assert outcome.details["fewshot_draws"]["runs"] == runs
        assert outcome.metrics["lp_acc1_mean_of_draws"].value == pytest.approx(np.mean(runs))
        assert outcome.metrics["lp_acc1_sd_of_draws"].value == pytest.approx(np.std(runs, ddof=1))

    def test_the_interval_of_few_shots_covers_the_choice_of_training_images(self, tmp_path):
        context = make_context(small(tmp_path / "data"), random_encoder(), tmp_path)

        few, everything = (run_task("logistic_probe", context, fewshot_k=k) for k in (2, -1))

        for name in ("lp_acc1", "lp_mean_per_class_recall"):
            assert few.metrics[name].covers == ("test samples", "training draws")
            assert few.metrics[name].mean_of.draws == ("rank", "rank_2", "rank_3")
            assert everything.metrics[name].covers == ("test samples",)
            assert everything.metrics[name].mean_of.draws == ()
        n = few.metrics["lp_acc1"].n
        hits = np.array([[record[name] == 1 for record in few.records] for name in ("rank", "rank_2", "rank_3")])
        plain = proportion(int(hits[0].sum()), n)
        assert (few.metrics["lp_acc1"].low, few.metrics["lp_acc1"].high) == widen_for_draws(plain, hits)
        assert few.metrics["lp_acc1"].high - few.metrics["lp_acc1"].low > plain.high - plain.low

    @pytest.mark.parametrize("how", [{"fewshot_repeats": 1}, {"fewshot_repeats": 2}, {"folds": 2}])
    def test_too_few_draws_withhold_the_interval_and_say_why(self, tmp_path, how):
        context = make_context(small(tmp_path / "data"), random_encoder(), tmp_path)

        outcome = run_task("knn", context, fewshot_k=2, **how)

        assert outcome.metrics["knn_acc1"].low is None
        assert len(outcome.metrics["knn_acc1"].mean_of.draws) == how.get("fewshot_repeats", 1)
        (notice,) = [notice for notice in outcome.notices if notice.kind == "too_few_draws"]
        assert "--fewshot-repeats 3" in str(notice.message)

    def test_the_images_may_be_drawn_as_the_peer_draws_them(self, tmp_path):
        context = make_context(small(tmp_path / "data"), random_encoder(), tmp_path)

        ours, theirs = (run_task("knn", context, fewshot_k=2, fewshot_draw=draw) for draw in DRAWS)

        assert ours.records != theirs.records
        with pytest.raises(UsageError, match="clip_benchmark"):
            run_task("knn", context, fewshot_draw="clip_benchmerk")

    def test_a_share_of_the_training_data_can_validate(self, tmp_path):
        context = make_context(small(tmp_path / "data"), random_encoder(), tmp_path)

        outcome = run_task("logistic_probe", context, val_proportion=0.2)

        assert (outcome.details["probe"]["train"], outcome.details["probe"]["val"]) == (24, 6)

    def test_a_validation_split_can_validate(self, tmp_path):
        context = make_context(small(tmp_path / "data", val=9), random_encoder(), tmp_path)

        outcome = run_task("logistic_probe", context, val_split="val")

        assert (outcome.details["probe"]["train"], outcome.details["probe"]["val"]) == (30, 9)

    def test_the_same_seed_draws_the_same_shots_and_another_one_others(self, tmp_path):
        context = make_context(small(tmp_path / "data"), random_encoder(), tmp_path)

        first, again, other = (run_task("logistic_probe", context, fewshot_k=3, seed=seed) for seed in (1, 1, 2))

        assert first.records == again.records
        assert first.records != other.records

    def test_unit_length_is_a_choice(self, tmp_path):
        context = make_context(small(tmp_path / "data"), random_encoder(), tmp_path)

        unit_length, raw = (run_task("logistic_probe", context, normalize=choice) for choice in (True, False))

        assert unit_length.records != raw.records

    def test_too_few_images_of_a_class_are_an_error_that_says_how_many_there_are(self, tmp_path):
        context = make_context(small(tmp_path / "data"), random_encoder(), tmp_path)

        with pytest.raises(DataError, match=r"fewer than 11 training images.*10.*\n.*--fewshot-k 10"):
            run_task("knn", context, fewshot_k=11)

    def test_a_broken_training_image_is_counted_when_skipping(self, tmp_path):
        root = small(tmp_path / "data", train=4)
        broken = [("s9.png", b"not an image"), ("s9.cls", b"0")]
        write_shards(root / "train", [[("s1.png", encoded(Image.new("RGB", (9, 9)))), ("s1.cls", b"1")], broken], 1)

        outcome = run_task("knn", make_context(root, random_encoder(), tmp_path, on_error="skip"))

        assert [notice.kind for notice in outcome.notices] == ["unusable_training_images", "no_acc5"]


class TestChance:
    def test_it_is_the_share_of_the_commonest_training_classes(self, tmp_path):
        root = write_classification(tmp_path / "data", labels=[0] * 2 + [1] * 6 + [2] * 4)
        write_classification(root, split="train", labels=[1] * 5 + [0] * 2 + [2] * 2, first=1000)

        outcome = run_task("knn", make_context(root, random_encoder(), tmp_path))

        assert outcome.metrics["knn_acc1"].chance == 0.5

    def test_a_class_that_was_never_learnt_is_never_right(self, tmp_path):
        root = write_classification(tmp_path / "data", labels=[2] * 4)
        write_classification(root, split="train", labels=[0, 1] * 4, first=1000)

        assert values(run_task("logistic_probe", make_context(root, random_encoder(), tmp_path)))["lp_acc1"] == 0


class TestSharedImages:
    """What is scored must not be learnt from."""

    def test_a_split_that_learns_from_itself_is_refused(self, tmp_path):
        context = make_context(write_classification(tmp_path / "data", n=12), random_encoder(), tmp_path)

        with pytest.raises(
            DataError, match=r"12 of the 12 test images .* training data \('test'\).*\n.*--folds"
        ) as refused:
            run_task("knn", context, train_split="test")
        assert "--train-split" in refused.value.advice

    @pytest.mark.parametrize("task", ["knn", "logistic_probe", "linear_probe"])
    def test_the_same_images_under_another_split_s_name_are_refused(self, tmp_path, task):
        root = write_classification(tmp_path / "data", n=12)
        write_classification(root, n=12, split="train")

        with pytest.raises(DataError, match="12 of the 12 test images"):
            run_task(task, make_context(root, random_encoder(), tmp_path))

    def test_nothing_is_embedded_before_that_is_known(self, tmp_path):
        encoder = random_encoder()
        context = make_context(write_classification(tmp_path / "data", n=12), encoder, tmp_path)

        with pytest.raises(DataError):
            run_task("knn", context, train_split="test", fewshot_k=1)

        assert encoder.encoded_images == 0

    def test_validation_images_are_learnt_from_too(self, tmp_path):
        context = make_context(small(tmp_path / "data"), random_encoder(), tmp_path)

        with pytest.raises(DataError, match=r"\('train' and 'test'\).*\n.*--val-proportion"):
            run_task("logistic_probe", context, val_split="test")

    def test_few_copies_are_counted(self, tmp_path):
        root = write_classification(tmp_path / "data", n=30)
        write_classification(root, n=30, split="train", first=27)  # images 27 to 56: three of them are scored

        outcome = run_task("knn", make_context(root, random_encoder(), tmp_path))

        assert [(notice.kind, notice.count) for notice in outcome.notices] == [("shared_images", 3), ("no_acc5", 1)]

    def test_more_than_a_tenth_is_not_few(self, tmp_path):
        root = write_classification(tmp_path / "data", n=30)
        write_classification(root, n=30, split="train", first=26)

        with pytest.raises(DataError, match="4 of the 30 test images"):
            run_task("knn", make_context(root, random_encoder(), tmp_path))


def test_a_class_that_no_other_fold_has_is_never_right(tmp_path):
    root = write_classification(tmp_path / "data", labels=[0, 0, 0, 0, 1, 1, 1, 1, 2], classes=("a", "b", "c"))

    outcome = run_task("knn", make_context(root, random_encoder(), tmp_path), folds=3, knn_k=1)

    assert outcome.details["per_class_recall"][2] == 0
    assert next(record["rank"] for record in outcome.records if record["label"] == 2) > 2


@pytest.mark.parametrize("folds", [None, 3])
@pytest.mark.parametrize("task", ["knn", "logistic_probe", "linear_probe"])
def test_an_image_whose_vector_is_zero_is_never_right(tmp_path, task, folds):
    # Nearly all images are of the first class, which every probe names when it sees nothing.
    root = write_classification(tmp_path / "data", labels=[0] * 20 + [1] * 4)
    write_classification(root, split="train", labels=[0] * 20 + [1] * 4, first=1000)
    encoder = random_encoder()
    given = encoder.encode_images
    encoder.encode_images = lambda batch: (
        given(batch) * (np.array([pixels[0, 0, 0] for pixels in batch]) > 100)[:, None]
    )
    context = make_context(root, encoder, tmp_path)

    outcome = run_task(task, context, folds=folds, fewshot_epochs=2)

    zero = ~context.encoder.images(context.manifest).vectors.any(axis=1)
    assert 0 < zero.sum() < 24
    assert not any(record["correct"] for record, nothing in zip(outcome.records, zero, strict=True) if nothing)
    assert any(record["correct"] for record in outcome.records)


def test_the_probe_of_clip_benchmark_names_how_it_was_trained_where_its_scripts_look(tmp_path):
    root = write_classification(tmp_path / "data", n=12)
    write_classification(root, n=12, split="train", first=1000)
    options = {"fewshot_epochs": 2, "seed": 3, "fewshot_k": 2, "normalize": False}

    outcome = run_task("linear_probe", make_context(root, random_encoder(), tmp_path), **options)

    known = {"weight_decay": 0.0, "epochs": 2, "seed": 3, "fewshot_k": 2, "normalized": False, "lp_acc5": None}
    assert outcome.facts == known


class TestFolds:
    """One split, each image scored by what was learnt from the others."""

    @pytest.mark.parametrize("task", ["knn", "logistic_probe", "linear_probe"])
    def test_noise_is_not_learnt_by_heart(self, tmp_path, task):
        root = write_classification(tmp_path / "data", n=60)

        outcome = run_task(task, make_context(root, random_encoder(), tmp_path), folds=5, knn_k=1, fewshot_epochs=3)

        (name,) = (name for name, metric in outcome.metrics.items() if metric.primary)
        assert outcome.metrics[name].value < 0.6
        assert outcome.metrics[name].chance == pytest.approx(1 / 3)
        assert len(outcome.records) == 60

    def test_what_can_be_learnt_is_learnt(self, digits, shared_cache):
        outcome = with_pixels(digits, "knn", shared_cache, folds=4)

        assert outcome.metrics["knn_acc1"].value > 0.9
        assert [fold["train"] for fold in outcome.details["probe"]["folds"]] == [375] * 4

    def test_each_image_is_scored_by_what_was_learnt_without_it(self, digits, shared_cache):
        from eyechart.tasks.probe_data import fold_of

        context = make_context(digits, pixels(), shared_cache)
        outcome = run_task("knn", context, folds=3, knn_k=1, seed=4)

        images = unit(context.model.images(context.manifest).vectors)
        labels = np.array([entry.label for entry in context.manifest.entries])
        fold = fold_of(labels, context.manifest.digests, 3, 4)
        cosines = np.where(fold[:, None] == fold, -2, images @ images.T)
        nearest = labels[cosines.argmax(axis=1)]
        assert [record["prediction"] for record in outcome.records] == nearest.tolist()

    def test_copies_of_an_image_are_in_one_fold_and_classes_in_all(self):
        from eyechart.tasks.probe_data import fold_of

        digests = np.repeat(np.random.default_rng(0).integers(0, 256, (60, 16), np.uint8), 2, axis=0)
        labels = np.repeat(np.arange(60) % 4, 2)

        fold = fold_of(labels, digests, 5, seed=0)

        assert (fold[::2] == fold[1::2]).all()
        assert np.bincount(fold * 4 + labels).tolist() == [6] * 20

    def test_no_other_split_is_needed_and_a_share_may_validate(self, tmp_path):
        result = evaluate(
            write_classification(tmp_path / "data", n=30), tmp_path, "logistic_probe", folds=3, val_proportion=0.2
        )

        assert [(fold["train"], fold["val"]) for fold in result.details["probe"]["folds"]] == [(16, 4)] * 3

    def test_few_shots_are_drawn_from_the_other_folds(self, tmp_path):
        context = make_context(write_classification(tmp_path / "data", n=30), random_encoder(), tmp_path)

        outcome = run_task("knn", context, folds=2, fewshot_k=2)

        assert [fold["train"] for fold in outcome.details["probe"]["folds"]] == [6, 6]

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"folds": 1}, "must be 2 or more"),
            ({"folds": 3, "val_split": "val"}, "--folds cannot be combined with --val-split"),
            ({"folds": 3, "fewshot_curve": [1]}, "--folds cannot be combined with --fewshot-curve"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, options, match):
        from eyechart.tasks.probes import LogisticProbe

        with pytest.raises(UsageError, match=match):
            LogisticProbe.Settings(**options)

    def test_more_folds_than_images_are_refused(self, tmp_path):
        context = make_context(write_classification(tmp_path / "data", n=4), random_encoder(), tmp_path)

        with pytest.raises(DataError, match="4 different images are too few for 5 folds"):
            run_task("knn", context, folds=5)

    def test_the_command_line_has_them(self, tmp_path):
        from eyechart.cli import main

        root = write_classification(tmp_path / "data", n=30)
        where = ["--dataset", "wds/x", "--dataset_root", str(root), "--output", str(tmp_path / "result.json")]
        model = ["--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny"]

        assert main(["eval", *where, *model, "--task", "knn", "--folds", "3", "--quiet"]) == 0
        assert len(eyechart.read_result(tmp_path / "result.json").details["probe"]["folds"]) == 3


class TestRefusals:
    def refuse(self, root, match, error=UsageError, task="linear_probe", **options):
        with pytest.raises(error, match=match):
            evaluate(root, root, task, **options)

    def test_a_missing_training_split(self, tmp_path):
        self.refuse(write_classification(tmp_path), "(?s)no split 'train'.*train_split.*folds=5", DataError)

    def test_both_ways_to_validate(self, tmp_path):
        self.refuse(small(tmp_path), "cannot be combined", val_split="val", val_proportion=0.1)

    def test_a_share_of_everything(self, tmp_path):
        self.refuse(small(tmp_path), "between 0 and 1", val_proportion=1.0)

    def test_no_shots(self, tmp_path):
        self.refuse(small(tmp_path), "fewshot_k must be 1 or more", fewshot_k=0)

    def test_no_neighbours(self, tmp_path):
        self.refuse(small(tmp_path), "knn_k must be 1 or more", task="knn", knn_k=-1)

    def test_no_time_to_learn(self, tmp_path):
        self.refuse(small(tmp_path), "must be positive", fewshot_lr=float("nan"))
        self.refuse(small(tmp_path), "must be positive", fewshot_epochs=0)

    def test_as_many_training_splits_as_nobody_asked_for(self, tmp_path):
        self.refuse(small(tmp_path), "2 values for 1 datasets", train_split=["train", "train2"])

    def test_splits_with_other_classes(self, tmp_path):
        for split, name in (("train", "cat"), ("test", "dog")):
            (tmp_path / split / name).mkdir(parents=True)
            (tmp_path / split / name / "a.png").write_bytes(encoded(Image.new("RGB", (4, 4))))
        with pytest.raises(DataError, match="have different classes"):
            eyechart.evaluate(**TINY, dataset=["folder/x"], dataset_root=str(tmp_path), task="knn")
