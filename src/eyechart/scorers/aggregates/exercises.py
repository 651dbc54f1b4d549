"""Tables of exercise, competition and mathematics benchmarks."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from statistics import fmean

from eyechart.metrics.cell_values import Row, as_score, as_text, text_list
from eyechart.scorers.aggregates.means import (
    Lines,
    Rows,
    Table,
    all_right,
    by_column,
    by_value,
    grouped,
    mean,
    means,
    need,
    reports,
)
from eyechart.scorers.rules.mathematics import PREFETCHED

_SCIENCES = {
    "02": "Arts", "03": "Soc. Sci.", "04": "Bus.", "05": "Nat. Sci.", "06": "ICTs", "07": "Eng.", "08": "Agri.",
    "09": "Health",
}  # fmt: skip


def with_reasoning(rows: Iterable[Row]) -> Table:
    """Return the means with and without chain of thought, and with it per language and science (BMMR)."""
    found = need(rows, "cot", "language", "category_id")
    parts = grouped(found, lambda row: as_text(row["cot"]).lower() in {"true", "1", "1.0"})
    reasoned, plain = parts.get(True, []), parts.get(False, [])
    table = {"CoT": mean(reasoned)} | ({"no_CoT": mean(plain)} if plain else {})
    table |= {language.capitalize(): mean(members) for language, members in by_column(reasoned, "language")}
    sciences: dict[str, list[Row]] = {}
    for row in reasoned:
        for name in text_list(row["category_id"]):
            sciences.setdefault(name[:2], []).append(row)
    return table | {_SCIENCES[name]: mean(sciences[name]) for name in sorted(sciences) if name in _SCIENCES}


def worst_case(rows: Iterable[Row]) -> Table:
    """Return the mean over all answers, and over questions that are right in every variant (DynaMath)."""
    found, groups = need(rows, "qid", "varid"), {"subject": "Subject-{}", "knowledge_level": "Level-{}"}
    right = {name: all_right(members) for name, members in by_value(found, "qid").items()}
    first = [{**row, "score": right[as_text(row["qid"])]} for row in found if as_text(row["varid"]) in {"1", "1.0"}]
    return [
        {"Setting": name} | means(members, groups=groups)
        for name, members in (("Average", found), ("Worst Case", first))
        if members
    ]


def competitions(rows: Iterable[Row]) -> Table:
    """Return the percentage per source, per language and subject, per subject, and overall (OlympiadBench)."""
    found = need(rows, "source")
    kinds = ("maths_en_COMP", "maths_zh_CEE", "maths_zh_COMP", "physics_en_COMP", "physics_zh_CEE")
    sources = [(f"OE_{modality}_{kind}",) for modality in ("MM", "TO") for kind in kinds]
    parts = [*sources, *((a, b) for a in ("zh", "en") for b in ("maths", "physics"))]
    groups = {
        "_".join(words): [row for row in found if all(word in as_text(row["source"]) for word in words)]
        for words in (*parts, ("maths",), ("physics",))
    }
    return {name: 100 * mean(members) for name, members in {**groups, "AVG": found}.items() if members}


@reports("score_rate", points=True, primary="score_rate")
def points(rows: Iterable[Row]) -> Table:
    """Return the points of final answers (coarse), of the judge's marking (fine), and the larger of both (HiPhO)."""
    found = need(rows)
    most = sum(as_score(row["points_all"]) for row in found)
    got = sum(as_score(row["score"]) * as_score(row["points_all"]) for row in found)
    rate = 100 * got / most if most else 0.0
    return {
        "fine_grained_total_score": 0.0,
        "fine_grained_score_rate": 0.0,
        "coarse_grained_total_score": got,
        "coarse_grained_score_rate": rate,
        "max_possible_score": most,
        "total_score": got,
        "score_rate": rate,
    }


def mathvista(rows: Iterable[Row]) -> Lines:
    """Return MathVista's table: tot, prefetch, hit, prefetch_rate and acc, overall, per task and per skill."""
    found = need(rows, "task")
    groups = [[as_text(row["task"]), *text_list(row.get("skills"))] for row in found]
    return _math_table("Task&Skill", found, groups)


def mathvision(rows: Iterable[Row]) -> Lines:
    """Return MathVision's table: tot, prefetch, hit, prefetch_rate and acc, overall and per subject (`category`)."""
    found = need(rows, "category")
    return _math_table("Subject", found, [[as_text(row["category"])] for row in found])


