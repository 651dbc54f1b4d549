"""VLMEvalKit's surface: dataset classes, model classes and helpers under the names that it gives them.

A dataset or model class written for VLMEvalKit works after changing its import line to `eyechart.vlm`.
"""

from eyechart.compat.vlmevalkit.build import build_dataset
from eyechart.compat.vlmevalkit.datasets import (
    CustomCaptionDataset,
    CustomMCQDataset,
    CustomTextMCQDataset,
    CustomVQADataset,
    HRBenchDataset,
    ImageBaseDataset,
    ImageCaptionDataset,
    ImageMCQDataset,
    ImageMTDataset,
    ImageVQADataset,
    ImageYORNDataset,
    LLaVABench,
    MathVision,
    MathVista,
    MMDUDataset,
    MMMUDataset,
    MMVet,
    MTVQADataset,
    MUIRDataset,
    NaturalBenchDataset,
    OCRBench,
    VCRDataset,
)
from eyechart.compat.vlmevalkit.images import (
    decode_base64_to_image,
    decode_base64_to_image_file,
    encode_image_file_to_base64,
    encode_image_to_base64,
)
from eyechart.compat.vlmevalkit.messages import check_content, message_to_promptimg, preproc_content
from eyechart.compat.vlmevalkit.models import BaseAPI, BaseModel
from eyechart.compat.vlmevalkit.names import istype, listinstr
from eyechart.datasets.questions.folders import lmu_data_root
from eyechart.datasets.questions.folders import lmu_data_root as LMUDataRoot  # noqa: N812 - the original's name
from eyechart.datasets.questions.rows import Record
from eyechart.datasets.questions.rows import RowTable as Table
from eyechart.datasets.questions.tables import dump, load
from eyechart.metrics.cells import text_list as toliststr

__all__ = [
    "BaseAPI",
    "BaseModel",
    "CustomCaptionDataset",
    "CustomMCQDataset",
    "CustomTextMCQDataset",
    "CustomVQADataset",
    "HRBenchDataset",
    "ImageBaseDataset",
    "ImageCaptionDataset",
    "ImageMCQDataset",
    "ImageMTDataset",
    "ImageVQADataset",
    "ImageYORNDataset",
    "LLaVABench",
    "LMUDataRoot",
    "MMDUDataset",
    "MMMUDataset",
    "MMVet",
    "MTVQADataset",
    "MUIRDataset",
    "MathVision",
    "MathVista",
    "NaturalBenchDataset",
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
