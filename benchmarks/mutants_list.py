"""The mutations of `mutants.py`: a file, a line of it, its replacement, and the relevant tests."""

from __future__ import annotations

from dataclasses import dataclass

CORE = "tests/results/test_results.py tests/test_plan.py tests/cli/test_eval.py tests/end_to_end/test_many_jobs.py"
TASKS = "tests/tasks"
VLM = "tests/scorers tests/metrics tests/tasks/test_question_answering.py"
CONFIGS = "tests/compat/test_evalscope_task_config.py tests/end_to_end tests/tasks/test_text_retrieval.py"


@dataclass(frozen=True)
class Mutant:
    """One small fault."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = [
    # ------------------------------------------------------------------------------------------------- run and plan
    Mutant("run: never skips", "run.py", "        if skip_existing:\n", "        if False:\n", CORE),
    Mutant(
        "run: skips whatever is there",
        "run.py",
        "    if done is None:\n        return None\n    return JobReport(job, result=done,",
        "    if False:\n        return None\n    return JobReport(job, result=done,",
        CORE,
    ),
    Mutant(
        "run: forgets failed samples",
        "run.py",
        "for failure in (*manifest.failures, *prediction.failures)]",
        "for failure in manifest.failures]",
        "tests/cli/test_eval.py tests/results tests/inference tests/tasks",
    ),
    Mutant(
        "run: forgets the notices of the model",
        "run.py",
        "(*job.notes, *manifest.notices, *model.notices(), *outcome.notices)",
        "(*manifest.notices, *outcome.notices)",
        "tests/cli tests/inference tests/models/test_runs.py tests/tasks",
    ),
    Mutant(
        "done: any identity will do", "results/job_results.py", "if then.get(part) != now[part]:", "if False:", CORE
    ),
    Mutant("done: unknown is the same", "results/job_results.py", "if now.get(part) is None:", "if False:", CORE),
    Mutant(
        "done: writes over another's result",
        "results/job_results.py",
        "    if others:",
        "    if False:",
        CORE,
    ),
    Mutant(
        "plan: the first language for all",
        "plan.py",
        "read_by(resolve(name, language), task)",
        "read_by(resolve(name, config.language[0]), task)",
        "tests/test_plan.py tests/datasets/test_resolve.py tests/cli",
    ),
    Mutant(
        "plan: the first dataset's options for all",
        "plan.py",
        "options[name] = values[dataset if len(values) > 1 else 0]",
        "options[name] = values[0]",
        "tests/test_plan.py tests/tasks/test_probe.py tests/cli",
    ),
    Mutant(
        "build: the catalogue's metric is not primary",
        "results/job_results.py",
        "primary=name == quoted)",
        "primary=metric.primary)",
        "tests/tasks/test_metric_values.py tests/results/test_results.py tests/report/test_build.py",
    ),
    Mutant(
        "session: the data are not part of the identity",
        "session.py",
        "digest_json([*data, *files])",
        "digest_json([len(data), *files])",
        "tests/cli/test_eval.py tests/tasks/test_question_answering.py tests/tasks/test_text_retrieval.py",
    ),
    Mutant(
        "session: data that changed while they were read are known",
        "session.py",
        "None if any(changed) else now",
        "now",
        "tests/inference/test_read_once.py",
    ),
    # -------------------------------------------------------------------------------------------------------- store
    Mutant(
        "store: a merged part comes last",
        "store/vector_store.py",
        'return f"{0:020d}-{10**19 - time.time_ns():019d}-{secrets.token_hex(4)}.safetensors"',
        "return new_name()",
        "tests/store/test_compact.py",
    ),
    Mutant(
        "store: what was merged while it was listed is lost",
        "store/vector_store.py",
        "                    complete = False  #",
        "                    pass  #",
        "tests/store/test_compact.py",
    ),
    # -------------------------------------------------------------------------------------------------------- tasks
    Mutant(
        "tasks: recall at k is one too generous",
        "tasks/caption_search.py",
        "(way.ranks.ranks <= k)",
        "(way.ranks.ranks <= k + 1)",
        "tests/tasks/test_zeroshot.py tests/tasks/test_repeated_captions.py",
    ),
    Mutant(
        "tasks: acc5 is acc1",
        "tasks/label_metrics.py",
        "hits = ranking.ranks <= k\n",
        "hits = ranking.ranks <= 1\n",
        TASKS,
    ),
    Mutant(
        "tasks: worst group is the best",
        "tasks/label_metrics.py",
        "choose = max if whole.lower_is_better else min",
        "choose = max",
        "tests/tasks/test_groups.py",
    ),
    Mutant(
        "tasks: probes learn from the validation set only",
        "tasks/probe_data.py",
        "pool, val = whole.only(keep), whole.only(out)",
        "pool, val = whole.only(out), whole.only(out)",
        "tests/tasks/test_probe.py",
    ),
    Mutant(
        "tasks: features are never normalised",
        "tasks/probes.py",
        "        test = encode_images(context, normalize=settings.normalize)",
        "        test = encode_images(context, normalize=False)",
        "tests/tasks/test_probe.py",
    ),
    Mutant(
        "tasks: selection counts ties as right",
        "metrics/selection.py",
        "bool((worst_right > best_wrong).all())",
        "bool((worst_right >= best_wrong).all())",
        "tests/metrics/test_selection.py tests/tasks/test_selection.py",
    ),
    Mutant(
        "tasks: queries get the document's prompt",
        "tasks/text_retrieval.py",
        '(("query", asked)',
        '(("document", asked)',
        "tests/tasks/test_text_retrieval.py",
    ),
    Mutant(
        "tasks: empty captions are captions",
        "tasks/image_caption.py",
        "    if not is_visible(answer.text):",
        "    if answer.text is None:",
        "tests/tasks/test_image_caption.py",
    ),
    Mutant(
        "api: a refusal does not make requests fewer",
        "api/limiter.py",
        "self.now = max(1, serving)",
        "self.now = max(1, self.now)",
        "tests/api/test_limiter.py",
    ),
    Mutant(
        "api: an error with a status of success is an answer",
        "api/transport.py",
        "        if failed is None:",
        "        if True:",
        "tests/api/test_limiter.py tests/end_to_end/test_hostile_server.py",
    ),
    Mutant(
        "datasets: a query means its own image only",
        "datasets/annotation_files.py",
        "shared_texts=True",
        "shared_texts=False",
        "tests/datasets/test_image_queries.py",
    ),
    Mutant(
        "tasks: a dialogue repeats the last reply",
        "tasks/question_prompts.py",
        'Message("assistant", (answer.text,))',
        'Message("assistant", (said[-1].text,))',
        "tests/tasks/test_question_answering.py tests/compat/test_vlmevalkit_models.py",
    ),
    Mutant(
        "tasks: pass@k with replacement",
        "metrics/repeated_questions.py",
        "1 - comb(n - right, k) / comb(n, k)",
        "1 - (1 - right / n) ** k",
        "tests/metrics/test_several_answers.py",
    ),
    Mutant(
        "tasks: the interval of a text metric ends at 1",
        "tasks/base.py",
        "return Metric(value, low, high, **known)",
        "return Metric(value, low, 1.0, **known)",
        "tests/tasks/test_text_retrieval.py",
    ),
    # ------------------------------------------------------------------------------------------------------ scorers
    Mutant(
        "scorers: a judge's letter is always right",
        "scorers/rules/choices.py",
        '"judged": lambda _, row, verdict: _chosen(row, verdict, JUDGE),',
        '"judged": lambda _, row, verdict: RuleResult(verdict, 1.0, rule=JUDGE),',
        VLM,
    ),
    Mutant(
        "scorers: yes/no ignores the answer's case",
        "scorers/rules/yes_no.py",
        "    return float(answer == found)\n",
        "    return float(answer.lower() == found.lower())\n",
        VLM,
    ),
    Mutant(
        "scorers: chance of yes/no is a third",
        "scorers/rules/yes_no.py",
        'chance=lambda _bound, _rows: 0.5,\n    judge_form="yes_no"',
        'chance=lambda _bound, _rows: 1 / 3,\n    judge_form="yes_no"',
        VLM,
    ),
    Mutant(
        "scorers: POPE's recall is its precision",
        "scorers/aggregates/yes_no.py",
        "recall = hits / said if said else 0.0, hits / true if true else 0.0",
        "recall = hits / said if said else 0.0, hits / said if said else 0.0",
        VLM,
    ),
    Mutant(
        "scorers: MME forgets the pairs",
        "scorers/aggregates/yes_no.py",
        " + (100 * fmean(pairs) if pairs else 0.0)",
        "",
        VLM,
    ),
    Mutant(
        "scorers: a figure is right if one question is",
        "scorers/aggregates/means.py",
        'float(all(as_score(row["score"]) != 0 for row in rows))',
        'float(any(as_score(row["score"]) != 0 for row in rows))',
        VLM,
    ),
    Mutant(
        "scorers: open questions of MMMU are right if B",
        "scorers/rules/choices.py",
        '"B": OTHER_ANSWERS, "answer": "A"}',
        '"B": OTHER_ANSWERS, "answer": "B"}',
        VLM,
    ),
    Mutant(
        "scorers: a key that names two options is one of them",
        "metrics/choices.py",
        "found.add(letter)\n    return found.pop() if len(found) == 1 else None",
        "found.add(letter)\n    return found.pop() if found else None",
        "tests/scorers/test_choice_readers.py",
    ),
    Mutant(
        "scorers: the parts of a benchmark share their questions",
        "scorers/scorer.py",
        "units |= {owners[index]: value for",
        "units |= {index: value for",
        "tests/datasets/test_joined_benchmarks.py",
    ),
    Mutant(
        "scorers: SITE-Bench's guesses are not taken off",
        "scorers/aggregates/spatial.py",
        "guessed = sum(1 / (len(options or ()) or 4) for options in lists)",
        "guessed = 0.0",
        "tests/scorers/test_choice_scores.py",
    ),
    Mutant(
        "questions: a refused name is a table like any other",
        "datasets/questions/question_reader.py",
        "    refuse_unscored(name)\n    if name.startswith",
        "    if name.startswith",
        "tests/datasets/test_vlm_benchmark_names.py",
    ),
    Mutant(
        "questions: a part of a prompt stays where its cell is empty",
        "datasets/questions/prompt_templates.py",
        'match["part"] if whole else',
        'match["part"] if True else',
        "tests/datasets/test_question_prompts.py",
    ),
    Mutant(
        "scorers: a grade above one is a grade",
        "scorers/judging/judge_forms.py",
        "0 <= grade <= highest else None",
        "0 <= grade else None",
        VLM,
    ),
    Mutant(
        "scorers: a rambling judge says unknown",
        "scorers/judging/judge_forms.py",
        'return "Unknown" if reply.strip().strip(".").lower() == "unknown" else None',
        'return "Unknown"',
        VLM,
    ),
    Mutant(
        "scorers: an answer that nobody could read is right",
        "scorers/rule.py",
        "return RuleResult(None, float(right), dict",
        "return RuleResult(None, 1.0, dict",
        VLM,
    ),
    # ------------------------------------------------------------------------------------------------------- compat
    Mutant(
        "outputs: two models share a folder",
        "outputs.py",
        "self._owners.get(folder, own) == own",
        "True",
        CONFIGS,
    ),
    Mutant(
        "io: keys are written",
        "io/secrets.py",
        "        return HIDDEN\n    if",
        "        return value.reveal()\n    if",
        "tests/end_to_end/test_api_keys.py tests/compat/test_evalscope_task_config.py",
    ),
    Mutant(
        "compat: old names win in silence",
        "compat/evalscope/schema.py",
        "if name in values and values[name] != value:",
        "if False:",
        "tests/compat/test_evalscope_task_config.py",
    ),
    Mutant(
        "compat: a prompt is for documents",
        "compat/evalscope/models.py",
        'prompts.setdefault("query", entry.prompt)',
        'prompts.setdefault("document", entry.prompt)',
        "tests/tasks/test_text_retrieval.py",
    ),
    Mutant(
        "compat: the seed is lost", "compat/evalscope/translate.py", '            "seed": self.seed,\n', "", CONFIGS
    ),
    Mutant(
        "compat: captions are not promised",
        "compat/evalscope/translate.py",
        "for job in every if job.task == CAPTION}",
        "for job in () if job.task == CAPTION}",
        CONFIGS,
    ),
    Mutant(
        "compat: a comparison of all datasets",
        "compat/evalscope/translate.py",
        "if job.dataset.name == name),",
        "),",
        "tests/end_to_end/test_retrieval_comparison.py",
    ),
    Mutant(
        "report: the first route is the best",
        "report/retrieval_comparison.py",
        "[-hits(route, k).mean() for k in preferred]",
        "[0 for k in preferred]",
        "tests/end_to_end/test_retrieval_comparison.py",
    ),
    Mutant(
        "compat: a chat that fails says nothing",
        "compat/vlmevalkit/models.py",
        "        return CHAT_FAILED\n",
        '        return ""\n',
        "tests/compat/test_vlmevalkit_models.py",
    ),
    Mutant(
        "compat: predictions of another dataset are taken",
        "datasets/questions/prediction_files.py",
        "if index not in known or index in rows:",
        "if index in rows:",
        "tests/tasks/test_question_answering.py tests/datasets tests/compat",
    ),
]
