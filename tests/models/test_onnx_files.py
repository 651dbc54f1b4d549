"""The files of an ONNX model: all that the runtime reads belongs to it, under whatever name, and nothing outside."""

import random
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from eyechart.demo import model_folder
from eyechart.errors import ModelError
from eyechart.models.onnx_files import INSIDE, external_files, find_parts
from eyechart.models.registry import ENCODERS
from eyechart.types import ModelSpec
from support.zoo import load, photos


def identity(spec):
    return ENCODERS.load("onnx")().identity(spec)


def vectors(encoder):
    return encoder.encode_images(np.stack([encoder.prepare_image(image) for image in photos()]))


@pytest.fixture
def folder(tmp_path):
    """Copy the embedded model, and move the weights of its image tower to a file of another name."""
    copy = shutil.copytree(model_folder(), tmp_path / "model")
    model = onnx.load(copy / "image.onnx")
    (copy / "image.onnx").unlink()
    onnx.save(model, copy / "image.onnx", save_as_external_data=True, location="weights.bin", size_threshold=1024)
    return copy


def test_weights_in_a_file_of_any_name_belong_to_the_model(folder):
    spec = ModelSpec("onnx", str(folder))
    before, known = load(spec), identity(spec)
    data = np.fromfile(folder / "weights.bin", np.float32)
    (data[::-1] * 0.5).tofile(folder / "weights.bin")
    after = load(spec)

    assert np.abs(vectors(after) - vectors(before)).max() > 0.01
    assert after.card.fingerprint != before.card.fingerprint
    assert identity(spec) != known


