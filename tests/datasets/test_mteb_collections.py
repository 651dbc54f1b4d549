"""Collections of MTEB by name."""

import pytest

from eyechart.benchmarks import MTEB_COLLECTIONS, PRIVATE
from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.mteb import open_mteb
from eyechart.datasets.resolve import resolve_dataset

mteb = pytest.importorskip("mteb")
pytestmark = pytest.mark.filterwarnings("ignore")
SIZES = {
    "MIEB(eng)": 125,
    "MIEB(lite)": 51,
    "MIEB(Multilingual)": 130,
    "MIEB(Img)": 49,
    "ViDoRe(v1)": 10,
    "ViDoRe(v2)": 4,
    "ViDoRe(v3)": 8,
    "JinaVDR": 43,
    "VisRAG": 6,
}


@pytest.mark.parametrize(("alias", "name"), MTEB_COLLECTIONS.items())
def test_a_collection_has_the_public_tasks_of_the_installed_mteb(alias, name):
    catalogue = load_catalogue()

    members = catalogue.expand(name)

    assert alias in catalogue
    assert members == catalogue.expand(alias) == catalogue.expand(name.lower())
    assert len(members) == SIZES[name]
    assert all(mteb.get_task(member.removeprefix("mteb/")).metadata.is_public for member in members)
    assert ("private" in PRIVATE.get(name, "")) == (name == "ViDoRe(v3)")


def test_a_task_knows_its_collections_its_type_and_its_size():
    dataset = open_mteb(resolve_dataset("mteb/AROVisualAttribution", "root"))

    assert dataset.info.measures == "Compositionality"
    assert dataset.info.collections == {"MIEB(eng)": 125, "MIEB(lite)": 51, "MIEB(Multilingual)": 130}
    assert dataset.size() == 28748
    assert dataset.missing() == ["mteb/ARO-Visual-Attribution"]
    assert open_mteb(resolve_dataset("mteb/VisualSTS17Multilingual", "root")).size() > 0


def test_a_dry_run_plans_all_tasks_with_sizes_and_downloads(here, capsys):
    from eyechart.cli import main

    assert main(["eval", "MIEB(lite)", "eyechart-tiny", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "51 jobs"
    assert sum(" samples -> results/" in line for line in lines) == 51
    assert "  mteb/ARO-Visual-Attribution (huggingface)" in lines


def test_info_and_list_know_the_collections(capsys):
    from eyechart.cli import main

    assert main(["info", "vidore-v3"]) == 0
    assert "2 tasks whose data are private" in capsys.readouterr().out
    assert main(["list", "collections"]) == 0
    assert "mieb-lite" in capsys.readouterr().out
