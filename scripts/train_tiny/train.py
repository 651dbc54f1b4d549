"""Train eyechart-tiny and write the demo: model folder and evaluation data. The README here tells more."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

import fashion
from batches import BatchMaker
from check import report
from demo_data import write_demo_data
from export import train_tokenizer, write_model
from towers import DualEncoder

LEARNING_RATE = 2e-3
WEIGHT_DECAY = 0.05
WARM_UP = 0.08


def contrastive_loss(logits: Tensor, matches: Tensor) -> Tensor:
    """CLIP's symmetric cross-entropy, with the target spread evenly over all that match."""
    targets = matches.float()
    by_image = functional.cross_entropy(logits, targets / targets.sum(1, keepdim=True))
    by_text = functional.cross_entropy(logits.T, targets.T / targets.T.sum(1, keepdim=True))
    return (by_image + by_text) / 2


def train(model: DualEncoder, batches: BatchMaker, steps: int) -> None:
    """AdamW with one cosine cycle of the learning rate; prints a line now and then."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, steps, pct_start=WARM_UP)
    model.train()
    start, running = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        batch = batches.next()
        loss = contrastive_loss(model(batch.pixels, batch.input_ids, batch.attention_mask), batch.matches)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        running += loss.item()
        if step % 50 == 0 or step == steps:
            minutes = (time.monotonic() - start) / 60
            print(
                f"step {step}/{steps}  loss {running / 50:.3f}  scale {model.scale():.1f}  {minutes:.1f} min",
                flush=True,
            )
            running = 0.0


def main() -> None:
    """Read the command line, train, report on validation data, write the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with Fashion-MNIST's four idx .gz files")
    parser.add_argument("--out", type=Path, required=True, help="demo folder; gets model/ and data/")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    training, validation, test = fashion.load(arguments.data)
    tokenizer = train_tokenizer(arguments.seed)
    write_demo_data(test, arguments.out / "data")
    model = DualEncoder(tokenizer.get_vocab_size()).to(memory_format=torch.channels_last)
    tokenizer.enable_padding()
    train(model, BatchMaker(training, tokenizer, arguments.seed), arguments.steps)
    tokenizer.no_padding()
    write_model(model, tokenizer, arguments.out / "model")
    with tempfile.TemporaryDirectory() as folder:
        write_demo_data(validation, Path(folder))
        print("validation part of the training split:")
        report(arguments.out / "model", Path(folder))


if __name__ == "__main__":
    main()
