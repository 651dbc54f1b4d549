"""``build_dataset``, which opens a benchmark by name, and the base classes of video benchmarks."""

import logging
import sys
import warnings
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

from eyechart.compat.vlmevalkit import datasets
from eyechart.compat.vlmevalkit.files import LMUDataRoot, dump, load, to_frame
from eyechart.datasets.questions.benchmark_files import inside, lmu_data_root
from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.datasets.questions.question_reader import (
    class_of,
    question_names,
    refuse_unscored,
    table_file,
    with_metric,
    with_options,
)
from eyechart.datasets.questions.row_table import RowTable, as_table
from eyechart.datasets.questions.table_files import read_tsv
from eyechart.datasets.registry import BENCHMARKS
from eyechart.errors import DataError, MissingExtraError, UsageError, unknown_name
from eyechart.messages import UserMessage

__all__ = [
    "DATASET_MODALITY", "DATASET_TYPE", "ConcatVideoDataset", "VideoBaseDataset", "build_dataset",
    "infer_dataset_basename",
]  # fmt: skip


class VideoBaseDataset:
    """A video benchmark: implement ``prepare_dataset``, ``build_prompt`` and ``evaluate``.

    Frames are sampled ``fps`` per second, or ``nframe`` per video, at equal distances; with neither, video models get
    the file.
    """

    MODALITY = "VIDEO"
    TYPE: ClassVar[str] = "Video-VQA"
    frame_tmpl = "frame-{}-of-{}.jpg"
    frame_tmpl_fps = "frame-{}-of-{}-{}fps.jpg"

    def __init__(self, dataset: str = "MMBench-Video", pack: bool = False, nframe: int = 0, fps: float = -1) -> None:
        if fps > 0 and nframe > 0:
            raise UsageError("fps and nframe are mutually exclusive.", advice="Omit one of them.")
        self.dataset_name, self.pack, self.nframe, self.fps = dataset, pack, nframe, fps
        self.split_frame = fps > 0 or nframe > 0
        found = self.prepare_dataset(dataset)
        self.data_root, self.data_file = str(found["root"]), str(found["data_file"])
        self.frame_root = str(Path(LMUDataRoot()) / "images" / dataset)
        table = as_table(load(self.data_file))
        for column in ("question", "video"):
            if column not in table:
                raise DataError("{path} has no column {name!r}.", path=self.data_file, name=column)
        if "index" not in table:
            table["index"] = range(len(table))
        self.data = to_frame(table)
        self.videos = sorted(set(table["video"]))

    def __len__(self) -> int:
        return len(self.videos) if self.pack else len(self.data)

    def __getitem__(self, idx: int) -> Any:
        if self.pack:
            rows = as_table(self.data).rows
            return to_frame(RowTable(row for row in rows if row["video"] == self.videos[idx]))
        return dict(self.data.iloc[idx])

    @classmethod
    def supported_datasets(cls) -> list[str]:
        """List the benchmarks of this class."""
        return []

    def prepare_dataset(self, dataset: str) -> dict[str, str]:
        """Return ``root``, the folder of the videos, and ``data_file``, the table."""
        raise NotImplementedError

    def build_prompt(self, line: Any, video_llm: bool = False) -> Any:
        """Return the message for a row."""
        raise NotImplementedError

    def evaluate(self, eval_file: str, **judge_kwargs: Any) -> Any:
        """Score a file of predictions."""
        raise NotImplementedError

    def frame_paths(self, video: str) -> list[str]:
        """Return the paths of ``nframe`` frames."""
        return self._paths(video, self.frame_tmpl, self.nframe)

    def frame_paths_fps(self, video: str, num_frames: int) -> list[str]:
        """Return the paths of frames sampled at ``fps``."""
        return self._paths(video, self.frame_tmpl_fps, num_frames)

    def save_video_frames(self, video: str) -> list[str]:
        """Write the missing frames of a video, read by decord, and return the paths of all."""
        paths = self.frame_paths(video) if self.nframe > 0 else []
        if paths and all(Path(path).is_file() for path in paths):
            return paths
        try:
            decord = import_module("decord")
        except ImportError as error:
            raise MissingExtraError(
                "Reading video frames needs decord.", advice="Install it with: pip install decord"
            ) from error
        reader = decord.VideoReader(str(inside(Path(self.data_root), f"{video}.mp4", "the video's name")))
        if self.fps > 0:
            step = reader.get_avg_fps() / self.fps
            places = [int(i * step) for i in range(int(len(reader) / step))]
            paths = self.frame_paths_fps(video, len(places))
        else:
            step = len(reader) / (self.nframe + 1)
            places = [int(i * step) for i in range(1, self.nframe + 1)]
        from PIL import Image

        for path, place in zip(paths, places, strict=True):
            if not Path(path).is_file():
                Image.fromarray(reader[place].asnumpy()).save(path)
        return paths

    def _paths(self, video: str, template: str, count: int) -> list[str]:
        folder = inside(Path(self.frame_root), video, "the video's name")
        folder.mkdir(parents=True, exist_ok=True)
        return [str(folder / template.format(i, count, self.fps)) for i in range(1, count + 1)]


