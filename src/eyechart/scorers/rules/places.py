"""Answers that are a point or a box in an image. ``image_size`` is the width and height of the row's image."""

import base64
import binascii
import re
from collections.abc import Sequence

from eyechart.metrics.cell_values import Row, as_text, finite_number, numbers, read_literal, unfenced
from eyechart.metrics.structures import in_box, in_polygon, overlap
from eyechart.scorers.rule import RuleResult

_NUMBER = r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?"
_BRACKETED = re.compile(rf"\[\s*({_NUMBER})" + rf"(?:\s*,\s*|\s+)({_NUMBER})" * 3 + r"\s*\]")
_RELATIVE = re.compile(r"(\d?(?:\.\d+)?),\s?(\d?(?:\.\d+)?),\s?(\d?(?:\.\d+)?),\s?(\d?(?:\.\d+)?)")
_CLICK = re.compile(r"x=([\d.]+), y=([\d.]+)")
_PAIR = re.compile(r"\(\s*([\d.]+)\s*,\s*([\d.]+)\s*\)")
NOWHERE = [0.0, 0.0, 0.0, 0.0]
_FOUR = re.compile(r"(-?\d+(?:\.\d+)?)[\s,]+(-?\d+(?:\.\d+)?)[\s,]+(-?\d+(?:\.\d+)?)[\s,]+(-?\d+(?:\.\d+)?)")


def _size(row: Row) -> tuple[float, float]:
    given = row.get("image_size")
    found = numbers(given if isinstance(given, list | tuple) else read_literal(as_text(given)))
    if len(found) != 2 or min(found) <= 0:
        raise ValueError(f"row {as_text(row.get('index'))!r} has no image whose size is known")
    return found[0], found[1]


def centre(row: Row, text: str) -> RuleResult:
    """Whether the centre of the answer's only box, in fractions of the image, lies in the right one (TDBench).

    The grade ``overlap`` is the IoU of the boxes, VLMEvalKit's second method (``--judge iou``).
    """
    found = [_RELATIVE.findall(value.replace("\n", "")) for value in (text, as_text(row["answer"]))]
    try:
        said, wanted = ([*map(float, box)] for [box] in found)
    except ValueError:  # none, several, or without digits
        return RuleResult(None, 0.0, {"overlap": 0.0})
    hit = in_box((said[0] + said[2]) / 2, (said[1] + said[3]) / 2, wanted)
    return RuleResult(str(said), float(hit), {"overlap": overlap(said, wanted)})


def click(row: Row, text: str, *, box: str = "corners", unit: str = "image") -> RuleResult:
    """Whether a click ``x=1, y=2`` hits the row's ``bbox``: two corners, or a corner and a size.

    ``unit``: of the click: fractions of the image or pixels (``image``), or thousandths. An answer without a click is
    unreadable (VLMEvalKit takes it for a click at the upper left corner).
    """
    width, height = _size(row)
    target = numbers(row["bbox"] if isinstance(row["bbox"], list) else read_literal(as_text(row["bbox"])))
    if len(target) != 4:
        raise ValueError(f"row {as_text(row.get('index'))!r} has the bbox {row['bbox']!r}, not four numbers")
    if box != "corners":
        last = 1 if box == "size_within" else 0
        target = [target[0], target[1], target[0] + target[2] - last, target[1] + target[3] - last]
    found = _CLICK.search(text)
    if found is None:
        return RuleResult(None, 0.0, facts={"unread": 0.0})  # not an error of format in VLMEvalKit's table
    try:
        x, y = float(found[1]), float(found[2])
    except ValueError:
        return RuleResult(None, 0.0, facts={"unread": 1.0})
    if unit == "thousandths":
        x, y = x / 1000, y / 1000
    elif x > 1 or y > 1:
        x, y = x / width, y / height
    left, upper, right, lower = (0.0 if edge == -1 else edge for edge in target)
    hit = in_box(x, y, (left / width, upper / height, right / width, lower / height))
    return RuleResult(f"{x}, {y}", float(hit), facts={"unread": 0.0})


def box_overlap(row: Row, text: str) -> RuleResult:
    """Compare boxes by IoU; from one half on it is a hit (RefCOCO).

    The answer's box is in fractions (up to 1.5), thousandths (up to 1000) or pixels of the row's ``width`` and
    ``height``. The right one is in pixels: in four columns, else in ``answer``.
    """
    width, height = (max(finite_number(as_text(row.get(side))) or 0.0, 0.0) or 1.0 for side in ("width", "height"))
    sides = (width, height) * 2
    said, wanted = _four_numbers(text), _right_box(row, sides)
    if said is None or wanted is None:
        return RuleResult(None, 0.0, {"overlap": 0.0})
    most = max(map(abs, said))
    unit = 1.0 if most <= 1.5 else 1000.0 if most <= 1000 else 0.0
    scaled = [edge / unit * side if unit else edge for edge, side in zip(said, sides, strict=True)]
    x, y, right, lower = (min(max(edge, 0.0), side) for edge, side in zip(scaled, sides, strict=True))
    shared = overlap([min(x, right), min(y, lower), max(x, right), max(y, lower)], wanted)
    return RuleResult(str(said), float(shared >= 0.5), {"overlap": shared})


def _right_box(row: Row, sides: Sequence[float]) -> list[float] | None:
    for names in (("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"), ("x1", "y1", "x2", "y2")):
        edges = [edge for name in names if (edge := finite_number(as_text(row.get(name)))) is not None]
        if len(edges) == 4:
            return edges
    found = _four_numbers(as_text(row.get("answer"))) or _four_numbers(as_text(row.get("bbox")))
    if found is None or max(map(abs, found)) > 1.5:
        return found
    return [edge * side for edge, side in zip(found, sides, strict=True)]


