"""Write the list of VLMEvalKit's benchmarks, supported or not, into docs/vlm-benchmarks.md (`make vlm-benchmarks`)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from eyechart.datasets.questions.benchmarks import QuestionBenchmark, known_benchmarks, refused_benchmarks

PAGE = Path(__file__).parents[1] / "docs" / "vlm-benchmarks.md"
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
    made = "; its table is made by hand" if benchmark.by_hand else ""
    parts = f" of {len(benchmark.parts)} parts" if benchmark.parts else ""
    return f"scored: {benchmark.kind}{parts}{judge}{made}"


def page(text: str) -> str:
    """Return the page with that section updated."""
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{section()}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
