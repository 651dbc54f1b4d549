"""Models from the two hubs, through the hubs' own clients, against a stand-in server on loopback."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from eyechart.errors import ModelError, UnknownNameError
from eyechart.models.registry import ENCODERS
from eyechart.types import ModelSpec
from support.hub_server import COMMIT, hub_serving
from support.zoo import TEXTS, load


@pytest.fixture
def hub(zoo, tmp_path, monkeypatch):
    """Serve small models as owner/name."""
    for name in ("clip", "open_clip-siglip"):
        shutil.copytree(zoo.case(name).parts[0].parent, tmp_path / "hub" / "owner" / name)
    with hub_serving(tmp_path / "hub") as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", server.url)
        monkeypatch.setenv("MODELSCOPE_HOME", str(tmp_path / "modelscope"))
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        yield server


def test_transformers_from_modelscope(hub, zoo, tmp_path):
    options = {"hub": "modelscope", "revision": "v1", "cache_dir": str(tmp_path / "kept")}

    encoder = load(ModelSpec("transformers", "owner/clip", options=options))

    np.testing.assert_array_equal(encoder.encode_texts(TEXTS), zoo.encoder("clip").encode_texts(TEXTS))
    assert encoder.card.fingerprint == zoo.encoder("clip").card.fingerprint
    assert any((tmp_path / "kept").rglob("model.safetensors"))
    assert identity_of("transformers", "owner/clip", **options)
    assert identity_of("transformers", "owner/clip", **{**options, "revision": "v2"}) is None


def test_open_clip_at_a_pinned_revision(hub, zoo, tmp_path):
    spec = ModelSpec(
        "open_clip", "hf-hub:owner/open_clip-siglip", options={"revision": COMMIT, "cache_dir": str(tmp_path)}
    )

    encoder = load(spec)

    assert encoder.card.fingerprint == zoo.encoder("open_clip-siglip").card.fingerprint
    assert (tmp_path / "models--owner--open_clip-siglip" / "snapshots" / COMMIT).is_dir()


def test_transformers_from_hugging_face(hub, tmp_path):
    # In a process of its own: the library reads the address of the hub only when it is imported.
    code = (
        "import sys; from eyechart.models.registry import ENCODERS; from eyechart.types import ModelSpec\n"
        "family = ENCODERS.load('transformers')()\n"
        "options = {'revision': sys.argv[2], 'cache_dir': sys.argv[1]}\n"
        "spec = ModelSpec('transformers', 'owner/clip', options=options)\n"
        "family.check(spec); print(family.load(spec).card.fingerprint)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "kept"), COMMIT],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HF_HOME": str(tmp_path / "home")},
    )

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 32
    assert any((tmp_path / "kept").rglob(f"{COMMIT}/model.safetensors"))


@pytest.mark.parametrize("which", ["huggingface", "modelscope"])
def test_a_model_that_the_hub_does_not_have(hub, which, tmp_path):
    options = {"hub": which, "revision": COMMIT, "cache_dir": str(tmp_path)}

    with pytest.raises(ModelError, match=f"Cannot download owner/nothing from {which}"):
        load(ModelSpec("open_clip", "hf-hub:owner/nothing", options=options))


def test_an_unknown_hub():
    with pytest.raises(UnknownNameError, match="Did you mean modelscope"):
        load(ModelSpec("transformers", "owner/clip", options={"hub": "modelscop"}))


def identity_of(family, name, pretrained="", **options):
    return ENCODERS.load(family)().identity(ModelSpec(family, name, pretrained, options=options))


def put_into_cache(cache, repository, revision, files):
    """Lay files out as the client of Hugging Face does, blobs behind links included."""
    root = cache / f"models--{repository.replace('/', '--')}"
    for name, content in files.items():
        blob = root / "blobs" / str(abs(hash(content)))
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        path = root / "snapshots" / revision / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(blob)
    (root / "refs").mkdir(exist_ok=True)
    (root / "refs" / "main").write_text(revision)


@pytest.mark.parametrize(
    ("family", "name", "pretrained", "repository", "files"),
    [
        ("transformers", "owner/clip", "", "owner/clip", ["config.json", "model.safetensors"]),
        ("sentence-transformers", "owner/text", "", "owner/text", ["modules.json", "0_Clip/model.safetensors"]),
        ("open_clip", "hf-hub:owner/clip", "", "owner/clip", ["open_clip_config.json", "open_clip_model.safetensors"]),
        ("open_clip", "ViT-B-32", "laion2b_s34b_b79k", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K",
         ["open_clip_model.safetensors"]),
    ],
)  # fmt: skip
def test_a_model_of_a_hub_is_known_by_the_content_that_is_on_this_machine(
    tmp_path, family, name, pretrained, repository, files
):
    def identity(**options):
        return identity_of(family, name, pretrained, cache_dir=str(tmp_path), **options)

    assert identity() is None
    put_into_cache(tmp_path, repository, COMMIT, dict.fromkeys(files, b"{}"))
    first = identity()
    assert first == identity() == identity(revision="main")
    if family != "open_clip" or not pretrained:
        assert identity(revision=COMMIT) == first
        assert identity(revision="0" * 40) is None

    put_into_cache(tmp_path, repository, "f" * 40, dict.fromkeys(files, b'{"a": 1}'))
    assert identity() not in (None, first)


def test_a_tag_with_an_address_is_known_by_the_file_in_open_clips_cache(own_cache, tmp_path):
    from importlib.metadata import version

    table = own_cache / "open_clip" / f"tags-{version('open_clip_torch')}.json"
    table.parent.mkdir(parents=True)
    table.write_text('{"RN50": {"old_tag": {"url": "https://example.org/weights/rn50.pt"}}}')
    file = tmp_path / "rn50.pt"

    assert identity_of("open_clip", "RN50", "old-tag", cache_dir=str(tmp_path)) is None
    file.write_bytes(b"one")
    first = identity_of("open_clip", "RN50", "old-tag", cache_dir=str(tmp_path))
    file.write_bytes(b"two")
    assert identity_of("open_clip", "RN50", "old-tag", cache_dir=str(tmp_path)) not in (None, first)


def test_the_table_of_tags_is_remembered_and_a_damaged_one_asked_again(own_cache, monkeypatch):
    from eyechart.models.encoders.open_clip import tags

    whole = tags()
    (file,) = (own_cache / "open_clip").iterdir()
    assert whole["ViT-B-32"]["openai"]
    for damaged in (b"", b"[]", b'{"ViT-B-32": {"openai": 3}}', b'{"ViT-B-32": 3}', b"\xff"):
        file.write_bytes(damaged)
        assert tags() == whole
    monkeypatch.setitem(sys.modules, "open_clip", None)
    assert tags() == whole


def test_code_that_a_config_takes_from_another_repository_belongs_to_the_model(tmp_path):
    config = b'{"auto_map": {"AutoModel": "other/code--modeling.Model"}}'
    put_into_cache(tmp_path, "owner/clip", COMMIT, {"config.json": config})

    def identity():
        return identity_of("transformers", "owner/clip", cache_dir=str(tmp_path), trust_remote_code=True)

    assert identity() is None
    put_into_cache(tmp_path, "other/code", COMMIT, {"modeling.py": b"one"})
    first = identity()
    put_into_cache(tmp_path, "other/code", COMMIT, {"modeling.py": b"two"})
    assert identity() not in (None, first)


def test_a_revision_counts_for_a_library_that_knows_none(zoo, monkeypatch, tmp_path):
    zoo.case("ja_clip")
    import japanese_clip

    loaded, plain = [], japanese_clip.load
    monkeypatch.setattr(japanese_clip, "load", lambda name, **how: loaded.append(name) or plain(name, **how))
    monkeypatch.setattr("eyechart.models.hub.download", lambda name, spec: str(tmp_path / spec.options["revision"]))
    load(ModelSpec("ja_clip", "", "rinna/x", options={"revision": "abc"}))

    assert loaded == [str(tmp_path / "abc")]
