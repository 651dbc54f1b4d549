"""Make ``eyechart-tiny-int8`` of ``eyechart-tiny``: the same towers in eight bits, calibrated on training images.

The scales of activations are fixed: if they were taken from each batch, a vector would depend on its neighbours.
Use: python scripts/train_tiny/quantise.py --data fashion/usr/share/datasets/fashion-mnist --demo src/eyechart/demo
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from tokenizers import Tokenizer

import fashion
from batches import BatchMaker

NAME = "eyechart-tiny-int8"
BATCHES = 4
SEED = 1


def main() -> None:
    """Write the folder of the int8 model beside that of the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with Fashion-MNIST's four idx .gz files")
    parser.add_argument("--demo", type=Path, required=True, help="the demo folder; holds model/, gets model-int8/")
    arguments = parser.parse_args()
    source, target = arguments.demo / "model", arguments.demo / "model-int8"
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.enable_padding()
    training, _, _ = fashion.load(arguments.data)
    maker = BatchMaker(training, tokenizer, SEED)
    batches = [maker.next() for _ in range(BATCHES)]
    target.mkdir(parents=True, exist_ok=True)
    quantise(source / "image.onnx", target / "image.onnx", [{"pixel_values": b.pixels.numpy()} for b in batches])
    texts = [{"input_ids": b.input_ids.numpy(), "attention_mask": b.attention_mask.numpy()} for b in batches]
    quantise(source / "text.onnx", target / "text.onnx", texts)
    for name in ("tokenizer.json", "preprocessor_config.json"):
        shutil.copyfile(source / name, target / name)
    card = json.loads((source / "eyechart.json").read_text(encoding="utf-8"))
    card |= {"name": NAME, "quantisation": "int8, static, by onnxruntime: scripts/train_tiny/quantise.py"}
    (target / "eyechart.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


class Inputs(CalibrationDataReader):
    """Gives what a tower is calibrated on, once."""

    def __init__(self, inputs: Iterable[dict[str, Any]]) -> None:
        self._inputs = iter(inputs)

    def get_next(self) -> dict[str, Any] | None:
        """Return the next batch, None after the last."""
        return next(self._inputs, None)


def quantise(source: Path, target: Path, inputs: Iterable[dict[str, Any]]) -> None:
    """Quantise the weights of a tower per channel and its activations by their range over the inputs."""
    with tempfile.TemporaryDirectory() as folder:
        prepared, made = Path(folder) / "prepared.onnx", Path(folder) / "made.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            prepared,
            made,
            Inputs(inputs),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv", "Gather", "Gemm", "MatMul"],
            per_channel=True,
            # Seven bits: sums of products of eight overflow on processors without VNNI, whose numbers would differ.
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        proto = onnx.load(made)
    proto.graph.ClearField("value_info")
    onnx.checker.check_model(proto, full_check=True)
    target.write_bytes(proto.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
