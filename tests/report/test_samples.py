"""Samples on the page: whole images, a large view, keyboard, addresses, export; and the similarity threshold."""

from __future__ import annotations

import csv
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

import eyechart
from eyechart.cli import main
from eyechart.report.loader import load_results
from eyechart.report.page import make_page
from eyechart.report.page.overview import FOR_THUMBNAILS, Limits
from eyechart.report.page.payload import THRESHOLDS, make_payload, threshold_curve
from eyechart.results import Result, write_result
from eyechart.types import MeanOf, Metric
from support.browser import expect
from support.make_results import chunks_of

SCENES = Path(eyechart.__file__).parent / "demo" / "data" / "scenes" / "test"
EVIL = '=HYPERLINK("http://evil.example/")'


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """The folder of a run on the demo's images and captions."""
    folder = tmp_path_factory.mktemp("scenes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_CACHE", str(tmp_path_factory.mktemp("cache")))
        eyechart.evaluate("eyechart-tiny", "demo/scenes", output=str(folder / "scenes.json"))
    return folder


def similarities():
    """Compare all images with all captions, without any code of the evaluation; return also their ids."""
    names, images, owner, captions = [], [], [], []
    for shard in ("0", "1"):
        with tarfile.open(SCENES / f"{shard}.tar") as tar:
            content = {member.name: tar.extractfile(member).read() for member in tar}
        for key in dict.fromkeys(name.partition(".")[0] for name in content):
            names.append(f"{shard}/{key}")
            images.append(
                next(content[f"{key}.{kind}"] for kind in ("webp", "jpg", "png") if f"{key}.{kind}" in content)
            )
            texts = content[f"{key}.txt"].decode().splitlines()
            captions += texts
            owner += [len(names) - 1] * len(texts)
    model = eyechart.load_model("eyechart-tiny")
    left, right = (
        (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float64)
        for vectors in (model.encode_images(images), model.encode_texts(captions))
    )
    return left @ right.T, names, np.array(owner)


def test_similarities_and_the_threshold_view_agree_with_numpy(scenes):
    matrix, names, owner = similarities()
    records = {(one["id"], one["query"]): one for one in eyechart.read_result(scenes / "scenes.json").iter_records()}
    right = owner[None] == np.arange(len(names))[:, None]
    (chunk,) = chunks_of(make_payload(load_results([scenes]).found))
    ways = {"text retrieval": (matrix, right, "image"), "image retrieval": (matrix.T, right.T, "text")}

    for way, (scores, relevant, kind) in ways.items():
        rows = [one for (_, query), one in records.items() if query == kind]
        top = np.array([one["similarity"] for one in rows])
        assert len(rows) == len(scores)
        np.testing.assert_allclose(top, scores.max(axis=1), rtol=1e-5)
        best = np.where(relevant, scores, -np.inf).max(axis=1)
        np.testing.assert_allclose([one["relevant_similarity"] for one in rows], best, rtol=1e-5)
        for one, row in zip(rows, scores, strict=True):
            if "top" in one:
                np.testing.assert_allclose(one["scores"], np.sort(row)[: -len(one["scores"]) - 1 : -1], rtol=1e-5)
                assert one["scores"][0] == one["similarity"]
        correct = relevant[np.arange(len(scores)), scores.argmax(axis=1)]
        curve = chunk["thresholds"]["0"][way]
        assert curve["queries"] == len(scores)
        assert len(curve["s"]) == THRESHOLDS
        for s, answered, hits in zip(curve["s"], curve["answered"], curve["correct"], strict=True):
            assert (answered, hits) == ((top >= s).sum(), (correct & (top >= s)).sum())


def test_a_curve_holds_every_similarity_if_there_are_few_and_counts_ties_together():
    curve = threshold_curve(np.array([0.5, 0.2, 0.5, np.nan, 0.9]), np.array([True, True, False, False, False]))

    assert curve == {"s": [0.2, 0.5, 0.9], "queries": 5, "answered": [4, 3, 1], "correct": [2, 1, 0]}


