"""Writes every file of corpus/suite/ops. Each other script in this folder but rxgen is a family."""

import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
    if path.stem not in ("generate", "rxgen"):
        importlib.import_module(path.stem).main()
