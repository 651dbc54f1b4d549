"""The changes that `trust.py` makes: one input each."""

from __future__ import annotations

import shutil
from functools import partial

import numpy as np
from trust_edits import (
    ASK,
    CHOOSE,
    CLASSIFY,
    COLLECTION,
    IMAGE,
    LISTED,
    MULTI,
    NEW,
    OWN,
    OWN_TASK,
    PROBE,
    QUERIES,
    RETRIEVE,
    TABLE,
    TEXTS,
    TINY,
    WDS,
    Change,
    Fault,
    as_before,
    edited_metric,
    external,
    flipped,
    guarded,
    in_cache,
    in_results,
    in_tar,
    json_value,
    member,
    npy,
    other_card,
    part,
    rename_class,
    reorder,
    replace,
    roll_bytes,
    same_size_image,
    swap,
    swap_tokens,
    weights,
    write,
)


def ignored(part: str) -> Fault:
    """Let --skip-existing ignore an input."""
    return Fault(
        "results/job_results.py",
        "if then.get(part) != now[part]:",
        f'if part != "{part}" and then.get(part) != now[part]:',
    )


MODEL = Fault(
    "models/family.py", "return content_identity(self.places(spec), *self.read_by, *self.needs)", 'return "same"'
)
STATUS_TIME = Fault("io/digests.py", "found.st_ctime_ns", "found.st_mtime_ns")
SAMPLES = Fault("io/digests.py", "return int.from_bytes(state.digest()[:8])", "return 0")
FILE_STATE = Fault("io/digests.py", "if known is not None and known[0] == state", "if known is not None")
SHARD_STATE = Fault("datasets/tar_shards.py", ' or body["state"] != file_state(path)', "")
CODE = Fault("io/digests.py", ".encode() + digest)", ".encode())")
PROBES = Fault(
    "models/objects/fingerprint.py", "state.update(np.ascontiguousarray(vectors, np.float32).tobytes())", "pass"
)
TASK_CODE = Fault("session.py", "else [declared, code_digest(type(task))]", "else []")
CHECKSUM = Fault("store/vector_store.py", "if sums.get(one) != checksum(tensor, *_bound(one, sums)):", "if False:")
SET_ASIDE = Fault("store/vector_store.py", "except DamagedPartError as error:", "except ZeroDivisionError as error:")
CARD = Fault("models/lazy_model.py", ' or body.get("digest") != digest_json([FORM, path.stem, body.get("card")])', "")
CARD_PARSER = Fault("models/lazy_model.py", "except (OSError, ValueError, RecursionError):", "except OSError:")
OWNER = Fault("results/job_results.py", "if others:", "if False:")
RECORDS = Fault("run.py", "            check_records(done)\n", "            pass\n")
RECORDS_SIZE = Fault("results/job_results.py", ' or records.stat().st_size != result.record_info.get("bytes")', "")

