"""The schema, the golden vectors, and the reader in the pages: what another language needs, and that it is enough."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import evenodds as eo
from evenodds.cli import main
from evenodds.export import to_json_schema
from evenodds.export.schema import model_schema
from evenodds.export.vectors import golden_vectors
from fitted_models import NAMES, fitted
from oracles import hashing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "readers.md").read_text("utf-8")
READER = re.search(r"```js\n(.*?)```", PAGE, re.DOTALL)[1]
# What forty lines leave out.
LONGER = [name for name in NAMES if "cubic" in name or "uniform" in name or "kept order" in name]


def valid(value, schema=None):
    return jsonschema.Draft202012Validator(schema or model_schema()).is_valid(value)


def file_of(model):
    return json.loads(model.to_text())


@pytest.mark.parametrize("name", NAMES)
def test_model_files_follow_the_schema(name):
    """Files of every kind of model are as the schema says, and are JSON without NaN and infinity."""
    strict = json.loads(
        fitted(name).to_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON")
    )
    jsonschema.Draft202012Validator(model_schema()).validate(strict)


def test_infinity_is_a_word_in_the_file(tmp_path):
    """A label without a limit is written as a word, since JSON has no infinity, and read back as what it was."""
    model = fitted("odds, one label free")
    model.save(tmp_path / "m.json")
    assert file_of(model)["settings"]["epsilon"] == ["infinity", 0.0]
    again = eo.load(tmp_path / "m.json")
    assert list(again.epsilon) == [float("inf"), 0.0]
    assert again.to_text() == model.to_text()


def test_the_schema_is_one():
    """It is a schema of its draft, and the golden model file follows it too."""
    jsonschema.Draft202012Validator.check_schema(model_schema())
    assert valid(json.loads((ROOT / "tests" / "golden" / "model.json").read_text("utf-8")))


def described(value, schema, root, path=""):
    """Return the entries of a value that its schema does not describe."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    missing = []
    if isinstance(value, dict) and "properties" in schema:
        for key, entry in value.items():
            if key in schema["properties"]:
                missing += described(entry, schema["properties"][key], root, f"{path}.{key}")
            else:
                missing.append(f"{path}.{key}")
    if isinstance(value, list) and value and "items" in schema:
        missing += described(value[0], schema["items"], root, f"{path}[]")
    return missing


@pytest.mark.parametrize("name", ["opportunity, ties", "odds, kept order"])
def test_the_schema_describes_every_entry(name):
    """No entry of a model file goes without a description."""
    body, schema = file_of(fitted(name)), model_schema()
    kind = body["criterion"]
    parts = {part: schema["$defs"][f"{kind}_{part}"] for part in ("settings", "tables")}
    schema["properties"] |= parts
    assert described(body, schema, schema) == []


@pytest.mark.parametrize("name", ["opportunity, plain", "odds, movement"])
def test_the_schema_refuses_other_files(name):
    """A file of another version, without a table, or with an entry of another kind is refused."""
    body = file_of(fitted(name))
    other = "odds" if body["criterion"] == "opportunity" else "opportunity"
    settings, tables = body["settings"], body["tables"]
    broken = [
        {**body, "version": 2},
        {**body, "criterion": other},
        {**body, "salt": "12"},
        {**body, "checksum": "sha256:0"},
        {**body, "groups": []},
        {**body, "settings": {**settings, "alpha": 1.5}},
        {**body, "settings": {**settings, "unknown": "drop"}},
        {**body, "tables": {**tables, "return_scale": ["0"]}},
        *({**body, "tables": {name: tables[name] for name in tables if name != left}} for left in tables),
        *({name: body[name] for name in body if name != left} for left in body),
    ]
    assert valid(body)
    assert [place for place, value in enumerate(broken) if valid(value)] == []


def as_keys(parts):
    return tuple([part["text"]] if "text" in part else np.array([int(part["whole"])]) for part in parts)


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_what_transform_gives(name):
    """Every item's fair score is the one of `transform` on a model that was read from its file."""
    model = fitted(name)
    vectors = json.loads(json.dumps(golden_vectors(model)))
    assert vectors["model"] == file_of(model)["checksum"]
    assert len(vectors["items"]) >= 4 * len(model.groups_[:8])
    for item in vectors["items"]:
        group = tuple([part] for part in item["group"])
        keys = as_keys(item["key"]) if "key" in item else None
        fair = model.transform([item["score"]], group if len(group) > 1 else group[0], keys=keys)
        assert fair[0] == item["fair_score"]


@pytest.mark.parametrize("name", ["opportunity, ties", "odds, movement", "odds, frontier"])
def test_keys_in_vectors_follow_the_description(name):
    """Words and draws are those of plain whole-number arithmetic, step by step."""
    model = fitted(name)
    vectors = golden_vectors(model)
    for row in vectors["hash"]:
        parts = tuple(part["text"] if "text" in part else int(part["whole"]) for part in row["key"])
        key = parts if len(parts) > 1 else parts[0]
        assert list(hashing.words(key)) == row["words"]
        assert hashing.uniform(key, model.salt_) == row["draw"] == (int(row["mixed"], 16) >> 28) / 2**36
        assert int(row["folded"], 16) == int(row["summed"], 16) ^ (int(row["summed"], 16) >> 32)


