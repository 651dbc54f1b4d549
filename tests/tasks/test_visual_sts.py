import json

import numpy as np
import pytest
from PIL import Image

from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError
from support.encoders import constant_encoder, literal_encoder
from support.tasks import make_context, run_task, values

COLOURS = ("#ff0000", "#ff8000", "#ffff00", "#80ff00", "#00ff00", "#0000ff")


def write_pairs(root, rows):
    root.mkdir(exist_ok=True)
    for colour in COLOURS:
        Image.new("RGB", (8, 8), colour).save(root / f"{colour[1:]}.png")
    lines = [
        {"image_1": f"{a[1:]}.png", "image_2": f"{b[1:]}.png", "score": score, "tag": tag} for a, b, score, tag in rows
    ]
    (root / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return root


# Red against ever more different colours; the last score is out of order.
ROWS = [(COLOURS[0], colour, score, "x") for colour, score in zip(COLOURS, (5, 4, 3, 2, 0, 1), strict=True)]


def correlate(root, tmp_path, encoder=None):
    return run_task("visual_sts", make_context(root, encoder or literal_encoder(), tmp_path, reader="pairs"))


def test_it_is_the_rank_correlation_of_cosines_and_scores(tmp_path):
    from scipy.stats import spearmanr

    outcome = correlate(write_pairs(tmp_path / "data", ROWS), tmp_path)

    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in COLOURS], float)
    cosines = rgb @ rgb[0] / np.linalg.norm(rgb, axis=1) / np.linalg.norm(rgb[0])
    assert values(outcome)["spearman"] == pytest.approx(spearmanr(cosines, (5, 4, 3, 2, 0, 1)).statistic)
    assert [record["cosine"] for record in outcome.records] == pytest.approx(cosines, abs=1e-5)


def test_a_constant_encoder_correlates_with_nothing(tmp_path):
    assert values(correlate(write_pairs(tmp_path / "data", ROWS), tmp_path, constant_encoder())) == {
        "spearman": 0.0,
        "pearson": 0.0,
    }


def test_scores_that_are_all_equal_have_no_correlation(tmp_path):
    root = write_pairs(tmp_path / "data", [(one, two, 3, tag) for one, two, _, tag in ROWS])

    with pytest.raises(DataError, match="all pairs have the score 3"):
        correlate(root, tmp_path)


def test_the_interval_is_scipys_for_pearson(tmp_path):
    from scipy.stats import pearsonr

    rng = np.random.default_rng(0)
    rows = [(COLOURS[0], COLOURS[i], float(rng.random()), "x") for i in rng.integers(0, 6, 40)]
    outcome = correlate(write_pairs(tmp_path / "data", rows), tmp_path)

    truth = [record["score"] for record in outcome.records]
    theirs = pearsonr([record["cosine"] for record in outcome.records], truth).confidence_interval()
    found = outcome.metrics["pearson"]
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-4)


def test_half_a_pair_is_counted_as_failed(tmp_path):
    root = write_pairs(tmp_path / "data", ROWS)
    (root / "0000ff.png").write_bytes(b"broken")
    context = make_context(root, literal_encoder(), tmp_path, reader="pairs", on_error="skip")

    from eyechart.tasks.image_similarity import VisualSts

    prediction = VisualSts().predict(context, VisualSts.Settings())

    assert len(prediction.entries) == 10
    assert [failure.reason for failure in prediction.failures][-1] == "the other image of the pair is missing"


def test_the_folder_is_recognised(tmp_path):
    assert resolve_dataset(str(write_pairs(tmp_path / "data", ROWS)), "root").reader == "pairs"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"image_1": "a.png"}', "not a pair"),
        ("[1, 2]", "not a JSON object"),
        ('{"image_1": "a", "image_2": "b", "score": "high"}', "not a pair"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, what):
    root = write_pairs(tmp_path / "data", ROWS)
    (root / "pairs.jsonl").write_text(line)

    with pytest.raises(DataError, match=f"line 1: {what}"):
        correlate(root, tmp_path)
