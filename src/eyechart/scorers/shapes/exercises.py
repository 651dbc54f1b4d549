"""Tables of exercises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eyechart.metrics.cells import Row, as_score, as_text, text_list
from eyechart.scorers.tables import Rows, Table, all_right, by_column, grouped, mean, need

_SCIENCES = {
    "02": "Arts", "03": "Soc. Sci.", "04": "Bus.", "05": "Nat. Sci.", "06": "ICTs", "07": "Eng.", "08": "Agri.",
    "09": "Health",
}  # fmt: skip


def with_reasoning(rows: Iterable[Row]) -> Table:
    """Return the means with and without chain of thought, and with it per language and science (BMMR)."""
    found = need(rows, "cot", "language", "category_id")
    reasoned = [row for row in found if _true(row["cot"])]
    plain = [row for row in found if not _true(row["cot"])]
    table = {"CoT": mean(reasoned)} | ({"no_CoT": mean(plain)} if plain else {})
    for language, members in by_column(reasoned, "language"):
        table[language.capitalize()] = mean(members)
    sciences: dict[str, list[Row]] = {}
    for row in reasoned:
        for name in text_list(row["category_id"]):
            sciences.setdefault(name[:2], []).append(row)
    return table | {_SCIENCES[name]: mean(sciences[name]) for name in sorted(sciences) if name in _SCIENCES}


def _true(value: object) -> bool:
    return as_text(value).lower() in {"true", "1", "1.0"}


def worst_case(rows: Iterable[Row], *, by: Mapping[str, str], key: str = "qid", variant: str = "varid") -> Table:
    """Return the means of all answers, and those of questions of which every variant is right (DynaMath)."""
    found = need(rows, key, variant)
    right = {name: all_right(members) or 0.0 for name, members in grouped(found, lambda r: as_text(r[key])).items()}
    first = [{**row, "score": right[as_text(row[key])]} for row in found if as_text(row[variant]) in {"1", "1.0"}]
    return [
        {"Setting": name} | _means(members, by)
        for name, members in (("Average", found), ("Worst Case", first))
        if members
    ]


_SOURCES = tuple(
    f"OE_{modality}_{part}"
    for modality in ("MM", "TO")
    for part in ("maths_en_COMP", "maths_zh_CEE", "maths_zh_COMP", "physics_en_COMP", "physics_zh_CEE")
)


def competitions(rows: Iterable[Row]) -> Table:
    """Return the percentage per source, per language and subject, per subject, and of all (OlympiadBench)."""
    found = need(rows, "source")
    parts = [*((name,) for name in _SOURCES), *((a, b) for a in ("zh", "en") for b in ("maths", "physics"))]
    table = {}
    for words in (*parts, ("maths",), ("physics",)):
        members = [row for row in found if all(word in as_text(row["source"]) for word in words)]
        if members:
            table["_".join(words)] = 100 * mean(members)
    return table | {"AVG": 100 * mean(found)}


def points(rows: Iterable[Row]) -> Table:
    """Return the points of final answers (coarse), of a judge's marking (fine), and the larger of both (HiPhO)."""
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


def _means(rows: Rows, by: Mapping[str, str]) -> dict[str, float]:
    groups = ((form.format(name), members) for column, form in by.items() for name, members in by_column(rows, column))
    return {"Overall": mean(rows)} | {name: mean(members) for name, members in groups}