DEFENCES = {
    "weights: ": (MODEL,),
    "weights: same size and time": (STATUS_TIME, SAMPLES),
    "weights: text tower, same time": (STATUS_TIME, SAMPLES),
    "tokenizer: ": (MODEL,),
    "tokenizer: same size and time": (STATUS_TIME, SAMPLES),
    "config: ": (MODEL,),
    "code: ": (CODE, PROBES),
    "code: a task": (TASK_CODE,),
    "code: a generative model": (CODE,),
    "image: ": (FILE_STATE,),
    "image: same size and time": (STATUS_TIME,),
    "image: added": (ignored("data"),),
    "image: removed": (ignored("data"),),
    "image: moved to another class": (ignored("data"),),
    "image: replaced in a tar": (SHARD_STATE,),
    "caption: ": (ignored("data"),),
    "caption: cleaned": (Fault("results/job_results.py", "if then.get(part) != now[part]:", "if False:"),),
    "label: ": (ignored("data"),),
    "candidate: ": (ignored("data"),),
    "class name: ": (ignored("data"),),
    "template: ": (ignored("data"),),
    "tar: ": (ignored("data"),),
    "tar: a shard is missing": (
        Fault(
            "datasets/webdataset.py",
            'return {(name := f"{split}/{i}.tar"): self.files.size(name) for i in range(count)}',
            'names = [f"{split}/{i}.tar" for i in range(count)]\n'
            "        return {name: size for name in names if (size := self.files.size(name)) is not None}",
        ),
    ),
    "relevance: ": (ignored("data"),),
    "document: ": (ignored("data"),),
    "query: ": (ignored("data"),),
    "query: of a collection removed": (
        Fault(
            "datasets/text_collection.py",
            "if query not in known:\n            problems.add",
            "if query not in known:\n            relevance.get",
        ),
    ),
    "question: ": (ignored("data"),),
    "option: ": (ignored("settings"),),
    "option: split": (OWNER,),
    "store: ": (CHECKSUM,),
    "store: a part is": (SET_ASIDE,),
    "card: ": (CARD,),
    "card: damaged": (CARD_PARSER,),
    "card: empty": (CARD_PARSER,),
    "card: not text": (CARD_PARSER,),
    "digests: damaged": (Fault("io/digests.py", "except (OSError, *DAMAGED):", "except OSError:"),),
    "digests: of another form": (Fault("io/digests.py", 'if body["form"] == _FORM and', "if"),),
    "answers: ": (
        Fault("store/answer_store.py", "except (ValueError, TypeError, AttributeError, KeyError):", "except OSError:"),
    ),
    "result: half-written": (Fault("results/job_results.py", "return None, error.message", "raise"),),
    "result: metrics changed": (Fault("results/job_results.py", "if result.altered:", "if False:"),),
    "result: of another job": (OWNER,),
    "records: ": (RECORDS_SIZE, RECORDS),
    "answers: a letter": (
        Fault(
            "store/answer_store.py",
            'fields.pop("sum") != self._checksum(line.rpartition(_CHECKSUM)[0])',
            'not fields.pop("sum")',
        ),
    ),
}

FEW = [*PROBE, "--fewshot_k", "2", "--seed", "1"]
CLUSTER = [*CLASSIFY, "--task", "clustering", "--seed", "1"]