@pytest.mark.parametrize(
    ("kind", "name"), [(TensorProto.FLOAT16, "fp16"), (TensorProto.BFLOAT16, "bf16"), (TensorProto.UINT8, "int8")]
)
def test_the_type_of_most_weights_is_told(folder, kind, name):
    fp32 = find_parts(ModelSpec("onnx", str(folder))).weight_type
    model = onnx.load(folder / "text.onnx")
    size = 1 << 21  # more than the embedded model has weights
    zeros = b"\0" * size * (1 if name == "int8" else 2)
    model.graph.initializer.append(helper.make_tensor("unused", kind, [2, size // 2], zeros, raw=True))
    onnx.save(model, folder / "text.onnx")

    assert fp32 == "fp32"
    assert find_parts(ModelSpec("onnx", str(folder))).weight_type == name


def test_a_file_name_is_no_pattern(folder):
    for name in ("image[b].onnx", "imageb.onnx"):
        shutil.copy(folder / "image.onnx", folder / name)
    spec = ModelSpec("onnx", str(folder / "image[b].onnx"), str(folder / "text.onnx"))
    before, known = load(spec).card.fingerprint, identity(spec)
    model = onnx.load(folder / "image[b].onnx", load_external_data=False)
    model.producer_name = "another"
    onnx.save(model, folder / "image[b].onnx")

    assert load(spec).card.fingerprint != before
    assert identity(spec) != known


@pytest.mark.parametrize("file", ["tokenizer.json", "preprocessor_config.json", "eyechart.json"])
def test_every_file_is_part_of_what_the_model_is_known_by(folder, file):
    spec = ModelSpec("onnx", str(folder))
    known = identity(spec)
    (folder / file).write_bytes((folder / file).read_bytes() + b"\n")

    assert identity(spec) != known


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json", "config.json"])
def test_a_file_that_comes_to_it_makes_another_model(folder, file):
    spec = ModelSpec("onnx", str(folder))
    known = identity(spec)
    (folder / file).write_text("{}")

    assert identity(spec) != known


@pytest.mark.parametrize("place", ["../weights.bin", "/etc/hostname", "deep/../../weights.bin", "*/_ORT_MEM_ADDR_/*"])
def test_weights_outside_of_the_folder_are_refused_before_anything_is_read(folder, place):
    (folder.parent / "weights.bin").write_bytes((folder / "weights.bin").read_bytes())
    model = onnx.load(folder / "image.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = place
    onnx.save(model, folder / "image.onnx")

    with pytest.raises(ModelError, match=r"outside its folder|is missing"):
        ENCODERS.load("onnx")().check(ModelSpec("onnx", str(folder)))


def test_weights_that_were_not_copied_are_named(folder):
    (folder / "weights.bin").unlink()

    with pytest.raises(ModelError, match=r"refers to weights in 'weights.bin', which is missing"):
        ENCODERS.load("onnx")().check(ModelSpec("onnx", str(folder)))


def tensor(name, place=None):
    made = numpy_helper.from_array(np.ones(4, np.float32), name)
    if place is not None:
        set_external_data(made, place)
        made.data_location = TensorProto.EXTERNAL
        made.ClearField("raw_data")
    return made


def model_with_tensors_everywhere():
    """Build a model that keeps tensors wherever the format has room for them, some of them in other files."""
    inner = helper.make_graph([], "inner", [], [], initializer=[tensor("a", "in_subgraph.bin"), tensor("b")])
    branch = helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    constant = helper.make_node("Constant", [], ["c"], value=tensor("c", "in_attribute.bin"))
    several = helper.make_node("Own", [], ["d"], many=[tensor("d", "in_list.bin"), tensor("e", "deep/er.bin")])
    graphs = helper.make_node("Own", [], ["g"], graphs=[inner])
    sparse = onnx.SparseTensorProto(values=tensor("v", "values.bin"), indices=tensor("i", "indices.bin"), dims=[4])
    in_node = helper.make_node("Own", [], ["s"], sparse=sparse)
    graph = helper.make_graph(
        [branch, constant, several, graphs, in_node],
        "outer",
        [],
        [],
        initializer=[tensor("f", "plain.bin"), tensor("h")],
        sparse_initializer=[
            onnx.SparseTensorProto(values=tensor("w", "values2.bin"), indices=tensor("j", "indices2.bin"), dims=[4])
        ],
    )
    function = helper.make_function(
        "own", "F", [], ["o"], [helper.make_node("Constant", [], ["o"], value=tensor("k", "in_function.bin"))],
        [helper.make_opsetid("", 20)],
    )  # fmt: skip
    model = helper.make_model(graph, functions=[function])
    training = model.training_info.add()
    training.algorithm.CopyFrom(helper.make_graph([], "t", [], [], initializer=[tensor("t", "in_training.bin")]))
    return model


def every_tensor(message):
    """Find all tensors below a message, with protobuf's own means."""
    if isinstance(message, TensorProto):
        yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                yield from every_tensor(part)


def test_every_reference_is_found_that_the_onnx_library_finds(tmp_path):
    model = model_with_tensors_everywhere()
    expected = {
        entry.value
        for found in every_tensor(model)
        if found.data_location == TensorProto.EXTERNAL
        for entry in found.external_data
        if entry.key == "location"
    }
    assert len(expected) == 11
    for name in expected:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())

    assert external_files(path) == sorted(tmp_path / name for name in expected)


def test_the_numbers_of_the_fields_are_those_of_the_format():
    messages = {
        "model": onnx.ModelProto, "training": onnx.TrainingInfoProto, "graph": onnx.GraphProto,
        "function": onnx.FunctionProto, "node": onnx.NodeProto, "attribute": onnx.AttributeProto,
        "sparse": onnx.SparseTensorProto, "tensor": onnx.TensorProto,
    }  # fmt: skip
    names = {kind.DESCRIPTOR.full_name: name for name, kind in messages.items()}
    for name, kind in messages.items():
        fields = {field.number: field.message_type for field in kind.DESCRIPTOR.fields if field.message_type}
        leading = {number: names[inner.full_name] for number, inner in fields.items() if inner.full_name in names}
        assert INSIDE.get(name, {}) == leading


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"not a model at all"], ids=["empty", "bytes", "text"])
def test_a_file_that_is_no_model_is_refused(tmp_path, content):
    (tmp_path / "broken.onnx").write_bytes(content)

    with pytest.raises(ModelError, match="damaged or not an ONNX model"):
        external_files(tmp_path / "broken.onnx")


def test_whatever_is_wrong_with_a_file_there_is_no_other_error(tmp_path, folder):
    whole, dice, path = (folder / "image.onnx").read_bytes(), random.Random(0), tmp_path / "broken.onnx"
    refused = 0
    for _ in range(300):
        copy = bytearray(whole[: dice.choice([len(whole), dice.randrange(1, len(whole))])])
        for _ in range(dice.randint(1, 20)):
            copy[dice.randrange(len(copy))] = dice.randrange(256)
        path.write_bytes(copy)
        try:
            external_files(path)
        except ModelError:
            refused += 1

    assert refused > 100


def test_a_model_of_gigabytes_is_not_read_to_find_its_references(tmp_path):
    graph = helper.make_graph([], "g", [], [], initializer=[tensor("a")])
    head = helper.make_model(graph).SerializeToString()
    path = tmp_path / "large.onnx"
    with path.open("wb") as stream:
        stream.write(head)
        # A field that nobody knows, with three gigabytes in it: a hole in the file, which costs no room.
        size = 3 << 30
        stream.write(bytes([(31 << 3 | 2) & 0x7F | 0x80, (31 << 3 | 2) >> 7]))
        stream.write(bytes([size >> shift & 0x7F | 0x80 for shift in range(0, 28, 7)] + [size >> 28]))
        stream.truncate(stream.tell() + size)

    assert external_files(Path(path)) == []
