"""Prints the N-th set-up command of the README, so that what CI runs is what a newcomer reads."""

import re
import sys
from pathlib import Path

readme = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
section = readme.split("<!-- set-up -->")[1]
commands = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)[:2]
print(commands[int(sys.argv[1]) - 1])
