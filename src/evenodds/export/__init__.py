"""A fitted model for other stacks: an ONNX file, an SQL script, or a schema with golden vectors."""

from evenodds.export.onnx import to_onnx, uniform_draws
from evenodds.export.reader import to_json_schema
from evenodds.export.sql import to_sql

__all__ = ["to_json_schema", "to_onnx", "to_sql", "uniform_draws"]
