"""A script in the manner of DataComp's evaluation: CLIP_benchmark's names and signatures, open_clip and torch.

    python datacomp_like.py DATA ARCHITECTURE.json CHECKPOINT OUTPUT.json [--no_amp] [--metadata]

It is run with the real CLIP_benchmark (which needs --no_amp on a CPU, and a webdataset of 2023 for --metadata) and with
ours, without a change.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import open_clip
import torch
from clip_benchmark.datasets.builder import build_dataset, image_captions_collate_fn
from clip_benchmark.metrics import image_caption_selection
from clip_benchmark.metrics import zeroshot_classification as zsc
from clip_benchmark.metrics import zeroshot_retrieval as zsr
from PIL import Image
from sklearn.metrics import balanced_accuracy_score


def make_model(architecture, checkpoint):
    open_clip.add_model_config(architecture)
    name = Path(architecture).stem
    model, _, transform = open_clip.create_model_and_transforms(name, pretrained=checkpoint)
    model.eval()
    return model, transform, open_clip.get_tokenizer(name)


def make_loader(task, transform, data, length=None, batch_size=8, num_workers=2):
    dataset = build_dataset(
        dataset_name=f"wds/{task}",
        root=f"{data}/wds_{task.replace('/', '-')}_test",
        transform=transform,
        split="test",
        download=False,
    )
    if length:
        dataset = dataset.with_length((length + batch_size - 1) // batch_size)
    loader = torch.utils.data.DataLoader(
        dataset.batched(batch_size), batch_size=None, shuffle=False, num_workers=num_workers
    )
    return dataset, loader


def classify(task, model, transform, tokenizer, data, amp):
    dataset, loader = make_loader(task, transform, data, length=60)
    assert dataset.templates and dataset.classes  # noqa: PT018
    classifier = zsc.zero_shot_classifier(model, tokenizer, dataset.classes, dataset.templates, "cpu", **amp)
    logits, target = zsc.run_classification(model, classifier, loader, "cpu", amp=False)
    with torch.no_grad():
        guess = logits.argmax(axis=1).cpu()
        target = target.cpu()
    if len(dataset.classes) >= 5:
        acc1, acc5 = zsc.accuracy(logits, target, topk=(1, 5))
    else:
        (acc1,), acc5 = zsc.accuracy(logits, target, topk=(1,)), None
    return {"acc1": acc1, "acc5": acc5, "mean_per_class_recall": float(balanced_accuracy_score(target, guess))}


class Captions(torch.utils.data.Dataset):
    def __init__(self, folder, transform):
        self.rows = json.loads((folder / "captions.json").read_text())
        self.folder, self.transform = folder, transform

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        name, texts = self.rows[index]
        return self.transform(Image.open(self.folder / name)), texts


class Pairs(Captions):
    """Every two rows make a question of two images and two texts."""

    def __len__(self):
        return len(self.rows) // 2

    def __getitem__(self, index):
        pair = [super(Pairs, self).__getitem__(2 * index + i) for i in range(2)]
        return torch.stack([image for image, _ in pair]), [texts[0] for _, texts in pair]


def retrieve(model, transform, tokenizer, data):
    loader = torch.utils.data.DataLoader(
        Captions(Path(data) / "captions", transform),
        batch_size=8,
        shuffle=False,
        num_workers=0,
        collate_fn=image_captions_collate_fn,
    )
    metrics = zsr.evaluate(model, loader, tokenizer, recall_k_list=[1, 5, 10], device="cpu", amp=False)
    metrics["mean_recall@1"] = 0.5 * (metrics["text_retrieval_recall@1"] + metrics["image_retrieval_recall@1"])
    return metrics


def select(model, transform, tokenizer, data):
    pairs = Pairs(Path(data) / "captions", transform)
    loader = torch.utils.data.DataLoader(pairs, batch_size=8, collate_fn=image_captions_collate_fn)
    return image_caption_selection.evaluate(model, loader, tokenizer, device="cpu", amp=False)


def read_metadata(task, data):
    """Read the label and the .npy of every sample, without an image."""
    dataset, _ = make_loader(task, None, data)
    dataset.pipeline = dataset.pipeline[:5]
    dataset.to_tuple("cls", "npy")
    loader = torch.utils.data.DataLoader(dataset.batched(8), batch_size=None, shuffle=False, num_workers=2)
    labels, columns = zip(*((label, column) for label, column in loader), strict=True)
    return {"labels": torch.cat(labels).tolist(), "columns": torch.cat(columns).tolist()}


def classify_faces(task, model, transform, tokenizer, data):
    """Read labels from columns: class names and templates say which column they are for."""
    dataset, _ = make_loader(task, None, data)
    parts = defaultdict(lambda: {"classes": [], "templates": []})
    for what, lines in (("templates", dataset.templates), ("classes", dataset.classes)):
        for line in lines:
            objective, text = line.split(":", 1)
            parts[objective][what].append(text)
    dataset.pipeline = dataset.pipeline[:5]
    dataset = dataset.to_tuple(["webp", "png", "jpg", "jpeg"], "npy").map_tuple(transform, None)
    loader = torch.utils.data.DataLoader(dataset.batched(8), batch_size=None, shuffle=False, num_workers=2)
    found = {}
    for column, (objective, part) in enumerate(parts.items()):
        classifier = zsc.zero_shot_classifier(model, tokenizer, part["classes"], part["templates"], "cpu", amp=False)
        right = []
        for images, target in loader:
            with torch.no_grad():
                logits = 100.0 * model.encode_image(images, normalize=True) @ classifier
            right += (logits.argmax(dim=1) == target[:, column]).tolist()
        found[objective] = sum(right) / len(right)
    return found


def main():
    parser = argparse.ArgumentParser()
    for name in ("data", "architecture", "checkpoint", "output"):
        parser.add_argument(name)
    parser.add_argument("--no_amp", action="store_true")
    parser.add_argument("--metadata", action="store_true")
    args = parser.parse_args()
    model, transform, tokenizer = make_model(args.architecture, args.checkpoint)
    parts = (model, transform, tokenizer, args.data)
    amp = {"amp": False} if args.no_amp else {}
    found = {task: classify(task, *parts, amp) for task in ("seven", "vtab/three")}
    found["retrieval"] = retrieve(*parts)
    found["selection"] = select(*parts)
    _, loader = make_loader("many", transform, args.data)
    made = make_loader("many", transform, args.data)[0]
    found["many"] = zsc.evaluate(model, loader, tokenizer, made.classes, made.templates, "cpu", amp=False)
    if args.metadata:
        found["metadata"] = read_metadata("wilds/columns", args.data)
        found["faces"] = classify_faces("faces", *parts)
    Path(args.output).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
