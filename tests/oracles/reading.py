"""A reader of model files written from its recipe, one item at a time, with nothing but lists."""

import json
import math


def printed(value):
    """Print a group as the recipe says."""
    return None if value is None else str(value)


class Reader:
    """A model file, and what the recipe makes of it."""

    def __init__(self, text):
        self.model = json.loads(text)
        self.tables, self.settings = self.model["tables"], self.model["settings"]

    def fair(self, score, group, draw):
        """Return each step of an item's way."""
        names = [printed(part) for part in group]
        groups = self.model["groups"]
        code = groups.index(names) if names in groups else len(groups)
        told = {"code": code}
        if self.model["criterion"] == "opportunity":
            told |= self.opportunity(score, code, draw)
            fair = told["level"] if self.settings["scale"] == "unit" else self.back(told["level"])
        else:
            told |= self.odds(score, code, draw)
            fair = told.pop("drawn")
        alpha = self.settings["alpha"]
        fair = alpha * fair + (1 - alpha) * score
        kept = code == len(groups) and self.settings["unknown"] == "keep"
        return told | {"fair_score": score if kept else fair}

    def back(self, level):
        """Go the way back."""
        values = self.tables["return_scale"]
        x = level * (len(values) - 1)
        i = math.floor(x)
        return values[i] if i + 1 == len(values) else values[i] + (x - i) * (values[i + 1] - values[i])

    def opportunity(self, score, code, draw):
        """Find the cell, and the level in it."""
        values = self.tables["cdf"][code]["values"]
        return level_of(self.tables, values, score, draw, cubic=self.settings["interpolation"] == "cubic")

    def odds(self, score, code, draw):
        """Find the bin, the target bin, and the point in it."""
        tables = self.tables
        number = sum(end <= score for end in tables["edges"][1:-1])
        targets, chances = tables["kernel"][code]["rows"][number]
        held = [
            (target, chance / sum(chances))
            for target, chance in zip(targets, chances, strict=True)
            if chance > 0
        ]
        below, place = 0.0, 0
        while draw >= below + held[place][1] and place + 1 < len(held):
            below, place = below + held[place][1], place + 1
        target, chance = held[place]
        within = (draw - below) / chance
        order = tables.get("order")
        bins = len(tables["edges"]) - 1
        if order and code * bins + number in order["kept"] and target == number:
            level = level_of(order, order["cdf"][code], score, 0.0, cubic=False)["level"]
            low, high = order["below"][code][number : number + 2]
            within = min(max((level - low) / (high - low), 0.0), 1 - 2**-36)
        low, high = tables["target_levels"][target : target + 2]
        if self.settings["within"] == "empirical":
            drawn = self.back(low + within * (high - low))
        else:
            low, high = self.back(low), self.back(high)
            drawn = low + within * (high - low)
        return {"bin": number, "target": target, "within": within, "drawn": drawn}


def level_of(tables, values, score, draw, *, cubic):
    """Evaluate a function on cells."""
    cuts = tables["boundaries"]
    low, high = tables["low"], tables["high"]
    ends = [min(low, cuts[0]), *cuts, max(high, cuts[-1])] if cuts else [low, max(low, high)]
    cell = sum(end <= score for end in ends) - 1
    if cell < 0:
        return {"cell": cell, "level": 0.0}
    if cell == len(ends) - 1:
        return {"cell": cell, "level": 1.0}
    rise = values[cell + 1] - values[cell]
    if cell in tables["atoms"]:
        return {"cell": cell, "level": values[cell] + draw * rise}
    width = ends[cell + 1] - ends[cell]
    far = score - ends[cell]
    if not cubic:
        return {"cell": cell, "level": values[cell] + far / width * rise}
    slope = rise / width
    first = slope_at(cell, ends, values, tables["atoms"], slope)
    last = slope_at(cell + 1, ends, values, tables["atoms"], slope)
    square = (3 * slope - 2 * first - last) / width
    cube = (first + last - 2 * slope) / width**2
    return {"cell": cell, "level": values[cell] + far * (first + far * (square + far * cube))}


def slope_at(end, ends, values, atoms, own):
    """Return the slope of a monotone cubic at an end of a cell whose own slope is given."""
    if end in {0, len(ends) - 1} or end - 1 in atoms or end in atoms:
        return own
    left_width, right_width = ends[end] - ends[end - 1], ends[end + 1] - ends[end]
    if not left_width > 0 or not right_width > 0:
        return own
    left, right = (values[end] - values[end - 1]) / left_width, (values[end + 1] - values[end]) / right_width
    if left <= 0 or right <= 0:
        return 0.0
    p, q = 2 * right_width + left_width, right_width + 2 * left_width
    return (p + q) / (p / left + q / right)
