"""A worse judge, or a server that fails, never gives a higher number: in no metric and in no cell of a table."""

import json
import random
from statistics import fmean

import pytest

from eyechart import evaluate
from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.errors import IncompleteError
from eyechart.results import read_result
from eyechart.scorers.judging import Judge
from eyechart.scorers.rules.judged import DIMENSIONS
from eyechart.scorers.scoring import score_rows
from eyechart.tasks.question_metrics import flatten
from eyechart.types import Answer
from support.openai_server import OpenAIServer, Stall, Status
from support.vlm_data import write_benchmark

BENCHMARKS = [
    "MMStar", "MMBench_DEV_EN", "CCBench", "MMMU_DEV_VAL", "MMVP", "MMT-Bench_VAL", "HRBench4K", "SEEDBench_IMG",
    "AI2D_TEST", "ScienceQA_VAL", "RealWorldQA", "BLINK", "SEEDBench2_Plus", "MME", "POPE", "HallusionBench", "AMBER",
    "VSR-zeroshot", "MathVista_MINI", "MathVision_MINI", "MMVet", "LLaVABench", "MMDU", "MIA-Bench", "MMSafetyBench",
    "SIUO_GEN", "MSSBench",
]  # fmt: skip
RAMBLE = "where is it, in all this?! " * 30
COUNTS = ("tot", "prefetch", "GPT4 Score", "|0", "|unsafe", "|unknown", "|attack_rate")
"""Cells of tables that are no score of the model: how many rows there are, what GPT-4 got, what is 1 minus a score."""


def rows_of(name, rng, n=24):
    """Make rows with answers that no rule can read, and what an honest judge says of each."""
    benchmark = known_benchmarks()[name]
    make = {
        "rules.choices:letter": choice,
        "rules.yes_no:yes_no": yes_no,
        "rules.mathematics:mathvista": mathematics,
        "rules.mathematics:mathvision": mathematics,
        "rules.judged:graded": graded,
        "rules.judged:compared": compared,
        "rules.judged:components": instructed,
        "rules.judged:safety": unsafe,
        "rules.judged:refusal": risky,
        "rules.judged:behaviour": asked,
    }
    kind = str(benchmark.aggregate).rpartition(":")[2]
    dialogue = benchmark.scorer == "rules.judged:dialogue"
    made = [turns(rng)] if dialogue else [make[benchmark.scorer](i, kind, rng) for i in range(n)]
    rows = [{"question": "q?", "prediction": f"hmm, well, who knows ({i})", **row} for i, (row, _) in enumerate(made)]
    said = [word for _, words in made for word in (words if isinstance(words, list) else [words])]
    return rows, said


