"""Encoders of 2026, each a small model saved by its own library: the library's own vectors, or a refusal by name."""

from pathlib import Path

import numpy as np
import pytest
import transformers

from eyechart import load_model
from eyechart.errors import EyechartError, ModelError, UsageError
from eyechart.models.registry import family_of, inputs_of
from eyechart.models.resolve import resolve_model
from eyechart.types import ModelSpec
from support.zoo import TEXTS, as_array, load, photos, seeded
from support.zoo_messages import images, message_model
from support.zoo_tokenizers import clip_tokenizer, gemma_like, xlmr_tokenizer
from support.zoo_transformers import TOWER, VISION, documented, save

QUESTIONS = ["a photo of cat", "what is this ?", "two red dog", "blue", "find the document : a query ."]
INSTRUCTION = "represent the query ."
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
PIXELS = {"image_size": 32, "patch_size": 8}
STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1]}


@pytest.fixture(scope="module", params=["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def folder(request, tmp_path_factory):
    return message_model(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def library(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


@pytest.fixture(scope="module")
def encoder(folder):
    return load(ModelSpec("sentence-transformers", str(folder)))


class TestMessageModels:
    """Multimodal LLMs with a pooling head, as sentence-transformers saves them."""

    @pytest.mark.parametrize("prompt", ["", INSTRUCTION])
    def test_images_texts_and_pairs_have_the_librarys_vectors_in_any_batch(self, library, encoder, prompt):
        pixels = [encoder.prepare_image(image) for image in images()]
        pairs = [{"image": image, "text": text} for image, text in zip(images(), QUESTIONS, strict=True)]
        options = {"prompt": prompt} if prompt else {}

        def ways(rows):
            yield images(), encoder.encode_images([pixels[i] for i in rows], instruction=prompt)
            yield QUESTIONS, encoder.encode_texts([QUESTIONS[i] for i in rows], instruction=prompt)
            chosen = [QUESTIONS[i] for i in rows]
            yield pairs, encoder.encode_joint([pixels[i] for i in rows], chosen, instruction=prompt)

        for rows in ([0, 1, 2, 3, 4], [3], [4, 0]):
            for given, ours in ways(rows):
                np.testing.assert_allclose(ours, library.encode(given, **options)[rows], atol=1e-5)

    def test_the_three_kinds_of_inputs_and_the_prompt_differ(self, encoder):
        pixels = [encoder.prepare_image(image) for image in images()]
        found = [
            encoder.encode_images(pixels),
            encoder.encode_images(pixels, instruction=INSTRUCTION),
            encoder.encode_texts(QUESTIONS),
            encoder.encode_texts(QUESTIONS, instruction=INSTRUCTION),
            encoder.encode_joint(pixels, QUESTIONS),
        ]

        assert min(np.abs(a - b).max() for i, a in enumerate(found) for b in found[:i]) > 1e-3
        assert encoder.card.inputs == ("image", "text", "image+text")
        assert encoder.card.prompting == "message"

    def test_without_its_pooling_it_is_refused_by_name(self, folder):
        plain = folder.parent / "plain"

        with pytest.raises(ModelError, match="not supported as an encoder: it is a language model without a pooling"):
            family_of(ModelSpec("transformers", str(plain)), "encoder").check(ModelSpec("transformers", str(plain)))


def test_pixel_limits_are_options_and_part_of_the_identity(tmp_path):
    from sentence_transformers import SentenceTransformer

    folder, other = message_model(tmp_path / "a"), message_model(tmp_path / "b", pixels=(56 * 56, 56 * 56))
    limits = {"min_pixels": 56 * 56, "max_pixels": 56 * 56}
    plain, limited = (load(ModelSpec("sentence-transformers", str(folder), options=o)) for o in ({}, limits))
    pixels = [plain.prepare_image(image) for image in images()]
    expected = SentenceTransformer(str(other), device="cpu").encode(images())

    np.testing.assert_allclose(limited.encode_images(pixels), expected, atol=1e-5)
    assert np.abs(plain.encode_images(pixels) - expected).max() > 1e-3
    assert plain.card.fingerprint != limited.card.fingerprint


def test_pixel_limits_of_a_model_without_them_are_refused(zoo):
    spec = ModelSpec("sentence-transformers", zoo.case("sentence-transformers-clip").spec.name)

    with pytest.raises(UsageError, match="has no limits of the number of pixels"):
        load(ModelSpec(spec.family, spec.name, options={"max_pixels": 5000}))


def test_prompts_and_dimensions_saved_with_the_model_are_used(tmp_path):
    from sentence_transformers import SentenceTransformer

    prompts = {"query": "find the query :", "document": "the document :"}
    folder = message_model(tmp_path, prompts=prompts, default_prompt_name="document", truncate_dim=12)
    library, encoder = (
        SentenceTransformer(str(folder), device="cpu"),
        load(ModelSpec("sentence-transformers", str(folder))),
    )
    pixels = [encoder.prepare_image(image) for image in images()]

    assert encoder.card.prompts == prompts
    assert encoder.card.embedding_dim == 12
    np.testing.assert_allclose(encoder.encode_images(pixels), library.encode(images()), atol=1e-5)
    ours = encoder.encode_texts(QUESTIONS, instruction=encoder.card.prompts["query"])
    np.testing.assert_allclose(ours, library.encode_query(QUESTIONS), atol=1e-5)


def _pooler(output):
    return output.pooler_output.flatten(1)


def _class_token(output):
    return output.last_hidden_state[:, 0]


def _mean(output):
    return output.last_hidden_state.mean(dim=1)


IMAGE_ENCODERS = {
    "dinov2": ("Dinov2Config", "Dinov2Model", "BitImageProcessor", SMALL | PIXELS, _pooler),
    "dinov2_with_registers": (
        "Dinov2WithRegistersConfig", "Dinov2WithRegistersModel", "BitImageProcessor", SMALL | PIXELS, _pooler
    ),
    "dinov3_vit": ("DINOv3ViTConfig", "DINOv3ViTModel", "DINOv3ViTImageProcessor", SMALL | PIXELS, _pooler),
    "dinov3_convnext": ("DINOv3ConvNextConfig", "DINOv3ConvNextModel", "DINOv3ViTImageProcessor",
                        {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}, _pooler),
    "clip_vision_model": ("CLIPVisionConfig", "CLIPVisionModel", "CLIPImageProcessor", VISION, _pooler),
    "clip_vision_projection": ("CLIPVisionConfig", "CLIPVisionModelWithProjection", "CLIPImageProcessor",
                               VISION | {"projection_dim": 24}, lambda output: output.image_embeds),
    "metaclip2_vision": ("MetaClip2VisionConfig", "MetaClip2VisionModel", "CLIPImageProcessor", VISION, _pooler),
    "siglip_vision_model": ("SiglipVisionConfig", "SiglipVisionModel", "SiglipImageProcessor", VISION, _pooler),
    "aimv2_vision_model": ("Aimv2VisionConfig", "Aimv2VisionModel", "CLIPImageProcessor", SMALL | PIXELS, _pooler),
    "aimv2_without_head": (
        "Aimv2VisionConfig", "Aimv2VisionModel", "CLIPImageProcessor", SMALL | PIXELS | {"use_head": False}, _mean
    ),
    "vit": ("ViTConfig", "ViTModel", "ViTImageProcessor", SMALL | PIXELS, _class_token),
    "deit": ("DeiTConfig", "DeiTModel", "DeiTImageProcessor", SMALL | PIXELS, _class_token),
    "beit": ("BeitConfig", "BeitModel", "BeitImageProcessor", SMALL | PIXELS, _pooler),
    "ijepa": ("IJepaConfig", "IJepaModel", "ViTImageProcessor", SMALL | PIXELS, _mean),
    "swin": ("SwinConfig", "SwinModel", "ViTImageProcessor",
             {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2],
              "window_size": 4}, _pooler),
    "convnextv2": ("ConvNextV2Config", "ConvNextV2Model", "ConvNextImageProcessor",
                   {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}, _pooler),
    "resnet": ("ResNetConfig", "ResNetModel", "ConvNextImageProcessor", STAGES | {"embedding_size": 8}, _pooler),
    "radio": ("RadioConfig", "RadioModel", "CLIPImageProcessor",
              {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "max_img_size": 64} | PIXELS,
              lambda output: output.summary),
    "tipsv2_vision": ("Tipsv2VisionConfig", "Tipsv2VisionModel", "Tipsv2ImageProcessor", SMALL | PIXELS, _pooler),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGE_ENCODERS)
def test_an_image_encoder_has_the_librarys_vectors_and_no_texts(tmp_path, name):
    import torch

    config, kind, processor, settings, pooled = IMAGE_ENCODERS[name]
    seeded()
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings)).eval()
    size = (
        {"shortest_edge": 32}
        if processor in ("CLIPImageProcessor", "BitImageProcessor")
        else {"height": 32, "width": 32}
    )
    if processor == "ConvNextImageProcessor":
        size = {"shortest_edge": 384}
    made = getattr(transformers, processor)(size=size, crop_size={"height": 32, "width": 32})
    save(tmp_path, model, made)
    spec = ModelSpec(resolve_model(str(tmp_path)).family, str(tmp_path))
    encoder = load(spec)

    with torch.no_grad():
        expected = as_array(pooled(model(**made(images=[p.convert("RGB") for p in photos()], return_tensors="pt"))))

    pixels = [encoder.prepare_image(image.convert("RGB")) for image in photos()]
    np.testing.assert_allclose(encoder.encode_images(np.stack(pixels)), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_images(np.stack(pixels[3:4])), expected[3:4], atol=1e-5)
    assert (spec.family, encoder.card.inputs) == ("transformers", ("image",))
    assert tuple(inputs_of(family_of(spec, "encoder"), spec)) == ("image",)


def metaclip2(folder):
    tokenizer = xlmr_tokenizer(folder)
    text = TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 77, "eos_token_id": tokenizer.eos_token_id}
    config = transformers.MetaClip2Config(text_config=text, vision_config=VISION, projection_dim=24)
    pixels = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    save(folder, transformers.MetaClip2Model(config), transformers.CLIPProcessor(pixels, tokenizer))
    return documented(folder, padding=True)


