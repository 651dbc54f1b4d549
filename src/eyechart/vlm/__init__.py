"""Generative benchmarks: dataset classes, model classes and helpers under the names that VLMEvalKit gives them.

A dataset or model class written for VLMEvalKit works after changing its import line to this module.
"""

from eyechart.vlm.base import ImageBaseDataset
from eyechart.vlm.custom import (
    CustomCaptionDataset,
    CustomMCQDataset,
    CustomTextMCQDataset,
    CustomVQADataset,
    build_dataset,
)
from eyechart.vlm.datasets import (
    ImageCaptionDataset,
    ImageMCQDataset,
    ImageMTDataset,
    ImageVQADataset,
    ImageYORNDataset,
    MathVision,
    MathVista,
    MMDUDataset,
    MMMUDataset,
    MMVet,
    MTVQADataset,
    MUIRDataset,
    OCRBench,
    VCRDataset,
)
from eyechart.vlm.folders import lmu_data_root
from eyechart.vlm.folders import lmu_data_root as LMUDataRoot  # noqa: N812 - the original's name
from eyechart.vlm.images import (
    decode_base64_to_image,
    decode_base64_to_image_file,
    encode_image_file_to_base64,
    encode_image_to_base64,
)
from eyechart.vlm.messages import check_content, message_to_promptimg, preproc_content
from eyechart.vlm.models import BaseAPI, BaseModel
from eyechart.vlm.names import istype, listinstr, toliststr
from eyechart.vlm.rows import Record, Table
from eyechart.vlm.tables import dump, load

__all__ = [
    "BaseAPI",
    "BaseModel",
    "CustomCaptionDataset",
    "CustomMCQDataset",
    "CustomTextMCQDataset",
    "CustomVQADataset",
    "ImageBaseDataset",
    "ImageCaptionDataset",
    "ImageMCQDataset",
    "ImageMTDataset",
    "ImageVQADataset",
    "ImageYORNDataset",
    "LMUDataRoot",
    "MMDUDataset",
    "MMMUDataset",
    "MMVet",
    "MTVQADataset",
    "MUIRDataset",
    "MathVision",
    "MathVista",
    "OCRBench",
    "Record",
    "Table",
    "VCRDataset",
    "build_dataset",
    "check_content",
    "decode_base64_to_image",
    "decode_base64_to_image_file",
    "dump",
    "encode_image_file_to_base64",
    "encode_image_to_base64",
    "istype",
    "listinstr",
    "lmu_data_root",
    "load",
    "message_to_promptimg",
    "preproc_content",
    "toliststr",
]
