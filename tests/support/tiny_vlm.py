"""A tiny image-text-to-text model with random weights, of a real architecture and saved by the library itself."""

from __future__ import annotations

from pathlib import Path

CHAT = (
    "{% for message in messages %}{{ message['role'] }}: "
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


def tiny_tokenizer(special: list[str]):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate([*special, *alphabet])}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        additional_special_tokens=special[3:],
    )  # fmt: skip


def save_tiny_paligemma(folder: Path, seed: int = 0) -> Path:
    """Save a PaliGemma of few weights with its processor, which has no chat template; return the folder."""
    import torch
    from transformers import (
        GemmaConfig,
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        PaliGemmaProcessor,
        SiglipImageProcessor,
        SiglipVisionConfig,
    )

    images = SiglipImageProcessor(size={"height": 16, "width": 16})
    images.image_seq_length = 4
    processor = PaliGemmaProcessor(images, tiny_tokenizer(["<pad>", "<s>", "</s>", "<image>"]))
    vocabulary = len(processor.tokenizer)
    torch.manual_seed(seed)
    vision = SiglipVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=8,
        projection_dim=32,
    )  # fmt: skip
    text = GemmaConfig(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    config = PaliGemmaConfig(
        vision_config=vision, text_config=text, image_token_index=processor.image_token_id, projection_dim=32,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    PaliGemmaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_tiny_vlm(folder: Path, seed: int = 0) -> Path:
    """Save a LLaVA of some ten thousand weights with its processor; return the folder."""
    import torch
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    fast = tiny_tokenizer(["<pad>", "<s>", "</s>", "<image>"])
    vocabulary = fast.get_vocab()
    torch.manual_seed(seed)
    vision = CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=8,
        projection_dim=32,
    )  # fmt: skip
    text = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=vocabulary["<image>"])
    model = LlavaForConditionalGeneration(config)
    images = CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    processor = LlavaProcessor(
        image_processor=images, tokenizer=fast, patch_size=8, vision_feature_select_strategy="default",
        chat_template=CHAT, num_additional_image_tokens=1,
    )  # fmt: skip
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_tiny_mllama(folder: Path, seed: int = 0) -> Path:
    """Save a Llama 3.2 Vision of few weights, whose processor takes no batch with and without images."""
    import torch
    from transformers import MllamaConfig, MllamaForConditionalGeneration, MllamaImageProcessor, MllamaProcessor
    from transformers.models.mllama.configuration_mllama import MllamaTextConfig, MllamaVisionConfig

    fast = tiny_tokenizer(["<pad>", "<s>", "</s>", "<image>"])
    fast.add_special_tokens({"additional_special_tokens": ["<|image|>", "<|python_tag|>"]})
    images = MllamaImageProcessor(size={"height": 16, "width": 16}, max_image_tiles=1)
    chat = CHAT.replace("<image>", "<|image|>")
    processor = MllamaProcessor(image_processor=images, tokenizer=fast, chat_template=chat)
    torch.manual_seed(seed)
    vision = MllamaVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_global_layers=1, attention_heads=2,
        image_size=16, patch_size=8, vision_output_dim=64, max_num_tiles=1, intermediate_layers_indices=[0],
        supported_aspect_ratios=[[1, 1]],
    )  # fmt: skip
    text = MllamaTextConfig(
        vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, cross_attention_layers=[1], max_position_embeddings=512, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, rope_scaling=None,
    )  # fmt: skip
    config = MllamaConfig(
        vision_config=vision, text_config=text, image_token_index=fast.convert_tokens_to_ids("<|image|>")
    )
    MllamaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
