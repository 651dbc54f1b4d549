"""What fuzzing found, each as the smallest input that showed it."""

import json
import re
import tarfile
import zipfile

import pytest

from eyechart.compat.evalscope.main import read_configs
from eyechart.datasets.image_table import open_table
from eyechart.datasets.questions.prediction_files import load_table, read_xlsx, write_xlsx
from eyechart.datasets.tar_shards import iter_groups
from eyechart.errors import DataError, ResultError, UsageError
from eyechart.report.loader import load_results, read_any
from eyechart.report.page.payload import make_payload
from eyechart.types import DatasetSpec
from support.data import png


def record(key: str, value: str) -> bytes:
    """Write one record of an extended header: its length, counting itself, then key and value."""
    rest = f" {key}={value}\n"
    length = len(rest) + 2
    return f"{length if length < 100 else length + 1}{rest}".encode()


@pytest.mark.parametrize(
    "body",
    [
        record("GNU.sparse.map", "0,x"),
        record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0"),
    ],
)
def test_odd_extended_headers_of_a_tar_are_damage(tmp_path, body):
    info, image = tarfile.TarInfo("x"), tarfile.TarInfo("a.png")
    info.type, info.size, image.size = tarfile.XHDTYPE, len(body), len(png())
    data = png().ljust(-(-len(png()) // 512) * 512, b"\0")
    headers = [one.tobuf(tarfile.USTAR_FORMAT) for one in (info, image)]
    path = tmp_path / "0.tar"
    path.write_bytes(headers[0] + body.ljust(512, b"\0") + headers[1] + data + b"\0" * 1024)

    with pytest.raises(DataError, match=r"0\.tar"):
        list(iter_groups(path))


def spreadsheet(path, change):
    write_xlsx(path, ["index"], [[1], [2]])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, change(name, content))
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda name, part: re.sub(rb"<sheets>.*</sheets>", b"<sheets/>", part),
        lambda name, part: part.replace(b"<v>2</v>", b"<v>2</w>") if "sheet1" in name else part,
        lambda name, part: part.replace(b'r="A3"', b'r="!"') if "sheet1" in name else part,
        lambda name, part: part[:-40] if "sheet1" in name else part,
    ],
)
def test_a_spreadsheet_that_breaks_off_or_has_no_sheet_is_an_error_that_names_it(change, tmp_path):
    with pytest.raises(DataError, match=r"p\.xlsx"):
        read_xlsx(spreadsheet(tmp_path / "p.xlsx", change))


def test_a_config_with_the_name_of_a_tool_as_a_setting():
    config = {
        "eval_config": {"tool": "mteb", "model": [{"model_name_or_path": "m"}], "eval": {"tasks": ["T"]}},
        "mteb": 1,
    }

    with pytest.raises(UsageError, match="unknown setting"):
        read_configs(config)


@pytest.mark.parametrize("read", [load_table, lambda path: open_table(DatasetSpec("x", "table", str(path)))])
def test_a_cell_that_the_csv_module_cannot_hold(read, tmp_path):
    (tmp_path / "t.csv").write_text(f"image,caption\na.png,{'x' * 140_000}\n")

    with pytest.raises(DataError, match="after line 1: invalid table"):
        read(tmp_path / "t.csv")


def test_a_table_of_results_with_such_a_cell(tmp_path):
    (tmp_path / "r.csv").write_text(f"dataset,model,task\n{'x' * 140_000},m,t\n")

    with pytest.raises(ResultError, match="not a table"):
        read_any(tmp_path / "r.csv")


BODY = {"dataset": "d", "model": "m", "pretrained": "p", "task": "t", "metrics": {"acc1": 0.5}, "language": "en"}


@pytest.mark.parametrize(
    "metrics", [{}, {"\u00b2": 1.0}, {"a" + "9" * 5000: 1.0}, {"image_retrieval_recall@" + "9" * 5000: 1}]
)
def test_a_report_of_results_with_no_metrics_or_odd_ones(metrics, tmp_path):
    for name in ("r", "s"):
        (tmp_path / f"{name}.json").write_text(json.dumps(BODY | {"model": name, "metrics": metrics}))

    payload = make_payload(load_results([tmp_path]).found)

    assert len(payload.overview["results"]) == 2


def test_details_of_another_kind_are_an_error_that_names_the_file(tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(BODY | {"details": {"classnames": 7}}))

    with pytest.raises(ResultError, match=r"r\.json are damaged"):
        make_payload(load_results([tmp_path / "r.json"]).found)
