"""The built-in tasks by name."""

from eyechart.plugins import Registry
from eyechart.tasks.base import Task
from eyechart.types import Kind

TASKS = Registry(
    "tasks",
    "task",
    {
        "captioning": "eyechart.tasks.captioning:Captioning",
        "clustering": "eyechart.tasks.image_similarity:Clustering",
        "image_caption": "eyechart.tasks.image_caption:ImageCaption",
        "image_caption_selection": "eyechart.tasks.image_caption_selection:ImageCaptionSelection",
        "knn": "eyechart.tasks.probes:Knn",
        "linear_probe": "eyechart.tasks.probes:LinearProbe",
        "logistic_probe": "eyechart.tasks.probes:LogisticProbe",
        "mteb": "eyechart.tasks.mteb:Mteb",
        "questions": "eyechart.tasks.question_answering:QuestionAnswering",
        "text_retrieval": "eyechart.tasks.text_retrieval:TextRetrieval",
        "visual_sts": "eyechart.tasks.image_similarity:VisualSts",
        "zeroshot_classification": "eyechart.tasks.zeroshot_classification:ZeroshotClassification",
        "zeroshot_retrieval": "eyechart.tasks.zeroshot_retrieval:ZeroshotRetrieval",
    },
)
ALIASES = {"mscoco_generative": "captioning"}
"""Names that other tools use for a task; a result keeps the name the user wrote."""
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
"""The task that ``--task auto`` selects."""


def load_task(name: str) -> Task:
    """Return a task by name, by another tool's name for it, or by ``python:module:Class``."""
    task: Task = TASKS.load(ALIASES.get(name, name))()
    return task
