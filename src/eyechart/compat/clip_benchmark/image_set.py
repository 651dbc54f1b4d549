"""Any of our datasets as torch's loader reads it: indexed, each item an image and its target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eyechart.datasets.rows import RowDataset
from eyechart.io.media import to_rgb
from eyechart.manifest import iter_samples
from eyechart.types import Dataset, Sample


class ImageSet:
    """Images, transformed, with a label, a vector of zeros and ones, or captions."""

    def __init__(self, dataset: Dataset, transform: Callable[[Any], Any] | None) -> None:
        info = dataset.info
        self.dataset, self.transform, self.kind = dataset, transform, info.kind
        if info.classnames:
            self.classes = list(info.classnames)
            self.templates = {name: list(texts) for name, texts in info.class_prompts.items()} or list(info.templates)
        self._rows = _questions(dataset) if info.kind == "selection" else _rows(dataset)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        row = self._rows[index]
        if isinstance(row, list):
            return self._question(row)
        sample: Sample = self.dataset.make(row) if isinstance(self.dataset, RowDataset) else row
        return self._image(sample), self._target(sample)

    def _image(self, sample: Sample) -> Any:
        image = to_rgb(sample.need_image().decode())
        return image if self.transform is None else self.transform(image)

    def _target(self, sample: Sample) -> Any:
        if self.kind == "retrieval":
            return list(sample.texts)
        if self.kind == "multilabel":
            import torch

            present = torch.zeros(len(self.classes), dtype=torch.int64)
            present[list(sample.labels)] = 1
            return present
        return sample.label

    def _question(self, samples: Sequence[Sample]) -> tuple[Any, list[str]]:
        """Return the images of a question, and its texts: first those that belong to its images, in their order."""
        images = [self._image(sample) for sample in samples]
        texts = [sample.texts[0] for sample in samples if sample.texts]
        texts += [text for sample in samples for text in sample.texts[1:]]
        if len(images) == 1:
            return images[0], texts
        if self.transform is None:
            return images, texts
        import torch

        return torch.stack(images), texts


def _rows(dataset: Dataset) -> Sequence[Any]:
    return dataset.rows if isinstance(dataset, RowDataset) else list(iter_samples(dataset))


def _questions(dataset: Dataset) -> list[list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in iter_samples(dataset):
        found.setdefault(str(sample.meta.get("question", sample.id)), []).append(sample)
    return list(found.values())
