"""Write the list of VLMEvalKit's benchmarks into docs/vlm-benchmarks.md (`make vlm-benchmarks`).

Also writes how scores deviate from VLMEvalKit's into docs/deviations.md.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from eyechart.datasets.questions.benchmarks import QuestionBenchmark, known_benchmarks, refused_benchmarks

DOCS = Path(__file__).parents[1] / "docs"
PAGE, DEVIATIONS = DOCS / "vlm-benchmarks.md", DOCS / "deviations.md"
START, END = "<!-- written by scripts/vlm_benchmarks.py -->", "<!-- end -->"


def section() -> str:
    """Return the generated section of the page."""
    known, refused = known_benchmarks(), refused_benchmarks()
    lines = [f"| {name} | {_how(known[name])} |" for name in known] + [
        f"| {n} | refused: {why} |" for n, why in refused.items()
    ]
    asked = Counter(benchmark.judge for benchmark in known.values())
    count = (
        f"{len(known)} names are scored ({asked['no']} without a judge, {asked['optional']} with one where no rule can "
        f"read an answer, {asked['required']} only with one), {len(refused)} are refused."
    )
    table = "\n".join(sorted(lines, key=str.lower))
    return f"{START}\n{count}\n\n| name | how |\n|---|---|\n{table}\n{END}"


def _how(benchmark: QuestionBenchmark) -> str:
    if not benchmark.answers:
        return "asked; its owner scores predictions (`--mode infer`)"
    judge = {"no": "", "optional": "", "required": ", with a judge"}[benchmark.judge]
    judge += "; published numbers use a judge" if benchmark.published and not benchmark.needs_judge else ""
    made = "; its table is made by hand" if benchmark.by_hand else ""
    parts = f" of {len(benchmark.parts)} parts" if benchmark.parts else ""
    return f"scored: {benchmark.kind}{parts}{judge}{made}"


def deviations() -> str:
    """Return the generated section on deviations: those of single benchmarks, reproduced quirks, and judged numbers."""
    known = [benchmark for benchmark in known_benchmarks().values() if not benchmark.parts]
    parts = {
        "Scored differently": ("deviation", "what differs, and why"),
        "Reproduced oddities": ("quirk", "what is reproduced"),
    }
    lines = [START]
    for title, (key, head) in parts.items():
        texts: dict[str, list[str]] = {}
        for benchmark in known:
            if getattr(benchmark, key):
                texts.setdefault(getattr(benchmark, key), []).append(benchmark.name)
        rows = sorted(f"| {_listed(names)} | {text.strip()} |" for text, names in texts.items())
        lines += [f"## {title}", "", f"| benchmarks | {head} |", "|---|---|", *rows, ""]
    judged = sorted((benchmark.name for benchmark in known if benchmark.published), key=str.lower)
    said = "Without a judge, rules score these, and the result notes that it is not comparable with published numbers:"
    lines += ["## Published with a judge", "", f"{said} {', '.join(judged)}.", END]
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 6 else [*names[:3], f"and {len(names) - 3} more of the family"])


def page(text: str, section: str) -> str:
    """Return a page with its generated section updated."""
    before, _, rest = text.partition(START)
    return f"{before}{section}{rest.partition(END)[2]}"


def pages() -> dict[Path, str]:
    """Return the up-to-date text of each page."""
    made = {PAGE: section(), DEVIATIONS: deviations()}
    return {path: page(path.read_text(encoding="utf-8"), part) for path, part in made.items()}


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
