"""Input and output facts of VLMEvalKit, run through our functions.

The facts are in `data/vlm_cases.json`. A group of cases belongs to a function here (COVERED) or to another
layer (ELSEWHERE); a new group fails until somebody decides. Cases marked as a quirk record what looks like
a defect of the original: QUIRKS says what we do instead, or that we agree on purpose.
"""

import json
import math
from pathlib import Path

import pytest

from eyechart.metrics import answers, choices, math_answers
from eyechart.metrics import long_texts as vcr_metric
from eyechart.metrics.captions import score_captions
from eyechart.metrics.cell_values import text_list
from eyechart.metrics.repeated_questions import circular_rows
from eyechart.scorers.aggregates import choices as choice_tables
from eyechart.scorers.aggregates import exercises, verdicts, yes_no
from eyechart.scorers.aggregates.means import all_right, percentages
from eyechart.scorers.judging.judge_forms import two_numbers
from eyechart.scorers.rules import mathematics
from eyechart.scorers.rules.yes_no import naturalbench_answer
from eyechart.scorers.scoring import score_rows
from support.vlm_data import benchmark_of_kind

CASES = json.loads((Path(__file__).parent / "data" / "vlm_cases.json").read_text(encoding="utf-8"))["cases"]


def _choice(args):
    return choices.extract_vlmeval(args["answer"], args["choices"]).choice or False


def _choice_by_letter(args):
    found = choices.choice_by_letter(args["answer"], args["choices"])
    return found.choice if found else False


def _choice_by_text(args):
    return choices.choice_by_text(args["answer"], args["choices"]).choice or False


def _open(metric, score_name):
    """The row score under the name the case gives it, beside the comparison with each answer."""

    def run(args):
        found = {"match": answers.open_matches(args["prediction"], args["answer"], metric)}
        if score_name:
            found[score_name] = answers.open_score(args["prediction"], args["answer"], metric)
        if metric == "vqa_score":
            found["gt"] = [answers.vqa_normalize(text) for text in text_list(args["answer"])]
            found["pred"] = answers.vqa_normalize(args["prediction"])
        return found

    return run


def _captions(args):
    predictions = [row["prediction"] for row in args["rows"]]
    found = score_captions(predictions, [text_list(row["answer"]) for row in args["rows"]])
    return {"Bleu": [found.pop(f"Bleu_{n}") for n in (1, 2, 3, 4)]} | found


def _scored(rows, scorer, metric=""):
    return score_rows(rows, benchmark_of_kind(scorer, "optional", metric=metric))


def _mcq(args):
    name = args["dataset"]
    scored = _scored(args["rows"], "mmmu" if "MMMU" in name else "circular" if "circular" in name else "choice")
    return {"hit": scored.units, "result": scored.table}


def _yes_no(args):
    scored = _scored(args["rows"], "yes_no")
    columns = {"extracted": [one.extracted for one in scored.scores], "score": [one.score for one in scored.scores]}
    return columns | {"result": scored.table}


def _vqa(args):
    return {"result": _scored(args["rows"], "open", VQA_METRICS[args["dataset"].split("_")[0]]).table}


def _with_scores(rows):
    return [{**row, "score": row["hit"]} for row in rows]


def _mathvista(args):
    return exercises.mathvista([row | {"score": mathematics.mathvista_hit(row)} for row in args["rows"]])


def _math_check(read, hit):
    def run(args):
        value = read(args["line"]) if args["prefetch"] else hit(args["line"])
        return False if value is None else value

    return run


def _group_hit(args):
    scores = _scored([{**row, "answer": row["GT"]} for row in args["rows"]], "choice").scores
    hit = all_right([{"score": None if score.extracted is None else score.score} for score in scores])
    return {"hit": None if hit is None else int(hit)}


VQA_METRICS = {
    "DocVQA": "anls",
    "InfoVQA": "anls",
    "ChartQA": "relaxed_accuracy",
    "OCRVQA": "accuracy",
    "TextVQA": "vqa_score",
}