def test_records_without_similarities_are_shown_without_the_threshold_view(scenes, tmp_path):
    result = eyechart.read_result(scenes / "scenes.json")
    new = ("similarity", "relevant_similarity", "scores", "digest")
    old = [{key: value for key, value in one.items() if key not in new} for one in result.iter_records()]
    write_result(replace(result, record_info={"form": "ranking"}), old, tmp_path / "old.json")

    (chunk,) = chunks_of(make_payload(load_results([tmp_path]).found))

    assert chunk["thresholds"] == {"0": {}}
    assert chunk["curves"]


@pytest.mark.slow
def test_the_slider_says_what_a_threshold_does(watched, scenes, tmp_path):
    path = tmp_path / "report.html"
    payload = make_payload(load_results([scenes]).found)
    path.write_bytes(make_page(payload))
    curve = chunks_of(payload)[0]["thresholds"]["0"]["image retrieval"]
    page = watched.open(path, "#/benchmark/0")
    figure = page.locator(".thresholds figure").first

    figure.get_by_role("slider").fill("70")

    words = [f"s = {curve['s'][70]:.4f}"]
    words += [f"Precision at s {100 * curve['correct'][70] / curve['answered'][70]:.1f} %"]
    words += [f"Recall at s {100 * curve['correct'][70] / curve['queries']:.1f} %"]
    words += [f"Queries answered {100 * curve['answered'][70] / curve['queries']:.1f} %"]
    for text in words:
        expect(figure.locator("output")).to_contain_text(text)
    box = figure.locator("svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 16, box["y"] + 50)
    expect(figure.locator("output")).to_contain_text(f"s = {curve['s'][-1]:.4f}")


# ------------------------------------------------------------------------------------------ images and the dialog


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """Receipts three times as wide as high and pages as tall, with a disc in two corners, and a result on them."""
    root = tmp_path_factory.mktemp("papers")
    for kind, size in (("page", (300, 900)), ("=receipt", (900, 300))):
        (root / "data" / kind).mkdir(parents=True)
        for i in range(4):
            image = Image.new("RGB", size, "white")
            draw = ImageDraw.Draw(image)
            draw.ellipse([0, 0, 60, 60], fill=(255, 0, i))
            draw.ellipse([size[0] - 60, size[1] - 60, *size], fill="blue")
            image.save(root / "data" / kind / f"{EVIL if i == 3 else i}.png".replace("/", "_"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_CACHE", str(tmp_path_factory.mktemp("cache")))
        eyechart.evaluate("eyechart-tiny", str(root / "data"), output=str(root / "out" / "papers.json"))
    (root / "report.html").write_bytes(make_page(make_payload(load_results([root / "out"]).found)))
    return root


RATIOS = """
nodes => nodes.map(node => ({
  natural: node.naturalWidth / node.naturalHeight,
  box: node.clientWidth / node.clientHeight,
  fit: getComputedStyle(node).objectFit,
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 400])
def test_no_image_is_cropped_or_stretched_and_the_large_one_has_its_own_shape(watched, papers, width):
    page = watched.open(papers / "report.html")
    page.set_viewport_size({"width": width, "height": 900})
    strip = page.locator(".strip-list img")
    expect(strip.first).to_be_visible()
    small = strip.evaluate_all(RATIOS)
    watched.page.evaluate("location.hash = '#/benchmark/0'")
    watched.drawn()
    small += page.locator(".card img").evaluate_all(RATIOS)
    page.locator(".card button").first.click()
    (large,) = page.locator("dialog img").evaluate_all(RATIOS)

    assert {round(one["natural"], 1) for one in small} <= {0.3, 3.0}
    assert {one["fit"] for one in small} == {"contain"}
    shown = large["natural"] if large["fit"] == "contain" else large["box"]
    assert round(shown, 1) in (0.3, 3.0)
    if width == 1400:
        assert abs(large["box"] / large["natural"] - 1) < 0.05


@pytest.mark.slow
def test_keys_turn_pages_the_address_names_the_sample_and_a_reload_opens_it(watched, papers):
    page = watched.open(papers / "report.html", "#/benchmark/0")
    page.locator(".samples").get_by_label("Show").select_option("all")
    page.locator(".card button").nth(1).click()
    heading = page.locator("dialog h2")
    second = heading.inner_text()

    page.keyboard.press("ArrowRight")
    third = heading.inner_text()
    expect(heading).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(heading).to_have_text(second)
    page.get_by_role("button", name="Next").click()
    expect(heading).to_have_text(third)
    expect(page.get_by_role("button", name="Next")).to_be_focused()
    page.reload()
    expect(heading).to_have_text(third)
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert "id=" not in page.evaluate("location.hash")
    page.keyboard.press("/")
    expect(page.get_by_label("Search samples")).to_be_focused()
    page.keyboard.type("a/b")
    expect(page.get_by_label("Search samples")).to_have_value("a/b")


@pytest.mark.slow
def test_listed_samples_are_saved_as_csv_without_formulas(watched, papers):
    page = watched.open(papers / "report.html", "#/benchmark/0")
    page.locator(".samples").get_by_label("Show").select_option("all")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as CSV").click()
    text = Path(waiting.value.path()).read_text()
    rows = list(csv.DictReader(io.StringIO(text)))

    assert waiting.value.suggested_filename == "samples.csv"
    assert len(rows) == 8
    assert rows[0].keys() == {"id", "verdict", "label", "prediction", "rank"}
    assert {row["label"] for row in rows} == {"page", "'=receipt"}


# ------------------------------------------------------------------------------------------------ limits, export


def test_previews_go_first_and_then_thumbnails_where_a_page_would_become_too_large(papers):
    def listed(**limits):
        (chunk,) = chunks_of(make_payload(load_results([papers / "out"]).found, limits=Limits(**limits)))
        return chunk["samples"]

    whole, small, none = listed(), listed(image_bytes=FOR_THUMBNAILS), listed(image_bytes=0)

    assert len(whole["previews"]) == len(whole["thumbnails"]) > 0
    assert not whole["fewer_images"]
    assert (small["previews"], small["thumbnails"].keys()) == ({}, whole["thumbnails"].keys())
    assert (none["previews"], none["thumbnails"]) == ({}, {})
    assert small["fewer_images"]
    assert none["fewer_images"]
    assert not listed(images=0)["fewer_images"]  # as the user asked


def test_a_document_with_the_id_of_a_query_is_still_a_document(tmp_path):
    images = {"0": {"thumbnail": "data:image/png;base64,iVBORw0KGgo="}}
    query = {"id": "0", "query": "text", "text": "words", "unit": 0, "rank": 2, "relevant": ["1"], "top": ["0", "1"]}
    hit = {"hit_rate_at_1": Metric(0.0, primary=True, mean_of=MeanOf("rank", 1))}
    result = Result("pages", "m", "", "zeroshot_retrieval", "en", hit, record_info={"form": "ranking"})
    write_result(result, [query | {"images": images, "scores": [0.5, 0.25]}], tmp_path / "r.json")

    (chunk,) = chunks_of(make_payload(load_results([tmp_path]).found))

    detail = chunk["samples"]["details"]["0"]["0"]
    assert detail == {"names": ["0", "1"], "tied": False, "scores": [0.5, 0.25], "top": [-1, -1], "relevant": ["1"]}
    assert chunk["samples"]["thumbnails"] == {"/0": images["0"]["thumbnail"]}


def test_mistakes_are_exported_with_their_original_images(papers, tmp_path, capsys):
    result = eyechart.read_result(papers / "out" / "papers.json")
    evil = [one | {"id": f"{EVIL}/../../{one['id']}"} for one in result.iter_records()]
    write_result(result, evil, tmp_path / "results" / "papers.json")
    words = ["report", tmp_path / "results", "-o", tmp_path / "r.html", "--samples-to", tmp_path / "to"]

    assert main([str(word) for word in [*words, "--images", papers / "data"]]) == 0

    (folder,) = (tmp_path / "to").iterdir()
    with (folder / "samples.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    wrong = [one for one in evil if one["rank"] > 1]
    assert {row["id"] for row in rows} == {f"'{one['id']}" for one in wrong}
    assert {path.name for path in folder.iterdir()} == {"samples.csv", *(row["file"] for row in rows)}
    originals = {path.read_bytes() for path in (papers / "data").rglob("*.png")}
    assert all((folder / row["file"]).read_bytes() in originals for row in rows)
    assert rows[0]["label_name"] in ("page", "'=receipt")
