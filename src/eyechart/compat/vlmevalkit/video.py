"""Base classes for benchmarks on videos: tables with a column ``video``, asked by the frames of the video."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from eyechart.compat.vlmevalkit.files import LMUDataRoot, dump, load
from eyechart.compat.vlmevalkit.frames import to_frame
from eyechart.datasets.questions.folders import inside
from eyechart.datasets.questions.rows import RowTable, as_table
from eyechart.errors import DataError, MissingExtraError, UsageError

__all__ = ["ConcatVideoDataset", "VideoBaseDataset"]


class VideoBaseDataset:
    """A benchmark on videos: implement ``prepare_dataset``, ``build_prompt`` and ``evaluate``.

    Frames are taken ``fps`` per second, or ``nframe`` of a video, at equal distances; without either, models that take
    videos get the file.
    """

    MODALITY = "VIDEO"
    TYPE: ClassVar[str] = "Video-VQA"
    frame_tmpl = "frame-{}-of-{}.jpg"
    frame_tmpl_fps = "frame-{}-of-{}-{}fps.jpg"

    def __init__(self, dataset: str = "MMBench-Video", pack: bool = False, nframe: int = 0, fps: float = -1) -> None:
        if fps > 0 and nframe > 0:
            raise UsageError("Frames are chosen by fps or by nframe, not by both.", advice="Leave one of them out.")
        self.dataset_name, self.pack, self.nframe, self.fps = dataset, pack, nframe, fps
        self.split_frame = fps > 0 or nframe > 0
        found = self.prepare_dataset(dataset)
        self.data_root, self.data_file = str(found["root"]), str(found["data_file"])
        self.frame_root = str(Path(LMUDataRoot()) / "images" / dataset)
        table = as_table(load(self.data_file))
        for column in ("question", "video"):
            if column not in table:
                raise DataError(f"{self.data_file} has no column {column!r}.")
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
        """Name the files of ``nframe`` frames."""
        folder = self._frames_of(video)
        return [str(folder / self.frame_tmpl.format(i, self.nframe)) for i in range(1, self.nframe + 1)]

    def frame_paths_fps(self, video: str, num_frames: int) -> list[str]:
        """Name the files of frames at a rate."""
        folder = self._frames_of(video)
        return [str(folder / self.frame_tmpl_fps.format(i, num_frames, self.fps)) for i in range(1, num_frames + 1)]

    def save_video_frames(self, video: str) -> list[str]:
        """Write the frames of a video that are not there yet, and return their paths.

        Raises:
            MissingExtraError: If decord, which reads videos, is not installed.
        """
        paths = self.frame_paths(video) if self.nframe > 0 else []
        if paths and all(Path(path).is_file() for path in paths):
            return paths
        decord = _decord()
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

    def _frames_of(self, video: str) -> Path:
        folder = inside(Path(self.frame_root), video, "the video's name")
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _decord() -> Any:
    try:
        return import_module("decord")
    except ImportError as error:
        raise MissingExtraError("Frames are read by decord.", advice="Install it with: pip install decord") from error


class ConcatVideoDataset(VideoBaseDataset):
    """Several benchmarks on videos under one name: ``DATASET_SETS`` names them."""

    DATASET_SETS: ClassVar[dict[str, list[str]]] = {}

    def __init__(self, dataset: str, **kwargs: Any) -> None:
        from eyechart.compat.vlmevalkit.build import build_dataset

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
        """Let the benchmark that the row is from ask."""
        row = dict(self.data.iloc[line] if isinstance(line, int) else line)
        own = {**row, "index": row["original_index"]}
        return self.dataset_map[row["SUB_DATASET"]].build_prompt(own, video_llm)

    def evaluate(self, eval_file: str, **judge_kwargs: Any) -> Any:
        """Let each benchmark score its own rows; return what they say by their names."""
        rows = as_table(load(eval_file)).rows
        results = {}
        for name, made in self.dataset_map.items():
            own = [{**row, "index": row["original_index"]} for row in rows if row["SUB_DATASET"] == name]
            file = str(Path(eval_file).with_name(Path(eval_file).name.replace(self.dataset_name, name)))
            dump(RowTable(own), file)
            results[name] = made.evaluate(file, **judge_kwargs)
        return results