@pytest.mark.parametrize("name", NAMES)
def test_the_recipe_is_enough(name):
    """A reader written from the recipe alone, in plain Python, agrees with the vectors at every step."""
    from oracles import reading

    model = fitted(name)
    vectors = golden_vectors(model)
    reader = reading.Reader(model.to_text())
    for item in vectors["items"]:
        told = reader.fair(item["score"], item["group"], item.get("draw", 0.0))
        for step in ("code", "cell", "bin", "target"):
            assert told.get(step) == item.get(step)
        for step in ("level", "within"):
            assert told.get(step) == pytest.approx(item.get(step), abs=1e-9)
        assert told["fair_score"] == pytest.approx(item["fair_score"], rel=0, abs=vectors["tolerance"])


def test_the_folder(tmp_path, capsys):
    """The command writes the schema, the vectors and the recipe, and leaves what is there alone."""
    model = fitted("odds, movement")
    model.save(tmp_path / "m.json")

    def run(*more):
        with pytest.raises(SystemExit) as end:
            main(
                [
                    "export",
                    str(tmp_path / "m.json"),
                    "--to",
                    "json-schema",
                    "-o",
                    str(tmp_path / "reader"),
                    *more,
                ]
            )
        return end.value.code, *capsys.readouterr()

    code, out, err = run()
    assert (code, err) == (0, "")
    assert out == f"wrote {tmp_path / 'reader'}: model.schema.json, vectors.json, README.md\n"
    assert json.loads((tmp_path / "reader" / "model.schema.json").read_text("utf-8")) == model_schema()
    assert json.loads((tmp_path / "reader" / "vectors.json").read_text("utf-8")) == golden_vectors(model)
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "exists already (hint: choose another folder, or overwrite it with --force)" in err
    assert run("--force")[0] == 0
    with pytest.raises(eo.OutputError, match="is a file; expected a folder"):
        to_json_schema(model, tmp_path / "m.json")
    with pytest.raises(eo.OutputError, match="there is no folder"):
        to_json_schema(model, tmp_path / "no" / "where")


def test_the_page_has_the_recipe_of_the_folder():
    """What the page says step by step is what the folder's README says."""
    recipe = (ROOT / "src" / "evenodds" / "export" / "recipe.md").read_text("utf-8")
    assert PAGE.endswith(recipe)


def test_the_reader_has_forty_lines():
    """It is as short as the page says."""
    assert len(READER.splitlines()) <= 40
    assert max(map(len, READER.splitlines())) <= 120


def test_the_pages_count_right():
    """The pages say how many models the tests compare."""
    exports = (ROOT / "docs" / "exports.md").read_text("utf-8")
    assert f"on {len(NAMES)} kinds of models" in exports
    assert f"golden vectors of {len(NAMES) - len(LONGER)} models" in PAGE


def node(folder, script):
    (folder / "reader.js").write_text(READER + script, encoding="utf-8")
    return subprocess.run(["node", folder / "reader.js", folder], capture_output=True, text=True, check=False)


CHECK = """
const folder = process.argv[2], wrong = [], read = (name) => JSON.parse(readFileSync(`${folder}/${name}`, "utf8"));
for (const name of read("names.json")) {
  const vectors = read(`${name}.vectors.json`), model = load(`${folder}/${name}.json`);
  const keyOf = (parts = []) => {
    const key = parts.map((part) => part.text ?? BigInt(part.whole));
    return key.length > 1 ? key : key[0];
  };
  for (const { key, words: wanted, draw: uniform } of vectors.hash) {
    if (words(keyOf(key)).join() !== wanted.join() || draw(model, keyOf(key)) !== uniform) wrong.push([name, key]);
  }
  for (const item of vectors.items) {
    const fair = fairScore(model, item.score, item.group, keyOf(item.key));
    if (!(Math.abs(fair - item.fair_score) <= vectors.tolerance)) wrong.push([name, item, fair]);
  }
}
console.log(JSON.stringify(wrong.slice(0, 3)));
"""


@pytest.mark.node
def test_the_reader_in_the_page_agrees_with_the_vectors(tmp_path):
    """Node.js runs the page's block on every kind of model that it knows: words, draws and fair scores agree."""
    names = [name for name in NAMES if name not in LONGER]
    (tmp_path / "names.json").write_text(json.dumps(names), encoding="utf-8")
    for name in names:
        fitted(name).save(tmp_path / f"{name}.json")
        (tmp_path / f"{name}.vectors.json").write_text(
            json.dumps(golden_vectors(fitted(name))), encoding="utf-8"
        )
    ran = node(tmp_path, CHECK)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


@pytest.mark.node
def test_the_reader_refuses(tmp_path):
    """A changed file, a model beyond forty lines, and an unknown group under unknown="error" are refused."""
    model = fitted("opportunity, error")
    model.save(tmp_path / "good.json")
    changed = (tmp_path / "good.json").read_text().replace('"alpha": 1.0', '"alpha": 0.9')
    (tmp_path / "changed.json").write_text(changed)
    fitted("opportunity, cubic").save(tmp_path / "cubic.json")
    for call, said in (
        ("load(`${process.argv[2]}/changed.json`)", "changed.json is damaged, or too new"),
        ("load(`${process.argv[2]}/cubic.json`)", "cubic.json needs a longer reader"),
        ('fairScore(load(`${process.argv[2]}/good.json`), 0.5, ["nobody"])', "unknown group nobody"),
    ):
        ran = node(tmp_path, f"\n{call};\n")
        assert ran.returncode == 1
        assert said in ran.stderr


def test_the_checksum_is_that_of_the_recipe():
    """Checked with nothing but a hash, as the recipe says."""
    text = fitted("opportunity, awkward").to_text()
    head = text[: text.rindex(',\n  "checksum"')]
    assert json.loads(text)["checksum"] == "sha256:" + hashlib.sha256(head.encode()).hexdigest()
