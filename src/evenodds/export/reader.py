"""A folder for whoever writes a reader: the schema of model files, golden vectors of a model, and the recipe."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from evenodds.errors import OutputError
from evenodds.export.schema import model_schema
from evenodds.export.vectors import golden_vectors
from evenodds.files import PathLike, written_aside
from evenodds.reranker import Reranker

NAMES = ("model.schema.json", "vectors.json", "README.md")


def to_json_schema(model: Reranker, folder: PathLike, *, overwrite: bool = False) -> None:
    """Write the schema of model files, golden vectors of this model, and a recipe, into a folder.

    The folder is made if it is not there; files of these names in it stay unless `overwrite` is set.
    """
    recipe = files("evenodds.export").joinpath("recipe.md").read_text(encoding="utf-8")
    made = {
        "model.schema.json": json.dumps(model_schema(), indent=2, ensure_ascii=False) + "\n",
        "vectors.json": json.dumps(golden_vectors(model), indent=1, ensure_ascii=False) + "\n",
        "README.md": f"# From a model file of evenodds to a fair score\n\n{recipe}",
    }
    target = check_folder(folder, overwrite=overwrite)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {target}: {error.strerror or error}") from error
    for name, text in made.items():
        with written_aside(target / name, overwrite=overwrite) as aside:
            aside.write_text(text, encoding="utf-8")


def check_folder(folder: PathLike, *, overwrite: bool) -> Path:
    """Refuse a folder that cannot be written, before any work is done for it."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise OutputError(f"{target} is a file; expected a folder, new or empty")
    if not target.parent.is_dir():
        raise OutputError(f"cannot make the folder {target}: there is no folder {target.parent}")
    there = [name for name in NAMES if (target / name).exists()]
    if there and not overwrite:
        raise OutputError(
            f"{target / there[0]} exists already", hint="choose another folder, or overwrite it with --force"
        )
    return target
