"""``eyechart.evaluate``: models on benchmarks, by name or as objects of Python."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Never

from eyechart.calls.handover import Handover
from eyechart.calls.results_list import Results
from eyechart.calls.settings import ARGUMENTS, collect
from eyechart.config import QuestionSettings, make_config
from eyechart.datasets.objects.lists import texts_of
from eyechart.datasets.objects.reader import DataParts
from eyechart.io.progress import Progress
from eyechart.io.progress.notebook import progress_of
from eyechart.models.objects.modes import evaluation_mode
from eyechart.models.objects.parts import ModelParts
from eyechart.plan import plan_jobs
from eyechart.results.unsaved import unsaved_folder
from eyechart.run import results_of, run_jobs
from eyechart.session import Session


def evaluate(  # noqa: D417 - the others are those of the command line, where `eval --help-all` tells them
    model: Any = None,
    dataset: Any = None,
    *,
    preprocess: Any = None,
    tokenizer: Any = None,
    processor: Any = None,
    image_column: str | None = None,
    label_column: str | None = None,
    caption_column: str | Sequence[str] | None = None,
    classnames: str | Sequence[str] | None = None,
    templates: str | Sequence[str] | None = None,
    progress: bool | Progress | None = None,
    task: str | Sequence[str] | None = None,
    language: str | Sequence[str] | None = None,
    split: str | None = None,
    output: str | Path | None = None,
    pretrained: str | Sequence[str] | None = None,
    model_type: str | None = None,
    batch_size: int | None = None,
    device: str | None = None,
    precision: Literal["auto", "fp32", "fp16", "bf16", "amp", "half"] | None = None,
    limit: int | None = None,
    like: Literal["eyechart", "clip_benchmark", "internvl"] | None = None,
    dataset_root: str | Path | None = None,
    pretrained_model: str | Sequence[str] | None = None,
    model_options: Mapping[str, Any] | None = None,
    revision: str | None = None,
    hub: Literal["huggingface", "modelscope"] | None = None,
    trust_remote_code: bool | None = None,
    compile: bool | str | None = None,  # noqa: A002 - as the setting is called
    append: bool | None = None,
    recall_k: int | Sequence[int] | None = None,
    metrics: Literal["default", "full"] | None = None,
    group_by: str | Sequence[str] | None = None,
    num_workers: int | None = None,
    store_precision: Literal["fp32", "fp16"] | None = None,
    decode_processes: int | None = None,
    on_error: Literal["fail", "skip"] | None = None,
    min_success: float | None = None,
    seed: int | None = None,
    skip_existing: bool | None = None,
    custom_classname_file: str | Path | None = None,
    custom_template_file: str | Path | None = None,
    allow_blank_classnames: bool | None = None,
    dump_classnames: bool | None = None,
    dump_templates: bool | None = None,
    thumbnails: int | None = None,
    save_clf: str | Path | None = None,
    load_clfs: str | Path | Sequence[str | Path] | None = None,
    model_cache_dir: str | Path | None = None,
    wds_cache_dir: str | Path | None = None,
    offline: bool | None = None,
    dataset_hub: Literal["huggingface", "modelscope"] | None = None,
    catalogue: str | Path | Sequence[str | Path] | None = None,
    caption_cleaning: str | Mapping[str, str] | None = None,
    annotation_file: str | Path | None = None,
    encoding: str | None = None,
    id_column: str | None = None,
    split_column: str | None = None,
    delimiter: str | None = None,
    task_options: Mapping[str, Any] | None = None,
    questions: QuestionSettings | Mapping[str, Any] | None = None,
    reranker: str | None = None,
    # Settings of single tasks.
    train_split: str | Sequence[str] | None = None,
    val_split: str | Sequence[str] | None = None,
    val_proportion: float | Sequence[float] | None = None,
    folds: int | None = None,
    fewshot_k: int | None = None,
    fewshot_epochs: int | None = None,
    fewshot_lr: float | None = None,
    fewshot_curve: int | Sequence[int] | None = None,
    fewshot_repeats: int | None = None,
    fewshot_draw: Literal["eyechart", "clip_benchmark"] | None = None,
    knn_k: int | None = None,
    normalize: bool | None = None,
    caption_prompt: str | None = None,
    prompt_role: Literal["user", "system"] | None = None,
    prompt_sensitivity: Literal["auto", "yes", "no"] | None = None,
    merge_duplicate_classes: bool | None = None,
    empty_classes: Literal["leave_out", "zero"] | None = None,
    # Settings of generative benchmarks.
    mode: Literal["all", "infer", "eval"] | None = None,
    api_base: str | None = None,
    api_key_variable: str | None = None,
    concurrency: int | None = None,
    timeout: float | None = None,
    tries: int | None = None,
    prices: str | Path | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    system_prompt: str | None = None,
    extractor: Literal["vlmeval", "strict"] | None = None,
    metric: str | None = None,
    repeats: int | None = None,
    blind: Literal["", "no_images", "swapped"] | None = None,
    judge: str | Sequence[str] | None = None,
    judge_type: str | Sequence[str] | None = None,
    judge_api_base: str | Sequence[str] | None = None,
    judge_key_variable: str | None = None,
    judge_prompts: str | Path | None = None,
    judge_repeats: int | None = None,
    judge_temperature: float | None = None,
    human_verdicts: str | Path | None = None,
    judge_fallback: Literal["", "exact_matching"] | None = None,
    xlsx: bool | None = None,
    **unknown: Never,
) -> Results:
    """Evaluate models on benchmarks.

    Everything that the command line can set is an argument here, under the same name; None leaves it to the default.
    Where a list is meant, a single value will do. Results of objects are returned and kept in a folder that is gone
    with the process, unless ``output`` names a place; results of named models are written as on the command line.

    Args:
        model: A name (``"ViT-B-32:openai"``), a tuple ``(model, preprocess, tokenizer)`` in any order, a torch module
            with ``encode_image`` and ``encode_text``, a model of transformers, alone or as ``(model, processor)``, a
            model of sentence-transformers, any object with ``encode_images(list of PIL images)`` or
            ``encode_texts(list of str)``; a list of these, or a dict with a name for each. An object is used where it
            is and as it is, in evaluation mode, and encoded anew at every call.
        dataset: A name, a path, a ``Dataset`` of Hugging Face or torch, ``{"images": [...], "labels": [...],
            "classnames": [...]}``, ``{"images": [...], "captions": [[...], ...]}``, or ``{"train": ..., "test": ...}``
            with one of these for each split; or a list of these.
        preprocess: How the images of a module are prepared, if the module does not have it as ``preprocess``.
        tokenizer: How its texts become tokens, if the module does not have it as ``tokenizer``.
        processor: Both in one, as transformers has it.
        image_column: Column of images in a dataset that is an object, or of their paths in a table; by default the
            only one, or the one with a known name.
        label_column: Column of labels; it makes the dataset one of classification.
        caption_column: Column of captions, or several; it makes the dataset one of retrieval.
        classnames: Names of the classes of a dataset that is an object and does not know them.
        templates: Prompts for it, with ``{c}`` for the class; by default ``a photo of a {c}.``
        progress: Whether bars are shown: by default in a notebook and on a terminal. Or an object to report to.
        task: What to do; by default what fits the data. See ``eyechart list tasks``.
        language: Languages of prompts and captions.
        split: Which part of the data is scored.
        output: Where results go: a file, or a template with ``{dataset}``, ``{model}``, ``{language}``, ``{task}``.
        pretrained: Weights of a named model: a tag, a checkpoint, a folder or a hub id.
        model_type: Family of a named model; by default found out.
        batch_size: Images or texts per forward pass.
        device: Where a named model runs; ``auto`` is a GPU if there is one.
        precision: Of a named model; ``auto`` is fp32.
        limit: Only so many samples.
        **unknown: Nothing: what is not named above is refused, with the nearest name.

    Returns:
        The results, one for each model, dataset, language and task: a list that shows itself as a table.

    Raises:
        EyechartError: The first error, after all other jobs have been done and saved.

    Example:
        ```python
        import eyechart

        images = {"images": ["cat.jpg", "dog.jpg"], "labels": [0, 1], "classnames": ["cat", "dog"]}
        results = eyechart.evaluate("eyechart-tiny", images)
        results[0].metrics["acc1"]
        ```
    """
    given = dict(locals())
    with ARGUMENTS.spoken():
        handover = Handover()
        handover.reserve(model, dataset)
        handover.take_models(model, ModelParts(None, preprocess, tokenizer, processor))
        handover.take_datasets(
            dataset, DataParts(None, texts_of("classnames", classnames), texts_of("templates", templates))
        )
        settings = collect(given, unknown)
        settings |= {"model": handover.models} if handover.models else {}
        settings |= {"dataset": handover.datasets} if handover.datasets else {}
        if handover.given and output is None:
            # What was measured of an object is the caller's: nothing is left behind that he did not ask for.
            settings["output"] = str(unsaved_folder() / "{dataset}_{model}_{language}_{task}.json")
        config = make_config(settings)
        session = Session(progress_of(progress))
        with evaluation_mode(one.thing for one in handover.given.values()):
            jobs = plan_jobs(config, warnings.warn, session.datasets, handover.given)
            return Results(results_of(list(run_jobs(jobs, session, skip_existing=config.skip_existing))))