class ConcatVideoDataset(VideoBaseDataset):
    """Several video benchmarks under one name, listed in ``DATASET_SETS``."""

    DATASET_SETS: ClassVar[dict[str, list[str]]] = {}

    def __init__(self, dataset: str, **kwargs: Any) -> None:
        self.dataset_name, self.datasets = dataset, self.DATASET_SETS[dataset]
        self.nframe, self.fps = kwargs.get("nframe", 0), kwargs.get("fps", -1)
        self.dataset_map: dict[str, Any] = {name: build_dataset(name, **kwargs) for name in self.datasets}
        rows = [
            {**row, "SUB_DATASET": name, "original_index": row["index"]}
            for name, made in self.dataset_map.items()
            for row in as_table(made.data).rows
        ]
        self.data = to_frame(RowTable({**row, "index": i} for i, row in enumerate(rows)))

    def build_prompt(self, line: Any, video_llm: bool = False) -> Any:
        """Build the prompt with the benchmark that the row is from."""
        row = dict(self.data.iloc[line] if isinstance(line, int) else line)
        own = {**row, "index": row["original_index"]}
        return self.dataset_map[row["SUB_DATASET"]].build_prompt(own, video_llm)

    def evaluate(self, eval_file: str, **judge_kwargs: Any) -> Any:
        """Score the rows of each benchmark separately; return the results by name."""
        rows = as_table(load(eval_file)).rows
        results = {}
        for name, made in self.dataset_map.items():
            own = [{**row, "index": row["original_index"]} for row in rows if row["SUB_DATASET"] == name]
            file = str(Path(eval_file).with_name(Path(eval_file).name.replace(self.dataset_name, name)))
            dump(RowTable(own), file)
            results[name] = made.evaluate(file, **judge_kwargs)
        return results


def build_dataset(dataset_name: str, *, metric: str = "", **kwargs: Any) -> Any:
    """Open a benchmark by name, by a name that a script's class declares, or a TSV file by path.

    ``metric`` scores open answers in a user's table. ``kwargs`` are arguments of the dataset class; unknown ones are
    ignored, as in the original.

    Raises:
        UnknownNameError: If the name is unknown and there is no such file.
        UsageError: If a metric is given for a benchmark that has its own, or the benchmark has no scorer.
    """
    known = known_benchmarks().get(dataset_name)
    made = _own_class(dataset_name) or (datasets.class_for(known) if known else None)
    if made is None and dataset_name in BENCHMARKS.names():
        made, kwargs = BENCHMARKS.load(dataset_name), {}
    if made is None:
        refuse_unscored(dataset_name)
        path = table_file(dataset_name)
        if path is None:
            advice = UserMessage("Or put your own table at {path}.", path=lmu_data_root() / f"{dataset_name}.tsv")
            raise unknown_name("benchmark", dataset_name, question_names(), advice=advice)
        columns = with_options(path.stem, read_tsv(path)).columns
        made, dataset_name = getattr(datasets, class_of(columns, path)), path.stem
        kwargs = {**kwargs, "file": path}
    taken = signature(made.__init__).parameters if kwargs else {}
    dataset = made(dataset_name, **{key: value for key, value in kwargs.items() if key in taken})
    for notice in getattr(dataset, "notices", ()):
        if notice.kind in ("other_file", "other_rules"):
            logging.getLogger("eyechart.vlm").warning(notice.message)
    if metric:
        with_metric(dataset.benchmark, metric)
        dataset.metric = metric
    return dataset


def DATASET_TYPE(dataset: str, *, default: str = "MCQ") -> str:  # noqa: N802 - the original's name
    """Return the type of a benchmark: MCQ, Y/N, VQA, Caption, MT, ..."""
    own = _own_class(dataset)
    if own is not None:
        return str(own.TYPE)
    if dataset in known_benchmarks():
        return known_benchmarks()[dataset].kind
    if "openended" in dataset.lower():
        return "VQA"
    warnings.warn(f"Unknown benchmark {dataset}: assuming {default}.", stacklevel=2)
    return default


def DATASET_MODALITY(dataset: str | None, *, default: str = "IMAGE") -> str:  # noqa: N802 - the original's name
    """Return the modality of a benchmark: IMAGE, VIDEO or TEXT."""
    known = known_benchmarks().get(dataset or "")
    made = _own_class(dataset or "") or (datasets.class_for(known) if known else None)
    if made is not None:
        return str(made.MODALITY)
    warnings.warn(f"Unknown benchmark {dataset}: assuming {default}.", stacklevel=2)
    return default


def infer_dataset_basename(dataset_name: str) -> str:
    """Return a name up to its last underscore."""
    return dataset_name.rpartition("_")[0]


def _own_class(name: str) -> Any:
    """Return the last class, of the script or of an imported file, that declares this benchmark."""
    found: Any = None
    left: list[Any] = [datasets.ImageBaseDataset, VideoBaseDataset]
    for one in left:
        left += one.__subclasses__()
        # A class whose file was reloaded may stay in memory: it is no longer in its module.
        module, inner = sys.modules.get(one.__module__), "." in one.__qualname__
        loaded = module is not None and (inner or getattr(module, one.__qualname__, None) is one)
        if loaded and not one.__module__.startswith("eyechart.") and name in one.supported_datasets():
            found = one
    return found
