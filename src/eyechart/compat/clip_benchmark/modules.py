"""The modules of CLIP_benchmark that are served, and by which of ours."""

_OURS = "eyechart.compat.clip_benchmark"
_BUILDER = f"{_OURS}.builder"
_MODELS = f"{_OURS}.models"
_COLLECTION = f"{_OURS}.model_collection"
_METRICS = ("captioning", "image_caption_selection", "zeroshot_classification", "zeroshot_retrieval")
MODULES = {
    "clip_benchmark": (_OURS,),
    "clip_benchmark.cli": (f"{_OURS}.cli", _BUILDER, _COLLECTION, _MODELS),
    "clip_benchmark.datasets.builder": (_BUILDER,),
    **{f"clip_benchmark.metrics.{name}": (f"{_OURS}.{name}",) for name in _METRICS},
    "clip_benchmark.metrics.linear_probe": (f"{_OURS}.linear_probe", f"{_OURS}.featurizer"),
    "clip_benchmark.model_collection": (_COLLECTION,),
    "clip_benchmark.models": (_MODELS,),
    "clip_benchmark.models.japanese_clip": (_MODELS,),
    "clip_benchmark.models.open_clip": (_MODELS,),
    "clip_benchmark.webdataset_builder": (f"{_OURS}.webdataset_builder",),
}
