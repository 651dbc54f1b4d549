"""The scripts of EvalScope's documentation, run unchanged by ``eyechart as evalscope`` in a fresh folder.

Models are where their names point: small ones, saved by their own libraries. Only addresses of servers are replaced.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.data import write_retrieval
from support.mteb_tasks import distinct_rows, one_each, write_page_tasks, write_retrieval_task
from support.openai_server import OpenAIServer
from support.text_models import minilm, save_tiny_cross_encoder
from support.zoo_transformers import chinese_clip

SCRIPTS = Path(__file__).parents[1] / "data" / "evalscope"
KEY = "sk-dashscope-0123456789-very-secret"
ADDRESSES = ("http://localhost:8008/v1", "https://dashscope.aliyuncs.com/compatible-mode/v1")
ONE_AFTER_THE_OTHER = """import runpy, sys
for script in sys.argv[1:]:
    print("running", script, flush=True)
    runpy.run_path(script, run_name="__main__")
"""


def put_scripts(server) -> list[str]:
    names = sorted(path.name for path in SCRIPTS.glob("*.py"))
    for name in names:
        text = (SCRIPTS / name).read_text()
        for address in ADDRESSES:
            text = text.replace(address, server.api_base)
        Path(name).write_text(text)
    return names


@pytest.fixture
def place(here, custom):
    """A fresh folder with models and data under the names that the scripts use."""
    chinese_clip(Path("AI-ModelScope/chinese-clip-vit-large-patch14-336px"))
    Path("AI-ModelScope/m3e-base").symlink_to(minilm())
    Path("OpenBMB").mkdir()
    save_tiny_cross_encoder(Path("OpenBMB/MiniCPM-Reranker"))
    write_retrieval(Path("cache/muge"), captions=[[f"商品 {i}"] for i in range(12)])
    write_retrieval(Path("cache/flickr8k"), captions=[[f"caption {i} {j}" for j in range(5)] for i in range(6)])
    write_page_tasks(Path("cache"))
    rows = distinct_rows(20)
    texts = [row[0] for row in rows], [row[1] for row in rows]
    write_retrieval_task(Path("my_retrieval_data"), *texts, one_each(20), split="test")
    return here


def test_all_scripts_of_the_documentation_run_as_they_are(place):
    with OpenAIServer(models=("internvl2-8b", "text-embedding-v3"), dimension=1024, key=None) as server:
        names = put_scripts(server)
        Path("all.py").write_text(ONE_AFTER_THE_OTHER)
        done = subprocess.run(
            [sys.executable, "-m", "eyechart", "as", "evalscope", "all.py", *names],
            env={**os.environ, "DASHSCOPE_API_KEY": KEY, "HF_DATASETS_CACHE": str(place / "hf")},
            capture_output=True,
            text=True,
            timeout=300,
        )

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == [word for name in names for word in ("running", name)]
    results = {str(path.relative_to("outputs")) for path in Path("outputs").glob("*/*.json")}
    assert results == {
        "chinese-clip-vit-large-patch14-336px/muge_zeroshot_retrieval.json",
        "chinese-clip-vit-large-patch14-336px/flickr8k_zeroshot_retrieval.json",
        "chinese-clip-vit-large-patch14-336px/custom_zeroshot_retrieval.json",
        *caption_results(),
        "m3e-base/TNews_mteb_Classification.json",
        "m3e-base/CLSClusteringS2S_mteb_Clustering.json",
        "m3e-base/T2Reranking_mteb_Reranking.json",
        "m3e-base/T2Retrieval_mteb_Retrieval.json",
        "m3e-base/ATEC_mteb_STS.json",
        "m3e-base/CustomRetrieval_text_retrieval.json",
        "m3e-base+MiniCPM-Reranker/T2Retrieval_mteb_Retrieval.json",
        "text-embedding-v3/T2Retrieval_mteb_Retrieval.json",
    }
    two = json.loads(Path("outputs/m3e-base+MiniCPM-Reranker/T2Retrieval_mteb_Retrieval.json").read_text())
    [scores] = two["details"]["mteb"]["scores"]["dev"]
    assert two["metrics"]["main_score"] == scores["ndcg_at_10"]
    assert two["job"]["settings"]["top_k"] == 5
    assert two["job"]["limit"] == 100
    assert any(notice["kind"] == "limited" for notice in two["notices"])
    written = [path for path in place.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert (written, KEY in done.stdout + done.stderr) == ([], False)


def caption_results() -> set[str]:
    return {str(path.relative_to("outputs")) for path in Path("outputs").glob("internvl2-8b*/muge_image_caption.json")}


def test_the_logger_of_scripts_writes_once_and_leaves_others_alone(here, capfd):
    import logging

    from eyechart.compat.evalscope.main import get_logger

    logger = get_logger("own.log", name="a-script")
    assert get_logger(name="a-script") is logger
    logger.info("hello")

    assert capfd.readouterr().err.count("a-script - INFO: hello") == 1
    assert Path("own.log").read_text().endswith("a-script - INFO: hello\n")
    assert logger not in logging.getLogger().handlers
    for handler in logger.handlers:
        handler.close()
