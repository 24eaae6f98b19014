"""The JSON Schema (draft 2020-12) of model files: what a reader in another language can rely on."""

from __future__ import annotations

from typing import Any

from evenodds.model_file import FORMAT, VERSION

Schema = dict[str, Any]


def model_schema() -> Schema:
    """Return the schema of model files of both criteria.

    Within a version keys may be added; none is removed, renamed or given another meaning.

    >>> sorted(model_schema()["required"])[:3]
    ['checksum', 'criterion', 'diagnostics']
    """
    properties = {
        "format": {"const": FORMAT},
        "version": _said("The version of the format.", const=VERSION),
        "criterion": _said("Which of the two transforms the tables are for.", enum=["opportunity", "odds"]),
        "written_by": _said("The program and its version.", type="string"),
        "settings": _said("What the model was fitted with.", type="object"),
        "fitted_on": _fitted_on(),
        "group_columns": _list(_TEXT, "The columns that make up a group.", minItems=1),
        "groups": _list(
            _list(_TEXT, "One name for each group column.", minItems=1),
            "The groups. The code of a group is its place in this list, from 0 on; an unknown group has the "
            "code past the last one, and takes the tables' last row, `pooled`.",
            minItems=1,
        ),
        "diagnostics": _said("What the fit expects and warns of; for people.", type="object"),
        "position_bias": _position_bias(),
        "salt": _said("16 hexadecimal digits; makes the model's draws its own.", type="string", pattern=_HEX),
        "tables": _said("The numbers that the transform computes with.", type="object"),
        "checksum": _said(
            "The SHA-256 of the file's bytes from the first brace up to, not including, the comma before this entry.",
            type="string",
            pattern="^sha256:[0-9a-f]{64}$",
        ),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:evenodds:model:{VERSION}",
        "title": "A fitted model of evenodds",
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "oneOf": [
            {
                "properties": {
                    "criterion": {"const": criterion},
                    "settings": {"$ref": f"#/$defs/{criterion}_settings"},
                    "tables": {"$ref": f"#/$defs/{criterion}_tables"},
                }
            }
            for criterion in ("opportunity", "odds")
        ],
        "$defs": {
            "opportunity_settings": _object(_opportunity_settings()),
            "opportunity_tables": _object(_opportunity_tables()),
            "odds_settings": _object(_odds_settings()),
            "odds_tables": _object(_odds_tables(), optional=("order",)),
        },
    }


_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_HEX = "^[0-9a-f]{16}$"
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}


def _said(description: str, **schema: Any) -> Schema:
    return {"description": description, **schema}


def _list(items: Schema, description: str, **limits: int) -> Schema:
    return {"description": description, "type": "array", "items": items, **limits}


def _whole(minimum: int, description: str) -> Schema:
    return _said(description, type="integer", minimum=minimum)


def _object(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "required": [name for name in properties if name not in optional],
        "properties": properties,
    }


def _fitted_on() -> Schema:
    return _object(
        {
            "rows": _said("Rows of the log.", type="number", minimum=0),
            "sources": _list(_TEXT, "What the log was called."),
            "roles": _said("Which column was what.", type="object"),
            "weighted": _said("Whether rows had weights.", type="boolean"),
        }
    )


def _position_bias() -> Schema:
    return {
        "description": "What a positive label at each position is worth; not needed to transform.",
        "type": "object",
        "required": ["method", "positions", "weights"],
        "properties": {
            "method": _TEXT,
            "positions": _list({"type": "integer"}, "The positions, from the top on."),
            "weights": _list(
                _NUMBER, "The chance that a label that would be positive at the top is positive there."
            ),
            "standard_errors": {"description": "Of the weights.", "type": ["array", "null"]},
            "goodness": {"description": "A test of the estimator's assumption.", "type": ["object", "null"]},
            "notes": _list(_TEXT, "What a reader must know."),
        },
    }


def _common_settings() -> dict[str, Schema]:
    return {
        "alpha": _said("How far to go: alpha x fair score + (1 - alpha) x score.", **_SHARE),
        "position_bias": _said(
            "How position bias was estimated, or the weights.", type=["string", "array", "object"]
        ),
        "min_positives": _whole(1, "A group with fewer takes the pooled row; the tables hold the outcome."),
        "unknown": _said(
            "What an unknown group gets: the pooled row, its score as it is, or an error.",
            enum=["pooled", "keep", "error"],
        ),
    }


