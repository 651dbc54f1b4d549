"""Constants of EvalScope that scripts name instead of writing the words."""


class EvalBackend:
    """Names for ``eval_backend``; only RAGEval is here, and the others are answered when a config is read."""

    NATIVE = "Native"
    OPEN_COMPASS = "OpenCompass"
    VLM_EVAL_KIT = "VLMEvalKit"
    RAG_EVAL = "RAGEval"
    THIRD_PARTY = "ThirdParty"


class EvalType:
    """Names for ``eval_type``, which a config answers as well."""

    SERVICE = "openai_api"
    CHECKPOINT = "llm_ckpt"


class HubType:
    """Names for ``hub``."""

    MODELSCOPE = "modelscope"
    HUGGINGFACE = "huggingface"


__all__ = ["EvalBackend", "EvalType", "HubType"]
