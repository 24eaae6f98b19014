"""The paper's studies, repeated: what was measured, which claims hold, and the pictures of it."""
