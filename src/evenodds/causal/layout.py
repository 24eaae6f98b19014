"""Where variables and arrows stand in a picture: causes left of effects, arrows bent round what is in their way.

Everything is in pixels, y growing downwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenodds.causal.graph import CausalGraph, networkx

Floats = npt.NDArray[np.float64]

_HEIGHT = 26.0
_CHARACTER = 7.4  # of 13-pixel sans serif, on the wide side
_GAP = (56.0, 34.0)  # between layers, and between the variables of one
_BENDS = (0.0, 0.25, -0.25, 0.45, -0.45, 0.7, -0.7, 1.0, -1.0)  # of the arrow's length, until it is clear
_CLEAR = 8.0
_SAMPLES = 121


@dataclass(frozen=True)
class Box:
    """A variable: its name in a box."""

    name: str
    x: float
    y: float
    width: float

    def distance(self, points: Floats) -> Floats:
        """Return how far points lie outside the box; 0 within."""
        away = np.abs(points - [self.x, self.y]) - [self.width / 2, _HEIGHT / 2]
        return np.hypot(*np.maximum(away, 0.0).T)

    @property
    def sides(self) -> tuple[float, float, float, float]:
        """Left, right, top and bottom."""
        return (
            self.x - self.width / 2,
            self.x + self.width / 2,
            self.y - _HEIGHT / 2,
            self.y + _HEIGHT / 2,
        )


@dataclass(frozen=True)
class Curve:
    """An arrow: points from box to box, and the angle of its head, clockwise from upwards."""

    points: Floats
    angle: float


@dataclass(frozen=True)
class Layout:
    """A graph laid out; the corner furthest from the origin is `size`."""

    boxes: tuple[Box, ...]
    curves: dict[tuple[str, str], Curve]
    size: tuple[float, float]


def lay_out(graph: CausalGraph) -> Layout:
    """Lay a graph out, the same way every time."""
    boxes = _boxes(graph)
    curves = {(one, two): _curve(boxes, one, two) for one, two in graph.arrows}
    corners = [np.array([box.sides[1], box.sides[3]]) for box in boxes.values()]
    starts = [np.array([box.sides[0], box.sides[2]]) for box in boxes.values()]
    for curve in curves.values():
        corners.append(curve.points.max(axis=0))
        starts.append(curve.points.min(axis=0))
    shift = 10.0 - np.min(starts, axis=0)
    size = np.max(corners, axis=0) + shift + 10.0
    moved = tuple(Box(box.name, box.x + shift[0], box.y + shift[1], box.width) for box in boxes.values())
    return Layout(
        moved,
        {edge: Curve(curve.points + shift, curve.angle) for edge, curve in curves.items()},
        (float(size[0]), float(size[1])),
    )


def _boxes(graph: CausalGraph) -> dict[str, Box]:
    """Put each variable one layer right of its last cause, near the height of its neighbours."""
    layers = [list(layer) for layer in networkx().topological_generations(graph.network)]
    place = {name: number for number, name in enumerate(graph.variables)}
    for layer in layers:
        layer.sort(key=place.__getitem__)
    heights = _heights(layers)
    network = graph.network.to_undirected(as_view=True)
    for _ in range(4):  # barycentres, there and back
        for layer in [*layers, *reversed(layers)]:
            middle = {
                name: np.mean([heights[other] for other in network[name]] or [heights[name]])
                for name in layer
            }
            layer.sort(key=lambda name: (round(float(middle[name]), 6), place[name]))
            heights |= _heights([layer])
    boxes, left = {}, 0.0
    for layer in layers:
        widths = {name: max(_CHARACTER * len(name) + 18.0, 34.0) for name in layer}
        column = max(widths.values())
        for name in layer:
            boxes[name] = Box(name, left + column / 2, heights[name], widths[name])
        left += column + _GAP[0]
    return boxes


def _heights(layers: list[list[str]]) -> dict[str, float]:
    step = _HEIGHT + _GAP[1]
    return {
        name: step * (number - (len(layer) - 1) / 2) for layer in layers for number, name in enumerate(layer)
    }


def _curve(boxes: dict[str, Box], one: str, two: str) -> Curve:
    """Bend an arrow as little as keeps it clear of other variables."""
    start, end = boxes[one], boxes[two]
    others = [box for name, box in boxes.items() if name not in {one, two}]
    best: tuple[float, Floats] | None = None
    for bend in _BENDS:
        points = _bezier(np.array([start.x, start.y]), np.array([end.x, end.y]), bend)
        clear = min((float(box.distance(points).min()) for box in others), default=_CLEAR)
        if best is None or clear > best[0] + 1.0:
            best = (clear, points)
        if clear >= _CLEAR:
            break
    points = best[1] if best else np.zeros((0, 2))
    outside = (start.distance(points) > 0) & (end.distance(points) > 5.0)
    points = points[outside] if outside.sum() > 1 else points
    dx, dy = points[-1] - points[-2]
    return Curve(points, float(np.degrees(np.arctan2(dx, -dy))))


def _bezier(start: Floats, end: Floats, bend: float) -> Floats:
    way = end - start
    control = (start + end) / 2 + 2 * bend * np.array([way[1], -way[0]]) / 2
    t = np.linspace(0.0, 1.0, _SAMPLES)[:, None]
    points: Floats = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    return points
