import pytest


@pytest.fixture(autouse=True)
def lmu_data(tmp_path, monkeypatch):
    """Every test has benchmarks, answers and results of its own."""
    monkeypatch.setenv("LMUData", str(tmp_path / "LMUData"))
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("EYECHART_API_KEY", raising=False)
    return tmp_path / "LMUData"
