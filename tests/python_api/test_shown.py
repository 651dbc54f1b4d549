"""What people see of results in Python: lines, tables, frames, pictures."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import eyechart
from eyechart.errors import EyechartError
from eyechart.python_api.evaluate import Results
from support.data import noise_image

HOSTILE = "<script>alert(1)</script>&\"'"
NAMES = ["cat", "dog", "bird", "fish", "cow", HOSTILE]


def made(seed=0, noise=0.4, model="one", **settings):
    """Score vectors that are mostly right."""
    random = np.random.default_rng(seed)
    labels = np.arange(60) % 6
    images = np.eye(6)[labels] + random.normal(0, noise, (60, 6))
    return eyechart.score(images, np.eye(6), labels=labels, classnames=NAMES, model=model, **settings)


@pytest.fixture
def pair():
    return made(0, 0.6), made(1, 0.2, "two")


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not attrs

    def handle_data(self, data):
        self.texts.append(data)


class TestOneResult:
    def test_a_short_line(self, pair):
        line = repr(pair[0])

        low, high = pair[0].intervals["acc1"]
        value = pair[0].metrics["acc1"]
        assert line == (
            "<Result one on vectors (en, zeroshot_classification): "
            f"acc1 {100 * value:.2f} % [{100 * low:.2f}, {100 * high:.2f}], n=60>"
        )
        assert "\n" not in repr(made(model="two\nlines"))
        assert len(line) < 120

    def test_html_shows_all_metrics_and_runs_nothing(self):
        result = made(model=HOSTILE, dataset=HOSTILE)
        page = Tags(result._repr_html_())

        assert set(page.tags) <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
        assert f"{HOSTILE} on {HOSTILE} (en, zeroshot_classification)" in page.texts
        assert {"acc1", "acc5", "mean_per_class_recall"} <= set(page.texts)
        for text in (
            Results([result])._repr_html_(),
            eyechart.compare(result, made(1, 0.2, dataset=HOSTILE))._repr_html_(),
        ):
            assert "script" not in Tags(text).tags
            assert "<script" not in text

    def test_metrics_as_a_frame(self, pair):
        frame = pair[0].to_pandas()

        assert list(frame["metric"]) == list(pair[0].metrics)
        row = frame.set_index("metric").loc["acc1"]
        assert (row["value"], (row["low"], row["high"])) == (pair[0].metrics["acc1"], pair[0].intervals["acc1"])
        assert (row["chance"], row["n"], row["primary"], row["model"]) == (1 / 6, 60, True, "one")

    def test_records_as_a_frame_with_the_names_of_classes(self, pair):
        frame = pair[0].records()

        assert len(frame) == 60
        assert list(frame["label_name"]) == [NAMES[label] for label in frame["label"]]
        assert list(frame["prediction_name"]) == [NAMES[label] for label in frame["prediction"]]
        assert [[NAMES[i] for i in row] for row in frame["top"]] == list(frame["top_names"])
        assert frame["correct"].mean() == pair[0].metrics["acc1"]
        assert frame["id"].tolist() == [record["id"] for record in pair[0].iter_records()]

    def test_records_of_other_forms_are_as_they_are(self):
        images = np.random.default_rng(0).normal(size=(9, 4))
        retrieval = eyechart.score(images, images, pairs=range(9), recall_k=1).records()
        several = eyechart.score(images, np.eye(4), labels=[[0, 1]] * 9, classnames=NAMES[:4]).records()

        assert "top_names" not in retrieval
        assert several["label_names"].iloc[0] == NAMES[:2]

    def test_a_picture(self, pair):
        import matplotlib as mpl

        mpl.use("agg")
        from matplotlib import pyplot as plt

        axes = pair[0].plot()
        labels = [text.get_text() for text in axes.get_yticklabels()]
        assert labels == ["acc1", "acc5", "mean_per_class_recall"]
        both = Results(pair).plot("acc1", ax=plt.figure().subplots())
        assert [text.get_text() for text in both.get_yticklabels()] == ["acc1"], "one benchmark: its name is the title"
        assert both.get_title() == "vectors"
        dots = [line for line in both.lines if line.get_marker() == "o"]
        assert [line.get_xdata()[0] for line in dots] == [100 * result.metrics["acc1"] for result in pair]
        bars = [line.get_xdata() for line in both.lines if line.get_alpha() == 0.6]
        metrics = [result.values["acc1"] for result in pair]
        assert [list(ends) for ends in bars] == [[100 * metric.low, 100 * metric.high] for metric in metrics]
        assert [text.get_text() for text in both.get_legend().get_texts()] == ["one", "two", "chance"]
        assert len({line.get_color() for line in dots}) == 2
        spoken = Results([pair[0], replace(pair[0], language="de")]).plot("acc1")
        assert spoken.get_yticklabels()[1].get_text() == "vectors (de)\nacc1"
        assert spoken.figure.get_size_inches()[0] == 3.4, "one column of a paper"
        (legend,) = spoken.figure.legends
        assert [text.get_text() for text in legend.get_texts()] == ["one", "chance"]
        tasks = Results([pair[0], replace(pair[0], task="knn"), replace(pair[0], task="knn")]).plot("acc1")
        labels = [text.get_text() for text in tasks.get_yticklabels()]
        assert labels == [f"vectors [{task}]\nacc1" for task in (pair[0].task, "knn")]
        (legend,) = tasks.figure.legends
        assert [text.get_text() for text in legend.get_texts()] == ["one", "one (2)", "chance"]
        heights = [line.get_ydata()[0] for line in tasks.lines if line.get_marker() == "o"]
        assert len(set(heights)) == 3, "no dot hides another"
        with pytest.raises(EyechartError, match="acc2") as caught:
            pair[0].plot("acc2")
        assert "acc1" in caught.value.advice
        made(model="$cost").plot().figure.canvas.draw()
        plt.close("all")

    def test_it_can_be_kept(self, pair, tmp_path):
        kept = pair[0].save(tmp_path / "x.json")

        assert eyechart.read_result(str(tmp_path / "x.json")) == kept
        assert kept.metrics == pair[0].metrics
        assert list(kept.iter_records()) == list(pair[0].iter_records())
        assert not kept.altered
        assert kept.save(tmp_path / "x.json") == kept
        (tmp_path / "notes.json").write_text("{}")
        for other, name in ((pair[1], "x.json"), (pair[1], "notes.json")):
            with pytest.raises(EyechartError):
                other.save(tmp_path / name)
        assert eyechart.read_result(tmp_path / "x.json") == kept
        for folder in (tmp_path, f"{tmp_path}/new/"):
            with pytest.raises(EyechartError, match="is a folder"):
                kept.save(folder)


class TestSeveral:
    def test_evaluate_returns_a_list_that_is_a_table(self, monkeypatch):
        data = {"images": [noise_image(seed) for seed in range(4)], "labels": [0, 1, 0, 1], "classnames": NAMES[:2]}
        found = eyechart.evaluate("eyechart-tiny", [data, {**data, "name": "again"}])

        monkeypatch.delenv("COLUMNS", raising=False)
        assert isinstance(found, list)
        assert (len(found), type(found[:1]), type(found[0])) == (2, Results, eyechart.Result)
        assert (len(found + found[:1]), type(found + found[:1])) == (3, Results)
        lines = repr(found).splitlines()
        assert [line.split()[0] for line in lines] == ["model", "eyechart-tiny", "eyechart-tiny"]
        assert all(
            f"{100 * result.metrics['acc1']:.2f} %" in line for line, result in zip(lines[1:], found, strict=True)
        )
        assert repr(Results()) == "no results"

    def test_as_a_frame(self, pair):
        frame = Results(pair).to_pandas()

        assert (
            frame.pivot_table(index="model", columns="metric", values="value").loc["two", "acc1"]
            == (pair[1].metrics["acc1"])
        )


class TestCompare:
    @pytest.mark.parametrize("columns", ["80", "150"])
    def test_the_same_words_as_the_command(self, pair, tmp_path, monkeypatch, columns):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", columns)
        names = [result.save(f"{result.model}.json").path.name for result in pair]
        program = Path(sys.executable).parent / "eyechart"
        printed = subprocess.run([program, "compare", *names], capture_output=True, text=True, check=True).stdout

        assert repr(eyechart.compare(*names)) == printed
        assert repr(eyechart.compare(*pair)) == printed
        assert re.search("B better", printed)

    def test_as_a_frame(self, pair):
        found = eyechart.compare(*pair)
        (row,) = found.to_pandas().to_dict("records")

        assert (row["a"], row["b"]) == tuple(result.metrics["acc1"] for result in pair)
        assert row["difference"] == pytest.approx(row["b"] - row["a"])
        assert row["low"] < row["difference"] < row["high"]
        assert (row["verdict"], found.lines[0].verdict) == ("better", "better")

    def test_two_results_of_one_name(self):
        """One model before and after training: which is which is said."""
        found = eyechart.compare([made(0, 0.6)], Results([made(1, 0.2)]))

        assert "\nA = one [first]\nB = one [second]\n" in repr(found)
        assert repr(found).startswith("model ")
        assert found.lines[0].verdict == "better"

    def test_one_model_on_other_prompts(self):
        """The same weights on both sides are still two sides."""
        data = {"images": [noise_image(seed) for seed in range(8)], "labels": [0, 1] * 4, "classnames": NAMES[:2]}
        sides = [eyechart.evaluate("eyechart-tiny", data, templates=one) for one in ("a photo of a {c}", "{c}")]

        with pytest.raises(EyechartError, match="prompts"):
            eyechart.compare(*sides)
        found = eyechart.compare(*sides, allow_different="prompts")
        assert [found.lines[0].first, found.lines[0].second] == [side[0].metrics["acc1"] for side in sides]

    def test_what_cannot_be_compared_is_refused(self, pair):
        with pytest.raises(EyechartError, match="The first side must have results of one model, not of 2"):
            eyechart.compare(list(pair), pair[1])
        with pytest.raises(EyechartError, match="differ in"):
            eyechart.compare(pair[0], made(1, 0.2, "three", ids=[f"x{i}" for i in range(60)]))
        with pytest.raises(EyechartError, match="promts") as caught:
            eyechart.compare(*pair, allow_different="promts")
        assert "prompts" in caught.value.advice