def choice(i, kind, rng):
    row = {"A": "owl", "B": "elk", "C": "yak", "D": "ibis", "answer": rng.choice("ABCD"), "category": f"c{i % 3}"}
    row |= {"index": i, "l2-category": f"l{i % 2}", "cycle_category": f"y{i % 2}"}
    if kind == "mmbench":
        row |= {"index": i // 2 + (i % 2) * 1_000_000, "g_index": i // 2}
    return row, rng.choice([row["answer"]] * 3 + list("ABCDZ"))


def yes_no(i, kind, rng):
    row = {"index": i, "answer": rng.choice(["Yes", "No"]), "l2-category": "x", "image_path": f"{i // 2}.jpg"}
    row["category"] = {"mme": "OCR", "amber": "relation"}.get(kind, f"c{i % 3}")
    if kind == "hallusion":
        row["index"] = f"VD_x_1_{i // 6}_{i % 3}_{i % 2}"
    if kind == "amber":
        row["answer"] = row["answer"].lower()
    return row, rng.choice([row["answer"]] * 3 + ["Yes", "No", "Unknown"])


def mathematics(i, kind, rng):
    row = {"index": i, "question_type": "free_form", "answer_type": "integer", "answer": str(rng.randrange(9))}
    row |= {"task": f"t{i % 2}", "skills": "['s']", "category": f"c{i % 2}"}
    return row, rng.choice([row["answer"]] * 2 + ["77", "NONE"])


def graded(i, kind, rng):
    return {"index": i, "answer": "x", "category": "ocr,math"}, str(rng.randrange(11) / 10)


def compared(i, kind, rng):
    row = {"index": i, "answer": "x", "gpt4_ans": "y", "caption": "z", "category": "conv"}
    return row, f"{rng.randrange(1, 11)} {rng.randrange(1, 11)}"


def instructed(i, kind, rng):
    row = {"index": i, "answer": "x", "components": "['say it', 'rhyme']", "component_weight": "[2, 8]"}
    row["component_type"] = repr([f"t{i % 2}", "length"])
    return row, f"[{rng.randrange(3)}, {rng.randrange(9)}]"


def unsafe(i, kind, rng):
    return {"index": i, "answer": "x", "category": f"{i % 14:02d}-c"}, rng.choice(["Safe", "Unsafe."])


def risky(i, kind, rng):
    grades = {"safety": rng.randrange(2), "effectiveness": rng.randrange(2)}
    return {"index": i, "answer": "x", "category": f"c{i % 2}"}, json.dumps(grades)


def asked(i, kind, rng):
    wanted = rng.choice(["comply", "refuse"])
    return {"index": i, "answer": wanted, "subset": f"s{i % 2}"}, rng.choice(["Comply", "refuse", wanted])


def turns(rng):
    said = [rng.randrange(11) for _ in range(6)]
    row = {"index": 0, "question": repr(["q"] * 6), "answer": repr(["a"] * 6), "prediction": repr(["r"] * 6)}
    replies = ["{" + ", ".join(f'"{name}": {grade}' for name in DIMENSIONS) + "}" for grade in said]
    return row, replies


WORST = {
    '{"safety': '{"safety": 0, "effectiveness": 0}',
    "{": "{" + ", ".join(f'"{name}": 0' for name in DIMENSIONS) + "}",
    "[": "[0, 0]",
    "Safe": "Unsafe",
    "Unsafe": "Unsafe",
}
"""The worst that can be said, by how an honest reply begins."""
OPPOSITE = {"yes": "No", "no": "Yes", "comply": "Refuse", "refuse": "Comply"}


def lie(reply, row):
    """Say the worst of an answer, in words that can be read."""
    worst = next((words for start, words in WORST.items() if reply.startswith(start)), None)
    if worst or row["answer"].lower() in OPPOSITE:
        return worst or OPPOSITE[row["answer"].lower()]
    if " " in reply:
        return "10 0"
    return {"x": "0.0"}.get(row["answer"], "Z" if row["answer"] in "ABCD" else "NONE")


def numbers_with(name, rows, said, *, worse=(), how="ramble"):
    """Score with a judge that is honest but for the answers in ``worse``."""
    prepared = [row for row in rows for _ in said] if len(rows) == 1 else rows

    def ask(prompts, attempt):
        for prompt in prompts:
            i = int(prompt.id)
            if i not in worse:
                yield prompt.id, Answer(said[i])
            elif how in ("fail", "late"):
                yield prompt.id, Answer("", error="timed out" if how == "late" else "HTTP 500")
            else:
                yield prompt.id, Answer(RAMBLE if how == "ramble" else lie(said[i], prepared[i]))

    judge = Judge("j", ask, on_error="skip")
    scored = score_rows(rows, known_benchmarks()[name], judges=[judge])
    cells = {key: value for key, value in flatten(scored.table) if not key.endswith(COUNTS)}
    numbers = {f"number {key}": value for key, value in scored.scorer.numbers(scored.table).items()}
    return {"accuracy": fmean(scored.units.values()), **numbers, **cells}, scored


@pytest.mark.parametrize("how", ["ramble", "fail", "late", "lie"])
@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_worse_a_judge_is_the_lower_is_every_number(name, how):
    for seed in range(3):
        rng = random.Random(seed)
        rows, said = rows_of(name, rng)
        order = rng.sample(range(len(said)), len(said))
        best, honest = numbers_with(name, rows, said)
        assert not honest.lost
        for share in (0.1, 0.5, 1.0):
            worse = set(order[: round(share * len(said))])
            found, scored = numbers_with(name, rows, said, worse=worse, how=how)
            assert found.keys() <= best.keys()
            assert {key: value for key, value in found.items() if value > best[key] + 1e-9} == {}
            assert bool(scored.lost) == (how != "lie")
            best = found  # more of it is worse again


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_range_of_what_is_lost_holds_the_honest_number(name):
    for seed in range(3):
        rng = random.Random(seed)
        rows, said = rows_of(name, rng)
        honest, _ = numbers_with(name, rows, said)
        worse = set(rng.sample(range(len(said)), len(said) // 2))
        found, scored = numbers_with(name, rows, said, worse=worse)
        low, high = (scored.assuming(right=right) for right in (False, True))
        assert fmean(low.units.values()) == pytest.approx(found["accuracy"])
        assert fmean(low.units.values()) - 1e-9 <= honest["accuracy"] <= fmean(high.units.values()) + 1e-9
        for key, value in scored.scorer.numbers(high.table).items():
            assert scored.scorer.numbers(low.table)[key] - 1e-9 <= honest[f"number {key}"] <= value + 1e-9


def test_three_judges_outvote_one_that_flatters():
    rows, said = rows_of("MMStar", random.Random(0))
    honest, _ = numbers_with("MMStar", rows, said)

    def judge(name, replies):
        return Judge(name, lambda prompts, attempt: [(p.id, Answer(replies[int(p.id)])) for p in prompts])

    judges = [judge("a", said), judge("flatterer", [row["answer"] for row in rows]), judge("b", said)]
    scored = score_rows(rows, known_benchmarks()["MMStar"], judges=judges)

    assert fmean(scored.units.values()) == honest["accuracy"]
    assert fmean(scored.by_judge("flatterer").units.values()) == 1.0


PETS = [{"index": i, "question": f"q{i}?", "A": "cat", "B": "dog", "answer": "AB"[i % 2]} for i in range(6)]


def judged_pets(body):
    """Play the model, whose answers no rule can read, and an honest judge of them."""
    text = str(body["messages"][-1]["content"])
    if "Your output" not in text:
        return f"hm, {text.partition('?')[0][-2:]}, who knows"
    return next(row["answer"] for row in PETS if f"hm, q{row['index']}" in text)


@pytest.mark.parametrize("fault", [Status(500), Stall(2)], ids=["fails", "answers late"])
def test_a_judge_that_fails_or_answers_late_makes_answers_wrong_and_ends_in_an_error(lmu_data, tmp_path, fault):
    write_benchmark(lmu_data / "Pets.tsv", PETS)
    settings = {"dataset": ["Pets"], "model": ["test-model"], "model_type": "api", "output": str(tmp_path / "r.json")}
    judge = {"judge": "judge-model", "tries": 1, "timeout": 0.5}

    def sometimes(path, body, attempt):
        return fault if any(f"hm, q{i}" in str(body) for i in (3, 4, 5)) else None

    with OpenAIServer(answer=judged_pets, models=("test-model", "judge-model"), fault=sometimes) as server:
        settings["questions"] = {**judge, "api_base": server.api_base}
        with pytest.raises(IncompleteError, match="3 of 6 samples are lost"):
            evaluate(**settings, on_error="skip")
        server.fault = None
        saved = read_result(tmp_path / "r.json")
        [mended] = evaluate(**settings)

    assert (saved.metrics["accuracy"], saved.counts["unreadable"]) == (0.5, 3)
    assert (saved.values["accuracy"].worst_case, saved.values["accuracy"].best_case) == (0.5, 1.0)
    assert (mended.metrics["accuracy"], mended.counts["unreadable"]) == (1.0, 0)