COVERED = {
    "AMBER_rating": lambda args: yes_no.amber(args["rows"]),
    "Hallusion_rating": lambda args: yes_no.hallusion(args["rows"]),
    "ImageCaptionDataset.evaluate": _captions,
    "ImageMCQDataset.evaluate": _mcq,
    "ImageVQADataset.evaluate": _vqa,
    "ImageYORNDataset.evaluate": _yes_no,
    "LLaVABench.parse_score": lambda args: list(two_numbers(args["review"], highest=10) or (-1, -1)),
    "LLaVABench_score": lambda args: verdicts.llavabench(args["rows"]),
    "MMDU.calculat_metric": lambda args: verdicts.dialogue_grades(
        [{"grades": turn} for turns in args["turn_scores"] for turn in turns]
    ),
    "MMVet_acc": lambda args: verdicts.mmvet(args["rows"]),
    "MTVQADataset.evaluate": lambda args: {"result": _scored(args["rows"], "mtvqa").table},
    "MathVision.is_equal": lambda args: math_answers.math_equal(args["asw"], args["gt_asw"]),
    "MathVision.post_check": _math_check(mathematics.mathvision_read, mathematics.mathvision_hit),
    "MathVista.post_check": _math_check(mathematics.mathvista_read, mathematics.mathvista_hit),
    "MathVista_acc": _mathvista,
    "NaturalBench.extract_answer": lambda args: naturalbench_answer(args["output"], args["type"]),
    "NaturalBench.get_scores": lambda args: yes_no.naturalbench_groups(
        [
            {"index": 4 * i + j, "extracted": group[cell]}
            for i, group in enumerate(args["scores"].values())
            for j, cell in enumerate(("q0_i0", "q0_i1", "q1_i0", "q1_i1"))
        ]
    ),
    "OCRBench.evaluate": lambda args: {"result": _scored(args["rows"], "ocrbench").table},
    "POPE_rating": lambda args: yes_no.pope(args["rows"]),
    "VCR.rough_filter": lambda args: vcr_metric.vcr_answers(args["text"]),
    "VSR_rating": lambda args: yes_no.vsr(args["rows"]),
    "default_rating": lambda args: percentages(args["rows"]),
    "prefetch_circular_group": _group_hit,
    "report_acc": lambda args: choice_tables.report_acc(_with_scores(args["rows"])),
    "report_acc_MMVP": lambda args: choice_tables.mmvp(_with_scores(args["rows"])),
    "report_acc_hrbench": lambda args: {
        f"{line['cycle']}|{line['type']}": line["accuracy"]
        for line in choice_tables.hrbench(_with_scores(args["rows"]))
    },
    "vlmutil.circular": lambda args: circular_rows(args["rows"]),
    "MMMU_Pro.cot_postproc": lambda args: choices.final_answer_line(args["response"]),
    "YOrN_Extraction": lambda args: answers.yes_or_no(args["output"]),
    "anls_compute": lambda args: answers.anls_distance(args["prediction"], args["groundtruth"]),
    "can_infer": _choice,
    "can_infer_option": _choice_by_letter,
    "can_infer_sequence": lambda args: choices.extract_sequence(args["answer"]) or False,
    "can_infer_text": _choice_by_text,
    "extract_characters_regex": lambda args: choices.extract_first_letter(args["s"]),
    "levenshtein_distance": lambda args: answers.edit_distance(args["s1"], args["s2"]),
    "process_answer": lambda args: answers.vqa_normalize(args["text"]),
    "process_digit_article": lambda args: answers.clean_digits_and_articles(args["text"]),
    "process_line.accuracy": _open("accuracy", "hit_OCRVQA"),
    "process_line.anls": _open("anls", "hit_DocVQA"),
    "process_line.default_exact": _open("normalized_exact", None),
    "process_line.relaxed_accuracy": _open("relaxed_accuracy", "hit_ChartQA"),
    "process_line.vqa_score": _open("vqa_score", "hit_TextVQA"),
    "process_punctuation": lambda args: answers.clean_punctuation(args["text"]),
    "relaxed_correctness": lambda args: answers.relaxed_match(args["prediction"], args["target"]),
    "split_thinking": lambda args: list(answers.split_thinking(args["s"])),
    "toliststr": lambda args: text_list(args["s"]),
}

