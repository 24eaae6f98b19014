"""What a caller did wrong, or what the server cannot do now: one line and a hint (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from evenodds.errors import EvenoddsError

MEDIA_TYPE = b"application/problem+json"


class Problem(Exception):  # noqa: N818  (what RFC 9457 calls it)
    """An answer other than the one that was asked for."""

    def __init__(
        self, status: int, detail: str, *, hint: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = " ".join(detail.split())
        self.hint = hint
        self.headers = headers or {}

    @classmethod
    def of(cls, error: EvenoddsError, status: int = 422, where: str = "") -> Problem:
        """Say what the library said."""
        text = error.message if where == "" else f"{where}: {error.message}"
        return cls(status, text, hint=error.hint)

    def body(self) -> bytes:
        """Return the JSON document."""
        said = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.hint is not None:
            said["hint"] = self.hint
        return msgspec.json.encode(said)
