"""The curve of dimensions and precision on the terminal and on the page."""

from __future__ import annotations

import pytest

from eyechart import evaluate
from eyechart.cli.run_output import result_lines
from eyechart.io.terminal import text_width
from eyechart.report.loader import load_results
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload


@pytest.fixture(scope="module")
def compressed(tmp_path_factory):
    """Results of a retrieval and a classification benchmark with eleven compressions."""
    folder = tmp_path_factory.mktemp("compressed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_CACHE", str(folder / "cache"))
        return evaluate(
            "eyechart-tiny",
            ["demo/garments", "demo/scenes"],
            limit=60,
            truncate_dim=[4, 16, 64],
            quantize=["int8", "binary"],
            output=f"{folder}/out/",
        )


@pytest.fixture(scope="module")
def page_file(compressed, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(make_page(make_payload(load_results([compressed[0].path.parent]).found, version="0")))
    return path


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_fits_into_80_columns(compressed, language, monkeypatch):
    monkeypatch.setenv("EYECHART_LANG", language)
    for result in compressed:
        lines = result_lines([result], 80)
        rows = [line.split() for line in lines]

        assert max(map(text_width, lines)) <= 80
        assert sum(row[1:2] == ["binary"] for row in rows) == 4 * len(result.primary)
        for name in result.primary:
            for point in result.details["compression"][1:]:
                change = f"{100 * point['metrics'][name]['paired']['difference']:+.2f}"
                shown = [str(point[key]) for key in ("dim", "precision", "bytes")]
                assert any(row[:3] == shown and row[4:5] == [change] for row in rows)


def test_results_without_a_curve_have_no_table(compressed):
    (result,) = evaluate("eyechart-tiny", "demo/garments", limit=20, output=str(compressed[0].path.with_name("p.json")))

    assert not any("compressed" in line for line in result_lines([result], 80))
    result.path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_the_page_plots_metrics_and_paired_changes(watched, page_file, compressed, number):
    page = watched.open(page_file, f"#/benchmark/{number}")
    section = page.locator("section", has=page.get_by_role("heading", name="Dimensions and precision"))
    metrics = compressed[number].primary

    assert section.locator(".point .dot").count() == 12 * len(metrics)
    assert section.locator(".point .whisker").count() == 12 * len(metrics)
    assert section.locator(".series polyline").count() == 3 * len(metrics)
    for place, name in enumerate(metrics):
        plotted = section.get_by_role("img", name=f"Change of {name} to the full vectors").locator(".row")
        points = [point["metrics"][name] for point in compressed[number].details["compression"][1:]]
        texts = plotted.locator(".value").all_text_contents()
        assert [float(text.replace("\u2212", "-").strip("±+")) for text in texts] == pytest.approx(
            [100 * point["paired"]["difference"] for point in points], abs=0.051
        )
        significant = sum(point["paired"]["p_holm"] < 0.05 for point in points)
        assert (
            section.get_by_role("img", name=f"Change of {name}").locator(".row.bad, .row.good").count() == significant
        )
        assert section.locator("table").nth(place).locator("tbody tr").count() == 11
