"""Model classes written for VLMEvalKit, alone and in a run."""

import dataclasses
import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import eyechart
from eyechart import vlm
from eyechart.errors import DataError, ModelError, UsageError
from eyechart.io.images import ImageRef, image_size
from eyechart.models.objects.families import PythonGenerator, PythonGeneratorFamily
from eyechart.types import Message, ModelSpec
from support.vlm_data import image_bytes, image_cell, write_benchmark


class Echo(vlm.BaseModel):
    """Says what it sees: the names of images, and texts."""

    INTERLEAVE = False

    def generate_inner(self, message, dataset=None):
        prompt, image = self.message_to_promptimg(message, dataset=dataset)
        return f"{dataset}: {prompt} [{image and image.rsplit('/', 1)[-1]}]"

    def chat_inner(self, message, dataset=None):
        return f"{len(message)} turns, last: {message[-1]['content'][-1]['value']}"


@pytest.fixture
def apple(tmp_path):
    path = tmp_path / "apple.png"
    vlm.decode_base64_to_image_file(image_cell(), path)
    return str(path)


def test_every_form_of_message_means_the_same(apple):
    model = Echo()
    forms = [
        [{"type": "image", "value": apple}, {"type": "text", "value": "What is it?"}],
        [apple, "What is it?"],
    ]

    assert {model.generate(form, dataset="D") for form in forms} == {"D: What is it? [apple.png]"}
    assert model.generate("hi") == "None: hi [None]"
    assert model.generate({"type": "text", "value": "hi"}) == "None: hi [None]"


def test_data_urls_become_files(lmu_data):
    [item] = vlm.preproc_content([f"data:image/png;base64,{image_cell()}"])

    assert item["type"] == "image"
    assert item["value"].startswith(str(lmu_data / "files"))


@pytest.mark.parametrize(
    "message",
    [
        42,
        ["a", {"type": "text", "value": "b"}],
        [{"type": "audio", "value": "x"}],
        [{"type": "image", "value": "missing.png"}],
        [{"type": "text"}],
    ],
)
def test_what_is_no_message_is_refused(message):
    with pytest.raises(AssertionError):
        Echo().generate(message)


def test_a_failing_chat_drops_its_oldest_turns():
    lengths = []

    class Forgetful(vlm.BaseModel):
        def chat_inner(self, message, dataset=None):
            lengths.append(len(message))
            if len(message) > 1:
                raise RuntimeError("too long")
            return "ok"

    turns = [{"role": role, "content": "x"} for role in ("user", "assistant", "user", "assistant", "user")]

    assert Forgetful().chat(turns) == "ok"
    assert lengths == [5, 3, 1]
    with pytest.raises(AssertionError, match="last turn"):
        Forgetful().chat(turns[:2])


@pytest.mark.parametrize("roles", ["uu", "ua", "uua", "auu", "uauu", ""])
def test_a_chat_is_an_odd_number_of_turns_by_user_and_assistant(roles):
    names = {"u": "user", "a": "assistant"}
    turns = [{"role": names[role], "content": "x"} for role in roles]

    for model in (Echo(), ApiEcho()):
        with pytest.raises(AssertionError, match="turn"):
            model.chat(turns)
        told = [{"role": "system", "content": "Be brief."}]
        assert model.chat([*told, {"role": "user", "content": "x"}]).endswith("last: x")


class ApiEcho(vlm.BaseAPI):
    def chat_inner(self, message, dataset=None, **kwargs):
        return 0, f"last: {message[-1]['content'][-1]['value']}", ""


