import json

from eyechart.cli import main
from eyechart.io.stopwatch import PHASES, Stopwatch


def test_phases_add_up_and_come_in_the_order_of_the_table():
    watch = Stopwatch()
    watch.add("score", 1.0)
    watch.add("read", 0.25)
    watch.add("read", 0.25)

    assert watch.seconds() == {"read": 0.5, "score": 1.0}
    assert list(watch.seconds()) == [phase for phase in PHASES if phase in ("read", "score")]


def test_the_time_for_the_next_item_is_counted_and_not_the_time_spent_on_it(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("eyechart.io.stopwatch.time.perf_counter", lambda: now[0])

    def slow():
        for i in range(3):
            now[0] += 0.25
            yield i

    watch = Stopwatch()
    for _ in watch.each("read", slow()):
        now[0] += 4.0

    assert watch.seconds() == {"read": 0.75}


def test_a_phase_counts_also_when_it_fails():
    watch = Stopwatch()
    try:
        with watch.phase("decode"):
            raise ValueError
    except ValueError:
        pass

    assert "decode" in watch.seconds()


def test_a_result_says_where_its_time_went_and_the_flag_shows_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["eval", "--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny", "--quiet"]

    assert main([*words, "--dataset", "demo/garments", "--limit", "20", "--output", "r.json", "--profile"]) == 0

    profile = json.loads((tmp_path / "r.json").read_text())["provenance"]["profile"]
    assert set(profile) == {*PHASES, "total"}
    one_after_the_other = [profile[phase] for phase in PHASES if phase not in ("decode", "transform")]
    assert sum(one_after_the_other) < profile["total"] * 1.05
    assert "encode images" in capsys.readouterr().out