def aimv2(folder):
    tokenizer = clip_tokenizer(folder)
    text = TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 77, "eos_token_id": 49407}
    config = transformers.Aimv2Config(text_config=text, vision_config=SMALL | PIXELS, projection_dim=24)
    pixels = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    save(folder, transformers.Aimv2Model(config), transformers.CLIPProcessor(pixels, tokenizer))
    return documented(folder, padding=True)


def tipsv2(folder):
    tokenizer = gemma_like("Tipsv2Tokenizer", folder)
    config = transformers.Tipsv2Config(
        text_config=SMALL | {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id},
        vision_config={"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2} | PIXELS,
    )
    pixels = transformers.Tipsv2ImageProcessor(size={"height": 32, "width": 32})
    save(folder, transformers.Tipsv2Model(config), transformers.Tipsv2Processor(pixels, tokenizer))
    return documented(folder)


@pytest.mark.parametrize("build", [metaclip2, aimv2, tipsv2])
def test_a_dual_encoder_has_the_librarys_vectors(tmp_path, build):
    seeded()
    case = build(tmp_path)
    encoder = load(case.spec)
    texts = TEXTS[:4]

    ours = encoder.encode_images(np.stack([encoder.prepare_image(image.convert("RGB")) for image in photos()]))
    np.testing.assert_allclose(ours, case.images(photos()), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_texts(texts), case.texts(texts), atol=1e-5)
    assert encoder.card.inputs == ("image", "text")


REFUSED = {
    "xclip": ("XCLIPConfig", {}, "it encodes videos"),
    "videomae": ("VideoMAEConfig", {}, "it encodes videos"),
    "clap": ("ClapConfig", {}, "it encodes audio"),
    "whisper": ("WhisperConfig", {}, "it encodes audio"),
    "flava": ("FlavaConfig", {}, "one vector per image patch"),
    "llava": ("LlavaConfig", {}, "language model without a pooling head"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_refused_by_name_before_it_is_loaded(tmp_path, name):
    config, settings, reason = REFUSED[name]
    getattr(transformers, config)(**settings).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("{}")
    spec = ModelSpec(resolve_model(str(tmp_path)).family, str(tmp_path))

    with pytest.raises(ModelError, match=f"{Path(tmp_path).name} is not supported as an encoder: .*{reason}"):
        family_of(spec, "encoder").check(spec)


def test_a_model_that_masks_patches_at_random_is_refused(tmp_path):
    seeded()
    config = transformers.ViTMAEConfig(**SMALL, **PIXELS, decoder_hidden_size=16, decoder_num_hidden_layers=1)
    save(tmp_path, transformers.ViTMAEModel(config), transformers.ViTImageProcessor(size={"height": 32, "width": 32}))

    with pytest.raises(ModelError, match="different vectors for the same image"):
        load(ModelSpec("transformers", str(tmp_path)))


@pytest.mark.parametrize(
    ("config", "model", "processor"),
    [
        ("SamConfig", "SamModel", "SamImageProcessor"),
        ("MaskFormerConfig", "MaskFormerModel", "MaskFormerImageProcessor"),
    ],
)
def test_no_error_of_a_library_reaches_the_user(tmp_path, config, model, processor):
    getattr(transformers, config)().save_pretrained(tmp_path)
    getattr(transformers, processor)().save_pretrained(tmp_path)

    with pytest.raises(EyechartError):
        load(ModelSpec("transformers", str(tmp_path)))


class TestTimm:
    NAME = "test_vit"

    @pytest.fixture
    def spec(self, tmp_path):
        import timm
        import torch

        seeded()
        torch.save(timm.create_model(self.NAME, pretrained=False).state_dict(), tmp_path / "weights.pth")
        return ModelSpec("timm", f"timm:{self.NAME}", str(tmp_path / "weights.pth"))

    def test_a_backbone_has_the_librarys_features(self, spec):
        import timm
        import torch
        from timm.data import create_transform, resolve_model_data_config

        model = timm.create_model(self.NAME, pretrained=False, checkpoint_path=spec.pretrained).eval()
        model.reset_classifier(0)
        transform = create_transform(**resolve_model_data_config(model), is_training=False)
        with torch.no_grad():
            expected = model(torch.stack([transform(image.convert("RGB")) for image in photos()])).numpy()
        encoder = load(spec)

        ours = encoder.encode_images(np.stack([encoder.prepare_image(image) for image in photos()]))
        np.testing.assert_allclose(ours, expected, atol=1e-5)
        assert encoder.card.inputs == ("image",)
        assert "head.weight" in str(encoder.card.notes)
        assert resolve_model(spec.name, spec.pretrained).family == "timm"

    def test_unknown_names_and_foreign_weights_are_refused(self, spec, tmp_path):
        import torch

        with pytest.raises(UsageError, match="Unknown model: 'test_vti'"):
            load(ModelSpec("timm", "timm:test_vti"))
        torch.save({"x": torch.zeros(1)}, tmp_path / "other.pth")
        with pytest.raises(ModelError, match="lacks the weights"):
            load(ModelSpec("timm", spec.name, str(tmp_path / "other.pth")))


def test_a_loaded_model_encodes_joint_inputs_with_a_prompt(folder, library):
    model = load_model(folder, normalize=False)
    pairs = [{"image": image, "text": text} for image, text in zip(images(), QUESTIONS, strict=True)]

    ours = model.encode_joint(images(), QUESTIONS, prompt=INSTRUCTION)

    np.testing.assert_allclose(ours, library.encode(pairs, prompt=INSTRUCTION), atol=1e-5)
    with pytest.raises(UsageError, match="one text per image"):
        model.encode_joint(images(), ["a"])
