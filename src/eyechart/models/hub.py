"""Models on a hub: Hugging Face or ModelScope, at a pinned revision if one is given."""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eyechart.errors import ModelError, UsageError, first_line, is_unreachable, missing_extra, unknown_name, unreachable
from eyechart.io.files import cached_snapshot
from eyechart.messages import UserMessage
from eyechart.models import family
from eyechart.types import ModelSpec

HUGGINGFACE, MODELSCOPE = "huggingface", "modelscope"
HUBS = (HUGGINGFACE, MODELSCOPE)
_CODE = re.compile(rb'"([\w.-]+/[\w.-]+)--[\w.]+"')
"""A config's reference to a class in another repository: ``org/name--module.Class``."""


def source_of(spec: ModelSpec) -> str:
    """Return the folder or hub id: ``pretrained`` if given, else the name of the model."""
    return spec.pretrained or spec.name


class HubFamily(family.LocalFamily):
    """Base of families whose library loads a folder or a hub name."""

    whole = False
    """Whether a name includes the weights, so that ``pretrained`` is never a source."""

    def source(self, spec: ModelSpec) -> str:
        """Return the folder or hub id."""
        return spec.name if self.whole else source_of(spec)

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, folder or hub, and separate weights that the family does not load."""
        super().check(spec)
        if spec.pretrained not in ("", self.source(spec)):
            raise UsageError(
                "{--pretrained={tag}} does not apply to {name}: models of this family have no separate weights.",
                advice="Pass the folder or hub id with the weights as {--model}.",
                tag=spec.pretrained,
                name=spec.name,
            )
        family.check_path(self.source(spec))
        if not Path(self.source(spec)).exists():
            check(spec)

    def places(self, spec: ModelSpec) -> list[Path | None]:
        """Return the local path of the model, or None, and of the repositories that its configs load code from."""
        place = place_of(self.source(spec), spec)
        if place is None or not place.is_dir() or not spec.options.get("trust_remote_code"):
            return [place]
        others = {found.decode() for file in place.glob("*.json") for found in _CODE.findall(file.read_bytes())}
        return [place, *(cached_folder(repository, spec.options.get("cache_dir")) for repository in sorted(others))]


_REASONS = {
    family.SPARSE: UserMessage("it returns sparse vectors over a vocabulary"),
    family.CROSS: UserMessage("it scores pairs of texts and returns no vectors (see {--reranker})"),
}


class DenseFamily(HubFamily):
    """Base of families whose models give one dense vector per input, or several (late interaction); refuses others."""

    late_interaction: type[Any]
    """Class of models with several vectors per input."""

    pools = False
    """Whether the library pools the tokens of a language model."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, folder or hub, and another kind of model."""
        super().check(spec)
        self._check_kind(spec)
        if self.multi_vector(spec) and find_spec("sentence_transformers") is None:
            raise missing_extra("sentence_transformers", "sentence-transformers")

    def identity(self, spec: ModelSpec) -> str | None:
        """Digest the local files and the versions of the libraries that read them."""
        if not self.multi_vector(spec):
            return super().identity(spec)
        return family.content_identity(self.places(spec), "sentence-transformers", *self.read_by, *self.needs)

    def load(self, spec: ModelSpec) -> Any:
        """Load the model; the kind of one that was downloaded just now is known afterwards."""
        loaded = None
        if not self.multi_vector(spec):
            try:
                loaded = super().load(spec)
            except ModelError:
                if not self.multi_vector(spec):
                    raise
            finally:
                self._check_kind(spec)
        return self.late_interaction(spec) if self.multi_vector(spec) else loaded

    def multi_vector(self, spec: ModelSpec) -> bool | None:
        """Whether a model gives several vectors per input; None if its files are not on this machine."""
        kind = self._kind(spec)
        return None if kind is None else kind == family.LATE

    def _kind(self, spec: ModelSpec) -> str | None:
        place = place_of(self.source(spec), spec)
        return None if place is None else family.other_kind(place) if place.is_dir() else ""

    def _check_kind(self, spec: ModelSpec) -> None:
        place, kind = place_of(self.source(spec), spec), self._kind(spec)
        reason: str | None = _REASONS.get(str(kind))
        if place is not None and kind == "":
            reason = family.unsuitable(place, pooled=self.pools)
        if reason:
            plain = "{name} is not supported as an encoder: {reason}."
            text = "{name} is a {kind}, which is not supported as an encoder: {reason}." if kind else plain
            other = "Use a model that returns one vector per image or text."
            advice = "Use a model that returns dense vectors." if kind else other
            raise ModelError(text, advice=advice, name=spec.label, kind=kind, reason=reason)
        if kind != family.LATE and kind is not None and spec.options.get("token_pooling"):
            raise UsageError(
                "{--model_option} token_pooling needs a model with several vectors per input, unlike {name}.",
                advice="Omit it.",
                name=spec.label,
            )


