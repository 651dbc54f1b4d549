"""A text retrieval dataset made of captions: which text finds which image's caption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from eyechart.manifest import Manifest
from eyechart.types import Answer, Document, TextCollection


def as_collection(captions: Mapping[int, Answer], sources: Mapping[str, str], manifest: Manifest) -> TextCollection:
    """Make the text retrieval data: captions are documents, the images' own texts are queries.

    Document ids are the positions of the images, query ids a running number, as in EvalScope. An image without a
    caption keeps its queries: nothing can find it, and that counts. Of a classification dataset, the class names are
    the queries and all images of the class are relevant; so are all images that have the text, where the dataset says
    that equal texts mean all of them.

    Args:
        captions: The captions, by the positions of their images in the manifest.
        sources: Where each image came from, by its id.
        manifest: The images.
    """
    documents = tuple(
        Document(str(position), answer.text.strip(), {"image_id": name, "image_source": sources.get(name, "")})
        for position, answer in captions.items()
        for name in [manifest.entries[position].id]  # metadata, not its image: the folder holds texts alone
    )
    asked = _shared(list(_queries(manifest))) if manifest.info.shared_texts else list(_queries(manifest))
    queries = tuple(Document(str(i), text, _owner(manifest, found)) for i, (text, found) in enumerate(asked))
    relevance = {str(i): {str(position): 1.0 for position in found} for i, (_, found) in enumerate(asked)}
    return TextCollection(documents, queries, relevance)


def shared_queries(collection: TextCollection) -> int:
    """Count the queries for which several documents are right."""
    return sum(len(documents) > 1 for documents in collection.relevance.values())


def _shared(asked: Sequence[tuple[str, Sequence[int]]]) -> list[tuple[str, Sequence[int]]]:
    """Let each query mean all images that have its text, its own first."""
    having: dict[str, list[int]] = {}
    for text, found in asked:
        having.setdefault(text, []).extend(found)
    return [(text, list(dict.fromkeys([*found, *having[text]]))) for text, found in asked]


def _owner(manifest: Manifest, found: Sequence[int]) -> dict[str, str]:
    """Name the image whose text a query is; a class name belongs to none."""
    by_class = manifest.info.kind in ("classification", "multilabel")
    return {} if by_class else {"image_id": manifest.entries[found[0]].id}


def _queries(manifest: Manifest) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield each query with the positions of the images that it means."""
    if manifest.info.kind in ("classification", "multilabel"):
        members: dict[int, list[int]] = {}
        for position, entry in enumerate(manifest.entries):
            for label in entry.labels or (() if entry.label is None else (entry.label,)):
                members.setdefault(label, []).append(position)
        names = manifest.info.classnames
        yield from ((names[label] if names else str(label), members[label]) for label in sorted(members))
    elif manifest.info.kind == "selection":
        yield from ((entry.texts[0], [i]) for i, entry in enumerate(manifest.entries) if entry.texts)
    else:
        yield from ((text, [i]) for i, entry in enumerate(manifest.entries) for text in entry.texts if text.strip())