DATASETS, MODELS, JUDGES, RESULTS = "dataset classes", "generators", "judges", "result files"
ELSEWHERE = {
    "BaseAPI.generate": MODELS,
    "BaseAPI.generate.system_role": MODELS,
    "MMVet.prompt_tail": JUDGES,
    "MMVet_auxeval": JUDGES,
    "YOrN_auxeval": JUDGES,
    "build_option_str": JUDGES,
    "build_prompt": DATASETS,
    "chat_mt": MODELS,
    "check_content": MODELS,
    "extract_answer_from_item": JUDGES,
    "is_prediction_complete": RESULTS,
    "message_to_promptimg(BaseAPI)": MODELS,
    "message_to_promptimg(local BaseModel)": MODELS,
    "preproc_content": MODELS,
}

AGREE = "same as the original: "
ALONE = AGREE + "leave-one-out needs two annotators; other metrics exist"
VSR_PERCENT = {"precision": 200 / 3, "recall": 200 / 3, "acc": 60.0, "f1_score": 200 / 3}
MMVET_ONCE = {
    "score": {"rec": [2, 40.0], "ocr": [3, 130 / 3], "know": [1, 50.0], "Overall": [4, 45.0]},
    "fine": {"ocr": [1, 0.0], "ocr_math": [1, 100.0], "Overall": [4, 45.0]},
}
QUIRKS = {
    "MMVet_acc-001": (MMVET_ONCE, "a question of one capability counts once for it"),
    "VSR_rating-001": (VSR_PERCENT, "f1_score has the scale of the others"),
    "YOrN_Extraction-037": ("Unknown", AGREE + "published scores depend on it; `yes_or_no_strict` reads it"),
    "YOrN_Extraction-044": ("Unknown", AGREE + "published scores depend on it; `yes_or_no_strict` reads it"),
    "anls_compute-014": (0.0, AGREE + "the raw length only makes the distance smaller"),
    "can_infer-099": (False, AGREE + "the extractor `strict` reads full-width punctuation"),
    "can_infer-100": (False, AGREE + "the extractor `strict` reads full-width punctuation"),
    "can_infer-108": ("C", AGREE + "the extractor `strict` wants whole words"),
    "can_infer-116": ("B", AGREE + "the extractor `strict` wants whole words"),
    "can_infer-122": (False, AGREE + "the extractor `strict` wants whole words"),
    "can_infer-163": (
        False,
        "a missing answer never reaches the rules, so an option named None is not chosen",
    ),
    "process_line.vqa_score-014": (
        {"hit_TextVQA": 0.0},
        ALONE,
    ),
    "process_line.vqa_score-015": (
        {"hit_TextVQA": 0.0},
        ALONE,
    ),
    "relaxed_correctness-042": (True, AGREE + "nothing is within 5 % of zero, so the texts decide"),
}


def _same(found, expected):
    """Compare as the cases ask: floats to 1e-6, null for NaN or None, every key of the expectation."""
    if isinstance(expected, dict):
        expected = {key: value for key, value in expected.items() if key != "files"}  # written by another layer
        return isinstance(found, dict) and all(_same(found.get(key), expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if expected is None:
        return found is None or (isinstance(found, float) and math.isnan(found))
    if isinstance(expected, float) or isinstance(found, float):
        return float(found) == pytest.approx(float(expected), rel=1e-6, abs=1e-6)
    return found == expected and isinstance(found, bool) == isinstance(expected, bool)


def _id(case):
    return case["id"]


def test_every_group_has_an_owner():
    groups = {case["fn"] for case in CASES}

    assert groups == COVERED.keys() | ELSEWHERE.keys()
    assert not COVERED.keys() & ELSEWHERE.keys()


@pytest.mark.parametrize("case", [c for c in CASES if "quirk" not in c and c["fn"] in COVERED], ids=_id)
def test_agrees_with_the_original(case):
    found = COVERED[case["fn"]](case["args"])

    assert _same(found, case["expected"]), f"{found!r} instead of {case['expected']!r}"


@pytest.mark.parametrize("case", [c for c in CASES if "quirk" in c and c["fn"] in COVERED], ids=_id)
def test_quirks_have_a_decision(case):
    chosen, _reason = QUIRKS[case["id"]]
    found = COVERED[case["fn"]](case["args"])

    assert _same(found, chosen), f"{found!r} instead of {chosen!r}"