def name_of(spec: ModelSpec) -> str:
    """Return the hub of a model."""
    name = str(spec.options.get("hub") or HUGGINGFACE)
    if name not in HUBS:
        raise unknown_name("hub", name, HUBS)
    return name


def revision_of(spec: ModelSpec) -> str | None:
    """Return the requested revision, or None."""
    revision = spec.options.get("revision")
    if revision is not None and not isinstance(revision, str):
        raise UsageError("The revision must be a string, not {revision!r}.", revision=revision)
    return revision or None


def loading(spec: ModelSpec, cache: str = "cache_dir") -> dict[str, Any]:
    """Return the common keyword arguments of loaders: revision, cache folder, trust_remote_code."""
    return {
        "revision": revision_of(spec),
        cache: spec.options.get("cache_dir"),
        "trust_remote_code": bool(spec.options.get("trust_remote_code")),
    }


def check(spec: ModelSpec) -> None:
    """Refuse an unknown hub, or one whose client is not installed."""
    library = {HUGGINGFACE: "huggingface_hub", MODELSCOPE: "modelscope_hub"}[name_of(spec)]
    if find_spec(library) is None:
        raise missing_extra(library, "hub")


def place_of(name: str, spec: ModelSpec) -> Path | None:
    """Return the local path of a model: the path itself or its snapshot in the hub's cache; None if missing."""
    return Path(name) if Path(name).exists() else cached_place(name, spec)


def cached_place(name: str, spec: ModelSpec) -> Path | None:
    """Return the folder of a model in the cache of its hub, offline."""
    cache, revision = spec.options.get("cache_dir"), revision_of(spec)
    if name_of(spec) == HUGGINGFACE:
        return cached_folder(name, cache, revision)
    if find_spec("modelscope_hub") is None:
        return None
    from modelscope_hub import HubApi
    from modelscope_hub.errors import HubError

    try:
        return Path(HubApi().download_repo(name, "model", revision=revision, cache_dir=cache, local_files_only=True))
    except (HubError, OSError):
        return None  # not in the cache


def source_for_library(name: str, spec: ModelSpec) -> str:
    """Return a name that transformers can load: a Hugging Face id, else a local folder."""
    return name if name_of(spec) == HUGGINGFACE else download(name, spec)


def download(name: str, spec: ModelSpec) -> str:
    """Return the local folder of a model, downloading it with the hub's client if necessary."""
    if Path(name).is_dir():
        return name
    check(spec)
    where: dict[str, Any] = {"revision": revision_of(spec), "cache_dir": spec.options.get("cache_dir")}
    where["ignore_patterns"] = list(family.OTHER_FORMATS)
    try:
        if name_of(spec) == MODELSCOPE:
            from modelscope_hub import HubApi

            api = HubApi(endpoint=os.environ.get("MODELSCOPE_ENDPOINT"))
            return str(api.download_repo(name, "model", **where))
        from huggingface_hub import snapshot_download

        # The library reads the variable only at import.
        return str(snapshot_download(name, endpoint=os.environ.get("HF_ENDPOINT"), **where))
    except Exception as error:
        # Each client has its own exceptions for a missing network, model or permission.
        if is_unreachable(error):
            raise unreachable(ModelError, f"{name_of(spec)} for {name}", error, name_of(spec)) from error
        raise ModelError(
            "Cannot download {name} from {hub} ({reason}).",
            advice="Check the name, the revision and the network, or download the folder and pass its path.",
            name=name,
            hub=name_of(spec),
            reason=first_line(error),
        ) from error


def cached_folder(repository: str, cache: str | None = None, revision: str | None = None) -> Path | None:
    """Return the folder of a repository in the Hugging Face cache, offline."""
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub.constants import HF_HUB_CACHE

    return cached_snapshot("models", repository, cache or HF_HUB_CACHE, revision)