def _four_numbers(text: str) -> list[float] | None:
    bracketed = _BRACKETED.search(text)
    found = bracketed.groups() if bracketed else re.findall(_NUMBER, text)[:4]
    return [float(number) for number in found] if len(found) == 4 else None


def referred(row: Row, text: str) -> RuleResult:
    """Compare the box of an object, or its absence (``subtask_l1`` Rejection), by IoU (GroundingME)."""
    width, height = float(as_text(row["width"])), float(as_text(row["height"]))
    wanted = numbers(read_literal(as_text(row["answer"])))
    if len(wanted) != 4 or as_text(row["subtask_l1"]) == "Rejection":
        wanted = NOWHERE
    said = _named_box(text)
    unit = 1.0 if all(edge <= 1 for edge in said) else 999.0
    scaled = [edge / unit * side for edge, side in zip(said, (width, height) * 2, strict=True)]
    shared = max(float(box == NOWHERE) if wanted == NOWHERE else overlap(wanted, box) for box in (said, scaled))
    grades = {f"acc_{int(100 * limit)}": float(shared >= limit) for limit in (0.5, 0.75, 0.9)}
    return RuleResult(str(said), shared, grades)


def _named_box(text: str) -> list[float]:
    found = re.search(r'\{.*"bbox_2d".*\}', text, re.DOTALL)
    value = read_literal(found[0]) if found else None
    if isinstance(value, dict):
        box = numbers(value.get("bbox_2d"))
        if value.get("bbox_2d") is None or len(box) == 4:
            return box or NOWHERE
    last = _FOUR.findall(text)
    return [float(edge) for edge in last[-1]] if last else NOWHERE


def in_mask(row: Row, text: str) -> RuleResult:
    """Whether one of the points lies where the row's ``mask``, a base64 image, is not black (RefSpatial)."""
    from eyechart.io.images import open_image

    points = _points(text)
    if not points:
        return RuleResult(None, 0.0)
    where = f"the mask of row {as_text(row.get('index'))!r}"
    try:
        mask = open_image(base64.b64decode(as_text(row.get("mask"))), where).convert("L")
    except binascii.Error as error:
        raise ValueError(f"{where} is not base64 ({error})") from error
    pixels, width, height = mask.tobytes(), mask.width, mask.height
    places = [(min(max(int(x * width), 0), width - 1), min(max(int(y * height), 0), height - 1)) for x, y in points]
    return RuleResult(str(points), float(any(pixels[y * width + x] for x, y in places)))


def _points(text: str) -> list[tuple[float, float]]:
    """Parse points as fractions of the image: JSON, ``<points x1=.. y1=..>`` in percent, or pairs in brackets."""
    value = read_literal(unfenced(text))
    items = value if isinstance(value, list) else [value]
    found = []
    for item in items:
        pair = numbers(item) if isinstance(item, list) else []
        if isinstance(item, dict):
            pair = numbers(item["point_2d"]) if "point_2d" in item else numbers(item.get("point"))[::-1]  # (y, x)
        found += [_parts(pair[0], pair[1], 1000)] if len(pair) == 2 else []
    if found:
        return found
    tag = re.search(r"<points\s+(.*?)/>", text)
    marked = re.findall(r'x\d+="([\d.]+)"\s+y\d+="([\d.]+)"', tag[1]) if tag else []
    try:
        if marked:
            return [_parts(float(x), float(y), 100) for x, y in marked]
        return [(float(x), float(y)) for x, y in _PAIR.findall(text)]
    except ValueError:
        return []


def _parts(x: float, y: float, whole: float) -> tuple[float, float]:
    return (x / whole, y / whole) if x > 1 or y > 1 else (x, y)


def pointed(row: Row, text: str) -> RuleResult:
    """Compare yes or no at the start, or whether the first point lies in the right polygon (RoboSpatial)."""
    target, said = as_text(row["answer"]).strip(), text.strip()
    if target.lower() in {"yes", "no"}:
        return RuleResult(said, float(said.lower().startswith(target.lower())), facts={"unread": float(not said)})
    polygon = read_literal(target)
    items = polygon if isinstance(polygon, list | tuple) else []
    corners = [pair for item in items if len(pair := numbers(item)) == 2]
    point = _first_point(said, _size(row))
    if point is None or len(corners) < 3:
        return RuleResult(None, 0.0, facts={"unread": 1.0})
    return RuleResult(str(point), float(in_polygon(*point, corners)), facts={"unread": 0.0})


def _first_point(text: str, size: tuple[float, float]) -> tuple[float, float] | None:
    value = read_literal(unfenced(text))
    for item in value if isinstance(value, list) else [value]:
        pair = numbers(item.get("point_2d") or item.get("point")) if isinstance(item, dict) else []
        if len(pair) == 2:
            most = max(map(abs, pair))
            units = (1.0, 1.0) if most <= 1.5 else (1000.0, 1000.0) if most <= 1000 else size
            return pair[0] / units[0], pair[1] / units[1]
    found = re.search(rf"\(\s*({_NUMBER})\s*,\s*({_NUMBER})(?:\s*,\s*({_NUMBER})\s*,\s*({_NUMBER}))?\s*\)", text)
    if not found:
        return None
    values = [float(number) for number in found.groups() if number is not None]
    if len(values) == 4:
        values = [(values[0] + values[2]) / 2, (values[1] + values[3]) / 2]
    inside = max(values) <= 1.5
    return (values[0], values[1]) if inside else (values[0] / size[0], values[1] / size[1])
