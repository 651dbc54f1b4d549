"""Published tables in a real browser: one's own rows in them, sorted, filtered, ranked."""

from __future__ import annotations

import pytest

from eyechart.report.loader import LoadedResult
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload
from eyechart.results import Result
from eyechart.types import Metric
from support.browser import expect

pytestmark = pytest.mark.slow  # a real browser


@pytest.fixture(scope="module")
def standing_report(tmp_path_factory):
    """One model of one's own on three benchmarks, beside everything that was published."""
    own = {
        "imagenet1k": ("acc1", 0.6333, 50_000),
        "vtab/cifar100": ("acc1", 0.6423, 10_000),
        "fer2013": ("acc1", 0.41, 7178),
    }
    found = [
        LoadedResult(
            Result(
                dataset, "mine", "", "zeroshot_classification", "en",
                {metric: Metric(value, value - 0.01, value + 0.01)}, counts={"listed": n},
                model_card={"parameters": 151_277_313}, data={"measures": "zero-shot classification"},
            )
        )
        for dataset, (metric, value, n) in own.items()
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(make_page(make_payload(found, references=["open_clip", "clip_benchmark", "internvl"])))
    return path


def test_the_overview_is_of_ones_own_models_where_many_are_published(watched, standing_report):
    page = watched.open(standing_report)

    assert page.locator("#matrix tbody th").all_inner_texts()[0].startswith("mine")
    assert page.locator("#matrix tbody tr").count() == 1
    assert page.locator("#matrix thead a.dataset").all_inner_texts() == ["cifar100", "fer2013", "imagenet1k"]


def test_a_large_published_table_is_sorted_and_filtered(watched, standing_report):
    page = watched.open(standing_report, "#/published")
    rows = page.locator(".published.large tbody tr:not([hidden])")

    def column(label):
        labels = [" ".join(text.split()) for text in page.locator(".published.large thead th .label").all_inner_texts()]
        return labels.index(label) + 1

    assert page.locator(".published.large [aria-sort]").inner_text().startswith("ImageNet 1k")  # what "mine" has
    place = column("CIFAR-100")
    page.get_by_role("button", name="Sort by CIFAR-100", exact=True).click()
    cells = [row.split("\t")[place - 1] for row in rows.all_inner_texts()]
    numbers = [float(cell) for cell in cells if any(map(str.isdigit, cell))]
    assert cells[0] == "93.16"
    assert numbers == sorted(numbers, reverse=True)
    assert page.locator(".published.large tr.own").count() == 1

    page.get_by_label("Filter models").last.fill("siglip webli")
    expect(page.locator(".published-large [role=status]")).not_to_have_text("136 of 136 models are shown.")
    labels = rows.locator("th").all_inner_texts()
    assert all("SigLIP" in label or label.startswith("mine") for label in labels)
    assert any(label.startswith("mine") for label in labels)


def test_another_published_table_can_be_chosen(watched, standing_report):
    page = watched.open(standing_report, "#/published")
    mine = page.get_by_role("button", name="Show mine")
    expect(mine).to_be_enabled()

    page.get_by_label("Table", exact=True).select_option(
        label="open_clip's tables: Crossmodal-3600 in 36 languages, text to image, R@1"
    )

    assert page.locator(".published.large thead th .label").count() == 1 + 2 + 1 + 36
    expect(mine).to_be_disabled()  # none of one's own is there


def test_the_page_tells_where_a_model_stands(watched, standing_report):
    page = watched.open(standing_report, "#/published")

    first = page.locator(".standing").first.locator("tbody tr").all_inner_texts()

    assert page.locator(".standing h3").first.inner_text() == "open_clip's tables"
    assert [" ".join(row.split()) for row in first][-1].startswith("Mean of 2 63.78")
    assert all("~" in row for row in first)  # an interval of a point on either side holds many published numbers


def test_long_published_tables_alone_are_the_first_view(watched, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(make_page(make_payload([], references=["open_clip"])))

    page = watched.open(path)

    assert page.locator("h1").inner_text() == "Published tables"
    assert page.locator(".published.large tbody tr").count() == 121
