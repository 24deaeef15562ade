"""A small model server in real time: the replay's service law behind an OpenAI-compatible streaming endpoint."""
