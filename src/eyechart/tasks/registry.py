"""The tasks that are known by name: everything that makes a number."""

from __future__ import annotations

from eyechart.plugins import Registry
from eyechart.tasks.base import Task
from eyechart.types import Kind

TASKS = Registry(
    "tasks",
    "task",
    {
        "captioning": "eyechart.tasks.captions.captioning:Captioning",
        "clustering": "eyechart.tasks.clustering:Clustering",
        "image_caption": "eyechart.tasks.captions.image_caption:ImageCaption",
        "image_caption_selection": "eyechart.tasks.image_caption_selection:ImageCaptionSelection",
        "knn": "eyechart.tasks.probes.knn:Knn",
        "linear_probe": "eyechart.tasks.probes.linear_probe:LinearProbe",
        "logistic_probe": "eyechart.tasks.probes.logistic_probe:LogisticProbe",
        "mteb": "eyechart.tasks.mteb:Mteb",
        "questions": "eyechart.tasks.questions:QuestionAnswering",
        "text_retrieval": "eyechart.tasks.retrieval.text_retrieval:TextRetrieval",
        "visual_sts": "eyechart.tasks.visual_sts:VisualSts",
        "zeroshot_classification": "eyechart.tasks.zeroshot_classification:ZeroshotClassification",
        "zeroshot_retrieval": "eyechart.tasks.retrieval.zeroshot_retrieval:ZeroshotRetrieval",
    },
)
ALIASES = {"mscoco_generative": "captioning"}
"""What other tools call a task; a result keeps the name that the user wrote."""
TASK_OF_KIND: dict[Kind, str] = {
    "classification": "zeroshot_classification",
    "multilabel": "zeroshot_classification",
    "retrieval": "zeroshot_retrieval",
    "selection": "image_caption_selection",
    "collection": "zeroshot_retrieval",
    "similarity": "visual_sts",
    "questions": "questions",
    "texts": "text_retrieval",
    "external": "mteb",
}
"""What ``--task auto`` chooses."""


def load_task(name: str) -> Task:
    """Return a task by name, also by another tool's name for it, or by ``python:module:Class``."""
    task: Task = TASKS.load(ALIASES.get(name, name))()
    return task
