"""The model file: JSON that a person can read, with a checksum over all of it.

The same log and settings give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from evenodds.errors import DamagedFileError, NewerVersionError

FORMAT = "evenodds-model"
VERSION = 1
_SEAL = ',\n  "checksum": "'


def read_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a model file's content; a damaged file, or one of a later version, is refused."""
    name = os.fspath(path)
    try:
        text = Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DamagedFileError(f"no such file: {name}") from None
    except OSError as error:
        raise DamagedFileError(f"cannot read {name}: {error.strerror or error}") from None
    except ValueError:  # not even text
        raise _not_whole(name) from None
    return parse_model(text, name)


def parse_model(text: str, name: str) -> dict[str, Any]:
    """Do the same with a model file's text; `name` is what an error calls it."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_whole(name) from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise DamagedFileError(f"{name} is not a model file", hint="evenodds fit LOG -o model.json makes one")
    if type(body.get("version")) is not int:
        raise _not_whole(name)
    if body["version"] > VERSION:
        raise NewerVersionError(
            f"{name} has model version {body.get('version')}; this program reads up to {VERSION}",
            hint="upgrade evenodds",
        )
    if sealed(text.rpartition(_SEAL)[0] + "\n}\n") != text:
        raise DamagedFileError(
            f"{name} has been changed since it was written: its checksum does not fit",
            hint="make it again with evenodds fit",
        )
    return body


def _not_whole(name: str) -> DamagedFileError:
    return DamagedFileError(f"{name} is not a whole model file", hint="make it again with evenodds fit")


def sealed(text: str) -> str:
    """Add the last entry, the SHA-256 of everything before it, to a JSON object's text.

    It is taken over the bytes of the file, so that a reader in any language can check it.
    """
    body = text.removesuffix("\n}\n")
    return f'{body}{_SEAL}sha256:{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'


def readable_json(value: object, indent: int = 0) -> str:
    """Lay JSON out for people: one entry a line, lists of plain values on one line."""
    pad = "  " * (indent + 1)
    if isinstance(value, dict) and value:
        lines = [f"{pad}{json.dumps(key)}: {readable_json(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + "  " * indent + "}" + ("\n" if indent == 0 else "")
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        lines = [pad + readable_json(item, indent + 1) for item in value]
        return "[\n" + ",\n".join(lines) + "\n" + "  " * indent + "]"
    return json.dumps(value, ensure_ascii=False)