@pytest.fixture
def web(tmp_path):
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "apple.png").write_bytes(image_bytes())
    (tmp_path / "web" / "page.png").write_bytes(b"<html>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "web")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/apple.png"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("form", ["texts", "dicts", "chat"])
def test_an_image_url_of_the_callers_own_code_is_fetched_without_a_setting(web, monkeypatch, lmu_data, form):
    monkeypatch.delenv("EYECHART_IMAGE_URLS", raising=False)
    dicts = [{"type": "image", "value": web}, {"type": "text", "value": "How many?"}]

    if form == "chat":
        ApiEcho().chat([{"role": "user", "content": [web, "How many?"]}])
    else:
        said = Echo().generate([web, "How many?"] if form == "texts" else dicts)
        assert said.startswith("None: How many?")

    [file] = [path for path in (lmu_data / "files").iterdir() if path.suffix == ".png"]
    assert file.read_bytes() == image_bytes()


def test_a_url_that_is_no_image_is_refused(web):
    with pytest.raises(AssertionError, match="is not the URL of an image"):
        Echo().generate([web.replace("apple.png", "apple"), "How many?"])
    with pytest.raises(DataError, match="There is no file at"):
        Echo().generate([web.replace("apple.png", "pear.png"), "How many?"])
    with pytest.raises(DataError, match=r"page\.png"):
        Echo().generate([web.replace("apple.png", "page.png"), "How many?"])


def test_an_image_url_of_a_dataset_needs_the_setting_and_a_public_server(web, monkeypatch, lmu_data):
    lmu_data.mkdir(exist_ok=True)
    (lmu_data / "Web.tsv").write_text(f"index\timage_path\tquestion\tanswer\n1\t{web}\tRed?\tyes\n")
    dataset = vlm.build_dataset("Web")
    monkeypatch.delenv("EYECHART_IMAGE_URLS", raising=False)
    with pytest.raises(DataError, match="EYECHART_IMAGE_URLS=1"):
        Echo().generate(dataset.build_prompt(0), dataset="Web")

    monkeypatch.setenv("EYECHART_IMAGE_URLS", "1")
    with pytest.raises(DataError, match="is not on a public server"):
        Echo().generate(dataset.build_prompt(0), dataset="Web")
    assert not (lmu_data / "files").exists()


def test_a_chat_that_fails_with_any_history_says_so_in_the_originals_words():
    class Broken(vlm.BaseModel):
        def chat_inner(self, message, dataset=None):
            raise RuntimeError("no weights")

    assert Broken().chat([{"role": "user", "content": "x"}]).startswith("Chat Mode: Failed")


def test_several_images_leave_their_places_in_an_apis_prompt():
    message = [
        {"type": "text", "value": "first"},
        {"type": "image", "value": "a.png"},
        {"type": "text", "value": "second"},
        {"type": "image", "value": "b.png"},
    ]

    assert vlm.BaseModel().message_to_promptimg(message) == ("first\nsecond", "a.png")
    assert vlm.BaseAPI().message_to_promptimg(message) == ("first\n<image>\nsecond\n<image>", "a.png")


def test_an_api_model_says_what_came_instead_of_an_answer():
    replies = iter([(1, "partial", "busy"), (1, "partial", "busy")])

    class Busy(vlm.BaseAPI):
        def generate_inner(self, message, dataset=None, **kwargs):
            return next(replies)

    assert Busy(retry=2, wait=0).generate("x") == "partial"
    assert Busy.is_api


def test_a_class_is_found_by_module_path(tmp_path, monkeypatch):
    (tmp_path / "my_models.py").write_text(
        "class Model:\n    def __init__(self, word='yes'):\n        self.word = word\n"
        "    def generate(self, message, dataset=None):\n        return f'<think>hm</think>{self.word}'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spec = ModelSpec("python", "my_models:Model", options={"word": "no", "dataset": "D"})

    PythonGeneratorFamily().check(spec)
    answer = PythonGenerator(spec).generate([Message("user", ("hello",))])

    assert (answer.text, answer.thinking) == ("no", "hm")
    for name in ("my_models:Nothing", "no_such_module:Model"):
        with pytest.raises(UsageError, match="cannot be loaded"):
            PythonGeneratorFamily().check(ModelSpec("python", name))
    del sys.modules["my_models"]


def test_a_model_without_a_conversation_says_so_and_gives_no_failure_text(tmp_path, monkeypatch):
    class Shy(vlm.BaseModel):
        def generate_inner(self, message, dataset=None):
            return "hello"

    class Silent(vlm.BaseAPI):
        def generate_inner(self, message, dataset=None, **kwargs):
            return 0, "hello", "ok"

    turns = [{"role": "user", "content": "hi"}]
    for model in (Shy(), Silent(retry=1)):
        with pytest.raises(ModelError, match="does not support conversations") as caught:
            model.chat(turns)
        assert "chat_inner" in caught.value.advice


MINIMAL = """
class Looker:
    def generate(self, message, dataset=None):
        return f"{message[-1]['type']}: {message[0]['value']}"
"""


@pytest.fixture
def looker(tmp_path, monkeypatch):
    """A class in the working folder, which is not on Python's path."""
    (tmp_path / "lookers.py").write_text(MINIMAL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield ModelSpec("python", "python:lookers:Looker", options={"factory": "lookers:Looker", "settings": {}})
    sys.modules.pop("lookers", None)


def test_a_class_without_chat_refuses_a_conversation(looker):
    turns = [Message("user", ("a",)), Message("assistant", ("b",)), Message("user", ("c",))]

    with pytest.raises(ModelError, match="does not support conversations"):
        PythonGenerator(looker).generate(turns)


def test_an_image_that_is_no_file_is_written_for_a_class_that_takes_paths(looker):
    image = ImageRef("shard.tar:0.png", data=image_bytes())
    part = ImageRef("shard.tar:0.png", data=image_bytes(), box=(0, 0, 4, 2))

    paths = [PythonGenerator(looker).generate([Message("user", (one,))]).text for one in (image, part)]

    written = [Path(path.removeprefix("image: ")).read_bytes() for path in paths]
    assert [image_size(data, "it") for data in written] == [(8, 8), (4, 2)]


def test_other_source_or_options_are_another_model(looker, tmp_path):
    def identity(text, **options):
        sys.modules.pop("lookers", None)
        (tmp_path / "lookers.py").write_text(MINIMAL + text)
        return PythonGeneratorFamily().identity(dataclasses.replace(looker, options=options))

    declared = "\nLooker.eyechart_identity = 'v1'"
    found = [identity(declared), identity(declared, word="x"), identity(declared + "\nWORD = 1\n"), identity("")]

    assert found[3] is None  # what the class reads is not known
    assert None not in found[:3]
    assert len(set(found)) == 4


@pytest.mark.parametrize("where", ["self.read = ", "global READ; READ = "])
def test_what_a_class_read_when_it_was_made_is_part_of_its_fingerprint(looker, tmp_path, monkeypatch, where):
    (tmp_path / "lookers.py").write_text(
        "import os\nfrom pathlib import Path\nclass Looker:\n    generate = print\n"
        f"    def __init__(self): {where}Path('note.txt').read_text() + os.environ['LOOKER']\n"
    )
    monkeypatch.chdir(tmp_path)
    seen = []
    for note, variable in (("a", "1"), ("b", "1"), ("b", "2"), ("a", "1")):
        (tmp_path / "note.txt").write_text(note)
        monkeypatch.setenv("LOOKER", variable)
        seen.append(PythonGenerator(looker).card.fingerprint)

    assert len(set(seen)) == 3
    assert seen[0] == seen[3]


def test_other_weights_behind_an_option_are_another_model(looker, tmp_path):
    (tmp_path / "lookers.py").write_text("class Looker:\n    def __init__(self, weights): pass\n    generate = print\n")
    spec = dataclasses.replace(looker, options={**looker.options, "weights": "weights.npy"})
    seen = []
    for content in (b"old", b"new", b"old"):
        (tmp_path / "weights.npy").write_bytes(content)
        seen.append((PythonGeneratorFamily().identity(spec), PythonGenerator(spec).card.fingerprint))

    assert seen[0] != seen[1]
    assert seen[0][1] != seen[1][1]
    assert seen[0] == seen[2]


def test_the_command_finds_a_class_in_the_working_folder(looker, lmu_data, tmp_path):
    """As the documentation prints it: no PYTHONPATH but that of the package itself."""
    write_benchmark(tmp_path / "Pets.tsv", [{"index": 0, "question": "q", "answer": "x"}])
    code = "import sys; from eyechart.cli import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", code, "eval", "--dataset", "Pets.tsv", "--model", looker.name, "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(Path(eyechart.__file__).parents[1])}

    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "results").glob("*.json")] == ["Pets_lookers_Looker.json"]


CUSTOM = """
from eyechart.vlm import BaseModel

class Shouting(BaseModel):
    def use_custom_prompt(self, dataset):
        return dataset == 'Pets'

    def build_prompt(self, line, dataset=None):
        paths = self.dump_image(line, dataset)
        return [dict(type='image', value=p) for p in paths] + [dict(type='text', value=line['question'].upper())]

    def generate_inner(self, message, dataset=None):
        if 'CRASH' in message[-1]['value']:
            raise RuntimeError('out of luck')
        return message[-1]['value']
"""


def test_a_class_of_ones_own_runs_with_its_own_prompts(lmu_data, tmp_path, monkeypatch):
    from eyechart import evaluate

    (tmp_path / "shouting.py").write_text(CUSTOM)
    monkeypatch.syspath_prepend(tmp_path)
    rows = [
        {"index": 0, "question": "say cat", "answer": "SAY CAT"},
        {"index": 1, "question": "say dog", "answer": "dog"},
        {"index": 2, "question": "crash", "answer": "dog"},
    ]
    write_benchmark(lmu_data / "Pets.tsv", rows)

    [result] = evaluate(
        dataset=["Pets"],
        model=["python:shouting:Shouting"],
        output=str(tmp_path / "r.json"),
        on_error="skip",
        min_success=0,
    )

    assert result.metrics["accuracy"] == 1 / 3
    assert [record["prediction"] for record in result.iter_records()] == ["SAY CAT", "SAY DOG", ""]
    assert result.counts == {"listed": 3, "scored": 2, "failed": 1, "unreadable": 0, "repeats": 1}
    assert result.failures == ({"id": "2", "reason": "RuntimeError: out of luck"},)
    del sys.modules["shouting"]


def test_the_system_prompt_of_one_message_is_not_added_to_that_of_the_next():
    class Model(vlm.BaseAPI):
        def generate_inner(self, message, dataset=None, **kwargs):
            return 0, str(self.system_prompt), ""

    def told(*texts):
        return [{"type": "text", "value": text, "role": "system"} for text in texts] + [{"type": "text", "value": "q"}]

    model, own = Model(), Model(system_prompt="Look.")

    assert [model.generate(told(*texts)) for texts in (["Be brief."], ["Be brief."], ["Sing."], [])] == [
        "Be brief.\n",
        "Be brief.\n",
        "Sing.\n",
        "None",
    ]
    assert [own.generate(told(*texts)) for texts in (["Sing."], ["Sing."], [])] == ["Look.Sing.\n"] * 2 + ["Look."]


OWN = """
from eyechart.vlm import BaseAPI, BaseModel


class Busy(BaseAPI):
    def generate_inner(self, message, dataset=None, **kwargs):
        return 1, "A", "busy"


class Needy(BaseModel):
    def __init__(self, path):
        raise OSError("no weights")


class Asking(BaseModel):
    def use_custom_prompt(self, dataset):
        return True

    def build_prompt(self, line, dataset=None):
        return {}["question"]
"""


def test_what_somebodys_class_raises_is_an_error_of_ours(tmp_path, monkeypatch):
    (tmp_path / "own_models.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    hello = [Message("user", ("hello",))]

    def made(name, **options):
        return PythonGenerator(ModelSpec("python", f"own_models:{name}", options=options))

    busy = made("Busy", retry=1, wait=0)
    assert busy.model.generate("hello") == "A"  # as the original has it
    assert busy.generate(hello).error == "no try succeeded: A"
    with pytest.raises(ModelError, match="cannot be instantiated: OSError: no weights"):
        made("Needy", path="x")
    with pytest.raises(DataError, match="build_prompt failed: KeyError"):
        made("Asking").custom_prompt("D", lambda _row: [])({})
    del sys.modules["own_models"]