_CHANGES = [
    # ------------------------------------------------------------------------------------------------------ weights
    Change("weights: image tower", CLASSIFY, partial(weights, "model/image.onnx")),
    Change("weights: text tower", CLASSIFY, partial(weights, "model/text.onnx")),
    Change(
        "weights: same size and time",
        CLASSIFY,
        partial(as_before, partial(weights, "model/image.onnx"), "model/image.onnx"),
    ),
    Change(
        "weights: text tower, same time",
        CLASSIFY,
        partial(as_before, partial(weights, "model/text.onnx"), "model/text.onnx"),
    ),
    Change(
        "weights: replaced by a renamed file",
        CLASSIFY,
        lambda w: (
            weights("model/image.onnx", w),
            shutil.copy(w / "model/image.onnx", w / "x"),
            (w / "x").replace(w / "model/image.onnx"),
        ),
    ),
    Change("weights: in external data", CLASSIFY, partial(roll_bytes, "model/weights.bin"), prepare=external),
    Change("weights: moved to external data", CLASSIFY, lambda w: (external(w), roll_bytes("model/weights.bin", w))),
    Change(
        "weights: through a link to another file",
        CLASSIFY,
        lambda w: (
            shutil.copytree(w / "model", w / "model2"),
            weights("model2/image.onnx", w),
            (w / "model/image.onnx").unlink(),
            (w / "model/image.onnx").symlink_to(w / "model2/image.onnx"),
        ),
    ),
    Change(
        "weights: towers swapped for another model's",
        CLASSIFY,
        lambda w: [weights(f"model/{t}.onnx", w) for t in ("image", "text")],
    ),
    # --------------------------------------------------------------------------------------- tokenizer and config
    Change("tokenizer: two tokens exchanged", CLASSIFY, swap_tokens),
    Change(
        "tokenizer: same size and time",
        CLASSIFY,
        partial(as_before, swap_tokens, "model/tokenizer.json"),
    ),
    Change(
        "tokenizer: damaged",
        CLASSIFY,
        lambda w: replace("model/tokenizer.json", '"shirt', '"zhirt', w),
        refused=True,
    ),
    Change("config: context length", CLASSIFY, partial(json_value, "model/eyechart.json", "context_length", 4)),
    Change(
        "config: logit scale",
        [*CLASSIFY, "--metrics", "full"],
        partial(json_value, "model/eyechart.json", "logit_scale", 3.0),
    ),
    Change(
        "config: image mean",
        CLASSIFY,
        partial(json_value, "model/preprocessor_config.json", "image_mean", [0.1, 0.9, 0.4]),
    ),
    Change(
        "config: image size",
        CLASSIFY,
        lambda w: json_value("model/preprocessor_config.json", "size", {"height": 16, "width": 16}, w),
        refused=True,
    ),
    Change(
        "config: image std",
        CLASSIFY,
        partial(json_value, "model/preprocessor_config.json", "image_std", [0.9, 0.2, 0.4]),
    ),
    Change("config: interpolation", CLASSIFY, partial(json_value, "model/preprocessor_config.json", "resample", 0)),
    # -------------------------------------------------------------------------------------------------- own code
    Change("code: a line of a model", OWN, partial(replace, "own_encoder.py", "/ 255 + 0.01", "/ 200 + 0.3")),
    Change("code: what a model imports", OWN, partial(write, "helper_module.py", b"STRENGTH = 3\n")),
    Change("code: a model's letters", OWN, partial(replace, "own_encoder.py", "ord(c) % 8", "ord(c) % 5")),
    Change(
        "code: a model, same time",
        OWN,
        partial(as_before, partial(replace, "own_encoder.py", "ord(c) % 8", "ord(c) % 7"), "own_encoder.py"),
    ),
    Change("code: a task", OWN_TASK, partial(replace, "own_task.py", "* 1)", "* 2)")),
    Change("code: a generative model", ASK, partial(replace, "own_vlm.py", '"AB"[', '"BA"[')),
    # --------------------------------------------------------------------------------------------------- images
    Change("image: replaced in a folder", CLASSIFY, partial(write, IMAGE, NEW)),
    Change("image: same size", CLASSIFY, same_size_image),
    Change("image: same size and time", CLASSIFY, partial(as_before, same_size_image, IMAGE)),
    Change(
        "image: two exchanged",
        CLASSIFY,
        lambda w: (
            shutil.move(w / IMAGE, w / "t"),
            shutil.move(w / "photos/test/bag/2.png", w / IMAGE),
            shutil.move(w / "t", w / "photos/test/bag/2.png"),
        ),
    ),
    Change("image: added", CLASSIFY, partial(write, "photos/test/shirt/new.png", NEW)),
    Change("image: removed", CLASSIFY, lambda w: (w / IMAGE).unlink()),
    Change("image: moved to another class", CLASSIFY, lambda w: shutil.move(w / IMAGE, w / "photos/test/bag/0.png")),
    Change(
        "image: zeros in its second half",
        CLASSIFY,
        lambda w: write(IMAGE, (w / IMAGE).read_bytes()[:60] + bytes(60), w),
        refused=True,
    ),
    Change("image: replaced in a table", TABLE, partial(write, "files/3.png", NEW)),
    Change("image: replaced beside queries", QUERIES, partial(write, "queries/3.png", NEW)),
    Change("image: replaced in a tar", WDS, partial(in_tar, "wds_c/test/0.tar", member(r"s003\.png", NEW))),
    Change("image: of the training split", PROBE, partial(write, "photos/train/shirt/0.png", NEW)),
    Change("image: of a collection", COLLECTION, partial(write, "collection/5.png", NEW)),
    Change("image: of a selection", CHOOSE, partial(write, "choose/5.png", NEW)),
    # ----------------------------------------------------------------------------------------- captions and labels
    Change("caption: in a tar", RETRIEVE, partial(in_tar, "wds_r/test/0.tar", member(r"s003\.txt", b"something else"))),
    Change(
        "caption: one more",
        RETRIEVE,
        partial(in_tar, "wds_r/test/0.tar", lambda n, d: (n, d + b"\nand more" if n == "s003.txt" else d)),
    ),
    Change(
        "caption: in image_queries.jsonl",
        QUERIES,
        partial(replace, "queries/image_queries.jsonl", "number 3", "number 77"),
    ),
    Change(
        "caption: cleaned",
        RETRIEVE,
        words_after=[*RETRIEVE, "--caption_cleaning", "internvl"],
        prepare=partial(in_tar, "wds_r/test/0.tar", lambda n, d: (n, d.replace(b" number", b", (number)."))),
    ),
    Change("label: in a tar", WDS, partial(in_tar, "wds_c/test/0.tar", member(r"s003\.cls", b"0"))),
    Change("label: out of range", WDS, partial(in_tar, "wds_c/test/0.tar", member(r"s003\.cls", b"9")), refused=True),
    Change("label: in a table", TABLE, partial(replace, "table.csv", "files/5.png,trouser", "files/5.png,bag")),
    Change(
        "label: group of a row",
        TABLE,
        partial(replace, "table.csv", "files/3.png,boot,light", "files/3.png,boot,dark"),
    ),
    Change(
        "label: multilabel vector too long",
        MULTI,
        partial(
            in_tar,
            "wds_m/test/0.tar",
            member(r"s003\.npy", npy(np.ones(9))),
        ),
        refused=True,
    ),
    Change(
        "label: multilabel vector",
        MULTI,
        partial(in_tar, "wds_m/test/0.tar", member(r"s003\.npy", npy(np.array([1, 0, 0, 1])))),
    ),
    Change(
        "label: of the training split",
        PROBE,
        lambda w: shutil.move(w / "photos/train/shirt/0.png", w / "photos/train/bag/0.png"),
    ),
    Change(
        "caption: two exchanged",
        RETRIEVE,
        partial(
            in_tar,
            "wds_r/test/0.tar",
            lambda n, d: (
                n,
                {"s003.txt": b"a shirt number 4\nthing 4", "s004.txt": b"a boot number 3\nthing 3"}.get(n, d),
            ),
        ),
    ),
    Change("candidate: of a selection", CHOOSE, partial(replace, "choose/questions.jsonl", "a trouser", "a cat")),
    # ----------------------------------------------------------------------------------------- classes and prompts
    Change("class name: in classnames.txt", WDS, partial(replace, "wds_c/classnames.txt", "bag", "umbrella")),
    Change("class name: folder renamed", CLASSIFY, rename_class),
    Change("class name: line separator inside", WDS, partial(replace, "wds_c/classnames.txt", "bag", "b\u2028ag")),
    Change("class name: vertical tab inside", LISTED, partial(replace, "classes.txt", "bag", "b\x0bag"), refused=True),
    Change("class name: blank line", LISTED, partial(replace, "classes.txt", "bag", ""), refused=True),
    Change("class name: custom file", LISTED, partial(replace, "classes.txt", "bag", "umbrella")),
    Change("class name: order", LISTED, partial(write, "classes.txt", b"boot\nbag\ntrouser\nshirt\n"), refused=True),
    Change(
        "template: of the dataset",
        WDS,
        partial(replace, "wds_c/zeroshot_classification_templates.txt", "photo", "drawing"),
    ),
    Change("template: custom file", LISTED, partial(replace, "templates.txt", "the {c}", "not a {c}")),
    # ------------------------------------------------------------------------------------------------ data as a whole
    Change(
        "tar: cut",
        WDS,
        lambda w: write("wds_c/test/1.tar", (w / "wds_c/test/1.tar").read_bytes()[:4000], w),
        refused=True,
    ),
    Change(
        "tar: zeros at the end",
        WDS,
        lambda w: write("wds_c/test/1.tar", (w / "wds_c/test/1.tar").read_bytes()[:6144].ljust(40960, b"\0"), w),
        refused=True,
    ),
    Change("tar: samples in another order", WDS, partial(reorder, "wds_c/test/0.tar")),
    Change("tar: nshards.txt is smaller", WDS, partial(write, "wds_c/test/nshards.txt", b"1")),
    Change("tar: a shard is missing", WDS, lambda w: (w / "wds_c/test/1.tar").unlink(), refused=True),
    Change(
        "tar: a sample renamed",
        WDS,
        partial(in_tar, "wds_c/test/0.tar", lambda n, d: (n.replace("s003", "s003b"), d)),
    ),
    Change(
        "query: of a collection removed",
        COLLECTION,
        lambda w: write(
            "collection/queries.jsonl", b"\n".join((w / "collection/queries.jsonl").read_bytes().split(b"\n")[1:]), w
        ),
        refused=True,
    ),
    Change(
        "document: one more text",
        TEXTS,
        lambda w: write(
            "texts/corpus.jsonl", (w / "texts/corpus.jsonl").read_bytes() + b'{"_id": "d99", "text": "boot 21"}\n', w
        ),
    ),
    Change(
        "relevance: a second document",
        TEXTS,
        lambda w: write(
            "texts/qrels/test.tsv", (w / "texts/qrels/test.tsv").read_bytes().rstrip() + b"\nq3\td9\t2\n", w
        ),
    ),
    Change("relevance: of a collection", COLLECTION, partial(replace, "collection/qrels/test.tsv", "q3\td3", "q3\td4")),
    Change("document: of a collection", COLLECTION, partial(replace, "collection/corpus.jsonl", "item 3", "object 3")),
    Change("query: of a collection", COLLECTION, partial(replace, "collection/queries.jsonl", "number 3", "number 9")),
    Change("document: of texts", TEXTS, partial(replace, "texts/corpus.jsonl", "number 21", "number 22")),
    Change("query: of texts", TEXTS, partial(replace, "texts/queries.jsonl", "boot 21", "boot 22")),
    Change("relevance: of texts", TEXTS, partial(replace, "texts/qrels/test.tsv", "q3\td3", "q3\td4")),
    Change("question: words", ASK, partial(replace, "asks.tsv", "what is it?\t", "what is it now?\t")),
    Change("question: option", ASK, partial(replace, "asks.tsv", "\tyes\tno\tA\t", "\tyes\tnot\tA\t")),
    Change("question: category", ASK, partial(replace, "asks.tsv", "\teven\n", "\todd\n")),
    Change("question: answer", ASK, partial(replace, "asks.tsv", "\tyes\tno\tA\t", "\tyes\tno\tB\t")),
    # -------------------------------------------------------------------------------------------- settings and options
    Change("option: split", CLASSIFY, words_after=[*CLASSIFY, "--split", "train"], occupied=True),
    Change("option: limit", CLASSIFY, words_after=[*CLASSIFY, "--limit", "7"]),
    Change("option: recall_k", RETRIEVE, words_after=[*RETRIEVE[:-2], "2"]),
    Change("option: metrics", CLASSIFY, words_after=[*CLASSIFY, "--metrics", "full"]),
    Change("option: neighbours", PROBE, words_after=[*PROBE[:-1], "7"]),
    Change("option: shots", FEW, words_after=[*FEW[:-3], "3", *FEW[-2:]]),
    Change("option: seed", FEW, words_after=[*FEW[:-1], "9"]),
    Change("option: normalize", PROBE, words_after=[*PROBE, "--normalize", "false"]),
    Change("option: seed of clusters", CLUSTER, words_after=[*CLUSTER[:-1], "5"]),
    Change("option: groups", [*TINY, "--dataset", "table.csv"], words_after=TABLE),
    Change("option: precision", CLASSIFY, words_after=[*CLASSIFY, "--precision", "fp32"]),
    Change("option: context length", CLASSIFY, words_after=[*CLASSIFY, "--model_option", "context_length=4"]),
    Change("option: extractor", ASK, words_after=[*ASK, "--extractor", "strict"]),
    Change("option: system prompt", ASK, words_after=[*ASK, "--system_prompt", "be brief"]),
    # ------------------------------------------------------------------------------------------------ the store
    Change("store: a flipped byte of a vector", CLASSIFY, lambda w: part(w, lambda _, d: flipped(d))),
    Change(
        "store: a row of NaN",
        CLASSIFY,
        lambda w: part(w, swap("vectors", lambda v: np.where(np.arange(len(v))[:, None] == 2, np.nan, v))),
    ),
    Change(
        "store: a row of zeros",
        CLASSIFY,
        lambda w: part(w, swap("vectors", lambda v: np.where(np.arange(len(v))[:, None] == 2, 0, v))),
    ),
    Change("store: keys rolled by one", CLASSIFY, lambda w: part(w, swap("keys", lambda k: np.roll(k, 1, axis=0)))),
    Change(
        "store: texts' keys rolled by one",
        CLASSIFY,
        lambda w: part(w, swap("keys", lambda k: np.roll(k, 1, axis=0)), "text"),
    ),
    Change("store: vectors shuffled", CLASSIFY, lambda w: part(w, swap("vectors", lambda v: v[::-1]))),
    Change("store: a part is cut", CLASSIFY, lambda w: part(w, lambda _, d: d[:-40])),
    Change("store: a part is empty", CLASSIFY, lambda w: part(w, lambda *_: b"")),
    # ----------------------------------------------------------------------------------------------------- cards
    Change("card: damaged", CLASSIFY, partial(in_cache, "cards/*.json", lambda d: d[: len(d) // 2])),
    Change("card: empty", CLASSIFY, partial(in_cache, "cards/*.json", lambda _: b"")),
    Change("card: not an object", CLASSIFY, partial(in_cache, "cards/*.json", lambda _: b"[1, 2]")),
    Change(
        "card: of a newer version",
        CLASSIFY,
        partial(in_cache, "cards/*.json", lambda d: d.replace(b'"card": {', b'"card": {"from_the_future": 1, ', 1)),
    ),
    Change("card: not text", CLASSIFY, partial(in_cache, "cards/*.json", lambda _: b"\xff\xfe\x00")),
    Change("card: another model's", CLASSIFY, other_card),
    Change("digests: damaged", CLASSIFY, partial(in_cache, "digests/*.json", lambda d: d[: len(d) // 2])),
    Change("digests: of another form", CLASSIFY, partial(in_cache, "digests/*.json", lambda _: b'{"form": 99}')),
    Change(
        "answers: a damaged line",
        ASK,
        lambda w: [f.write_bytes(f.read_bytes()[:-30] + b"\n") for f in (w / "cache" / "responses").glob("*/*.jsonl")],
    ),
    Change(
        "answers: a letter",
        ASK,
        partial(
            in_cache,
            "responses/*/*.jsonl",
            lambda d: d.replace(b'"text": "A"', b'"text": "B"').replace(b'"text":"A"', b'"text":"B"'),
        ),
    ),
    Change(
        "store: a flipped byte in half precision",
        [*CLASSIFY, "--store_precision", "fp16"],
        lambda w: part(w, lambda _, d: flipped(d), "image-fp16"),
    ),
    # ------------------------------------------------------------------------------------------- results and records
    Change("result: half-written", CLASSIFY, partial(in_results, "*.json", lambda d: d[: len(d) // 2])),
    Change(
        "result: of another job",
        CLASSIFY,
        partial(in_results, "*.json", lambda d: d.replace(b'"model": "m"', b'"model": "n"', 1)),
        occupied=True,
    ),
    Change("result: metrics changed by hand", CLASSIFY, partial(in_results, "*.json", edited_metric)),
    Change("records: cut", CLASSIFY, partial(in_results, "*.records.jsonl", lambda d: d[: len(d) // 2])),
    Change(
        "records: changed",
        CLASSIFY,
        partial(in_results, "*.records.jsonl", lambda d: d.replace(b'"rank": 1', b'"rank": 2', 1)),
    ),
]
CHANGES = guarded(_CHANGES, DEFENCES)
