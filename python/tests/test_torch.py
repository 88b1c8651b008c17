"""What `relaxc.torch` says without PyTorch, which these tests do not have; scripts/torch_programs.py --check tests it with PyTorch."""

import sys
import types

import pytest
import relaxc
import relaxc.torch


def test_without_pytorch_there_is_an_exception(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(relaxc.UnsupportedError, match="PyTorch cannot be imported"):
        relaxc.torch.describe(object())


def test_an_old_pytorch_is_refused(monkeypatch):
    old = types.ModuleType("torch")
    old.__version__ = "2.4.1+cpu"
    monkeypatch.setitem(sys.modules, "torch", old)
    with pytest.raises(relaxc.UnsupportedError, match="PyTorch 2.4.1.cpu is too old: 2.15 or later"):
        relaxc.torch.dynamic(lambda x: x, {"x": 0})
