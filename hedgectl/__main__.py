"""``python -m hedgectl``."""

from hedgectl.cli import main

main()