def _opportunity_settings() -> dict[str, Schema]:
    return _common_settings() | {
        "scale": _said("unit: no way back, fair scores lie in [0, 1].", enum=["original", "unit"]),
        "points": _whole(2, "Steps of the way back."),
        "interpolation": _said("Between the points of `cdf`.", enum=["linear", "cubic"]),
    }


def _cells() -> dict[str, Schema]:
    return {
        "low": _said("Where the first cell begins, if that is below all boundaries.", **_NUMBER),
        "high": _said("Where the last cell ends, if that is above all boundaries.", **_NUMBER),
        "boundaries": _list(
            _NUMBER,
            "Ascending. The cells' ends are min(low, first boundary), the boundaries, max(high, last boundary); "
            "without boundaries low and max(low, high). A cell holds its lower end, not its upper one.",
        ),
        "atoms": _list(
            {"type": "integer", "minimum": 0},
            "Cells (from 0 on) that hold one score only. There a function jumps from its lower end's value to "
            "its upper end's, and the draw says how far up.",
        ),
    }


def _opportunity_tables() -> dict[str, Schema]:
    row = _object(
        {
            "group": _said("The group's name, or `pooled`.", type="string"),
            "values": _list(
                _SHARE, "Its distribution function at the cells' ends, ascending from 0 to 1.", minItems=2
            ),
        }
    )
    return _cells() | {
        "cdf": _list(row, "One row a group in the order of `groups`, and last the pooled one.", minItems=2),
        "return_scale": _return_scale(),
    }


def _return_scale() -> Schema:
    return _list(
        _NUMBER,
        "The way back: the score at evenly spaced levels from 0 to 1, straight in between. With N + 1 values and "
        "x = level x N, i = floor(x): value[i] + (x - i) x (value[i + 1] - value[i]).",
        minItems=2,
    )


def _odds_settings() -> dict[str, Schema]:
    return _common_settings() | {
        "bins": _whole(1, "Score bins asked for; the tables may have fewer."),
        "binning": _said("How bins were cut.", enum=["quantile", "equal"]),
        "objective": _said("What the kernel is best at.", enum=["movement", "auc"]),
        "order": _said("The order of the bins on the frontier.", enum=["likelihood", "score"]),
        "target": _said("Given which label groups are alike.", enum=["merit", "observed"]),
        "epsilon": _said(
            "How far groups may differ, for all labels or one by one; without a limit `infinity`.",
            type=["number", "string", "array", "null"],
        ),
        "cost": _said("What a move costs.", enum=["score", "rank"]),
        "within": _said(
            "empirical: the point in a target bin is drawn evenly in levels and goes the way back; uniform: it is "
            "drawn evenly between the scores of the bin's two levels.",
            enum=["empirical", "uniform"],
        ),
        "keep_order": _said("Whether there is the table `order`.", type="boolean"),
        "gap": _said("How near to the optimum the fit had to come.", **_NUMBER),
        "time_limit": _said("Seconds the fit was given.", **_NUMBER),
    }


def _odds_tables() -> dict[str, Schema]:
    move = {
        "description": "Where a bin moves to: the target bins, ascending, and how likely each is.",
        "type": "array",
        "prefixItems": [
            _list({"type": "integer", "minimum": 0}, "Target bins."),
            _list(_NUMBER, "Probabilities; they sum to 1."),
        ],
        "minItems": 2,
        "maxItems": 2,
    }
    kernel = _object(
        {
            "group": _said("The group's name, or `pooled`.", type="string"),
            "rows": _list(move, "One row a score bin.", minItems=1),
        }
    )
    return {
        "edges": _list(
            _NUMBER, "Ends of the score bins; the first and the last bin are open-ended.", minItems=2
        ),
        "target_levels": _list(
            _SHARE, "Ends of the target bins, as shares of all scores, ascending from 0 to 1.", minItems=2
        ),
        "kernel": _list(kernel, "One a group in the order of `groups`, and last the pooled one.", minItems=2),
        "return_scale": _return_scale(),
        "order": _object(
            {
                "kept": _list(
                    {"type": "integer", "minimum": 0},
                    "Rows (code x bins + bin) in which an item that stays in its bin keeps its place among its group.",
                ),
                "rows": _whole(1, "How many rows there are."),
                "below": _list(
                    _list(_SHARE, "One value a bin edge."),
                    "For each group, the share of its scores below each bin edge.",
                ),
                "cdf": _list(
                    _list(_SHARE, "One value a cell end."),
                    "For each group, the share of its scores below each cell end.",
                ),
            }
            | _cells()
        ),
    }