def _math_table(title: str, rows: Rows, groups: Sequence[Sequence[str]]) -> Lines:
    """Count all rows, rows read by rule and right rows: overall, then in every group of a row, sorted."""
    counts: dict[str, list[int]] = {}
    for row, names in zip(rows, groups, strict=True):
        facts = (1, as_text(row.get("log")) == PREFETCHED, bool(as_score(row["score"])))
        for name in ("Overall", *names):
            line = counts.setdefault(name, [0, 0, 0])
            line[:] = map(sum, zip(line, facts, strict=True))
    table: Lines = []
    for name in sorted(counts, key=lambda name: (name != "Overall", name)):
        total, prefetched, hits = counts[name]
        rates = {"prefetch_rate": 100 * prefetched / total, "acc": 100 * hits / total}
        table.append({title: name, "tot": total, "prefetch": prefetched, "hit": hits, **rates})
    return table


_STEPS = {"One-step(S1)": "one", "Two-step(S2)": "2steps_multi", "Three-step(S3)": "3steps_multi"}


def _wemath_scores(table: Mapping[str, str]) -> dict[str, float]:
    names = {"score_strict": "Score (Strict)", "score_loose": "Score (Loose)"}
    return {name: float(table[title].rstrip("%")) / 100 for name, title in names.items() if title in table}


@reports(numbers=_wemath_scores)
def wemath(rows: Iterable[Row]) -> dict[str, str]:
    """Return WeMath's table: scores and kinds of problems, strict and loose, steps, and concepts by field.

    Rates are over the problems present (VLMEvalKit always divides by 525, the size of the published set). A problem has
    no kind while one of its steps lacks a verdict.
    """
    found = need(rows, "key", "ID")
    problems = [one for one in map(_problem, by_value(found, "ID").values()) if one]
    if not problems:
        raise ValueError("there is no problem with all of its steps")
    table: dict[str, str] = {}
    for mode, mastered in (("Strict", all), ("Loose", any)):
        lost = [steps for steps, whole in problems if not whole]
        solved = [steps for steps, whole in problems if whole]
        counts = {
            "InsufficientKnowledge": sum(not all(steps) for steps in lost),
            "InadequateGeneralization": sum(map(all, lost)),
            "CompleteMastery": sum(map(mastered, solved)),
            "RoteMemorization": sum(not mastered(steps) for steps in solved),
        }
        missed = 0.5 * counts["InadequateGeneralization"] + counts["RoteMemorization"] + counts["InsufficientKnowledge"]
        rates = {name: count / len(problems) for name, count in counts.items()}
        rates["RoteMemorization"] = counts["RoteMemorization"] / len(solved) if solved else 0.0
        table[f"Score ({mode})"] = f"{1 - missed / len(problems):.2%}"
        table |= {f"{name} ({mode})": f"{rate:.2%} ({counts[name]})" for name, rate in rates.items()}
    steps = grouped(found, lambda row: key if (key := as_text(row["key"])).endswith("multi") else "one")
    hits = {key: [as_score(row["score"]) for row in members] for key, members in steps.items()}
    table |= {name: f"{fmean(hits[key]):.2%}" for name, key in _STEPS.items() if key in hits}
    singles = [row for row in found if not as_text(row["key"]).endswith("multi")]
    known = grouped(singles, lambda row: as_text(row.get("knowledge concept")))
    for field, names in _concepts().items():
        each = [fmean(as_score(row["score"]) for row in known[name]) for name in names if name in known]
        table |= {field: f"{fmean(each):.2%}"} if each else {}
    return table


def _problem(rows: Sequence[Row]) -> tuple[Sequence[bool], bool] | None:
    """Return whether each step and the whole problem are right; None if one of them is missing."""
    hits = {as_text(row["key"]): bool(as_score(row["score"])) for row in rows}
    size = 2 if any(key.startswith("2steps") for key in hits) else 3
    keys = [f"{size}steps_{step}" for step in (*range(1, size + 1), "multi")]
    if any(key not in hits for key in keys):
        return None
    *steps, whole = (hits[key] for key in keys)
    return steps, whole


@cache
def _concepts() -> Mapping[str, Sequence[str]]:
    return tomllib.loads(files(__package__).joinpath("wemath.toml").read_text(encoding="utf-8"))
