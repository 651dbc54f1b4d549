"""A torch module of your own on a dataset of Hugging Face."""

import torch
from torchvision.transforms.functional import pil_to_tensor

from datasets import ClassLabel, load_dataset
from eyechart import demo, evaluate

model, folder = torch.nn.Module(), demo.data_folder("garments")
model.see, model.encode_text = torch.nn.Linear(3 * 28 * 28, 64), torch.nn.EmbeddingBag(256, 64)
model.encode_image = lambda pixels: model.see(pixels.flatten(1) / 255)
data = load_dataset("webdataset", data_files={"test": f"{folder}/test/*.tar"}, split="test")
data = data.cast_column("cls", ClassLabel(names_file=f"{folder}/classnames.txt"))
print(evaluate(model, data, preprocess=pil_to_tensor, tokenizer=lambda texts: [[*t.encode().ljust(40)] for t in texts]))
