"""Benchmark numbers from rows of dicts: the names other code uses.

A row holds the columns of a benchmark's TSV file and a `prediction`, or what was read from it. Every
function names the scale it returns, checks the columns it needs, and takes plain dicts: no table library is
involved.
"""

from eyechart.metrics.choice_ratings import (
    close_open,
    compare_extractors,
    group_hit,
    hrbench,
    mcq,
    mmbench,
    mmmu,
    mmt,
    mmvp,
    read_choice,
    report_acc,
)
from eyechart.metrics.judged_ratings import (
    llavabench,
    llavabench_pair,
    mathvision,
    mathvision_hit,
    mathvision_read,
    mathvista,
    mathvista_hit,
    mathvista_read,
    mmdu,
    mmvet,
)
from eyechart.metrics.math_answers import math_equal
from eyechart.metrics.open_ratings import (
    mtvqa,
    mtvqa_hit,
    naturalbench,
    naturalbench_answer,
    ocrbench,
    ocrbench_hit,
    vqa,
)
from eyechart.metrics.vcr import vcr, vcr_answers
from eyechart.metrics.yes_no_ratings import amber, hallusion, judge_yes_no, mme, pope, vsr, yes_no

__all__ = [
    "amber",
    "close_open",
    "compare_extractors",
    "group_hit",
    "hallusion",
    "hrbench",
    "judge_yes_no",
    "llavabench",
    "llavabench_pair",
    "math_equal",
    "mathvision",
    "mathvision_hit",
    "mathvision_read",
    "mathvista",
    "mathvista_hit",
    "mathvista_read",
    "mcq",
    "mmbench",
    "mmdu",
    "mme",
    "mmmu",
    "mmt",
    "mmvet",
    "mmvp",
    "mtvqa",
    "mtvqa_hit",
    "naturalbench",
    "naturalbench_answer",
    "ocrbench",
    "ocrbench_hit",
    "pope",
    "read_choice",
    "report_acc",
    "vcr",
    "vcr_answers",
    "vqa",
    "vsr",
    "yes_no",
]
