"""DLPack's C exchange interface: of a type made here, and of PyTorch's tensors where PyTorch is installed."""

import ctypes
import gc
import sys

import numpy as np
import pytest
import relaxc

NAME = b"dlpack_exchange_api"
VERSIONED, USED = b"dltensor_versioned", b"used_dltensor_versioned"
Export = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Interface(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p)]
    _fields_ += [("allocate", ctypes.c_void_p), ("export", Export), ("rest", ctypes.c_void_p * 3)]


def kind(*majors, fails=False, name=NAME):
    """A type with an interface of these versions, the newest first. `calls` tells the ways that were taken."""

    def export(given, out):
        given.calls.append("interface")
        # A function of ctypes cannot leave an exception, which one that fails has to.
        if fails:
            return -1
        capsule = given.inner.__dlpack__(max_version=(1, 0))
        out[0] = pointer(capsule, VERSIONED)
        return rename(capsule, USED)

    class Given:
        def __init__(self, inner):
            self.inner, self.calls = inner, []

        def __dlpack__(self, **wishes):
            self.calls.append("method")
            return self.inner.__dlpack__(**wishes)

    function, older = Export(export), None
    made = []
    for major in reversed(majors):
        address = ctypes.addressof(older) if older else None
        older = Interface(major, 3, address, None, function)
        made.append(older)
    Given.kept = function, made, name
    Given.__dlpack_c_exchange_api__ = new(ctypes.addressof(older), name, None)
    return Given


@pytest.mark.parametrize("versions", [(1,), (2, 1)])
def test_arguments_by_the_interface(double, versions):
    array = np.arange(6, dtype="float32").reshape(2, 3)
    references, copies = sys.getrefcount(array), double.copied_arguments
    given = kind(*versions)(array)
    assert np.array_equal(np.asarray(double(given)), array * 2)
    assert given.calls == ["interface"] and double.copied_arguments == copies
    # The deleter is called.
    for _ in range(100):
        double(given)
    del given
    gc.collect()
    assert sys.getrefcount(array) == references


def test_strided_arguments_by_the_interface(double):
    array = np.arange(6, dtype="float32").reshape(2, 3).T[::-1]
    given = kind(1)(array)
    assert np.array_equal(np.asarray(double(given)), array * 2) and given.calls == ["interface"]


@pytest.mark.parametrize(
    "made", [kind(2), kind(2, 3), kind(1, name=b"another"), kind(1, fails=True), type("Inheriting", (kind(1),), {})]
)
def test_the_method_where_the_interface_is_none(double, made):
    given = made(np.ones((2, 2), "float32"))
    assert double(given).tolist() == [[2.0, 2.0]] * 2
    assert given.calls[-1] == "method"


def test_what_the_interface_does_not_check(double):
    ones = np.ones((2, 2), "float32")
    made = kind(1)
    made.requires_grad = property(lambda given: given.is_leaf)
    for is_leaf, way in ((True, "method"), (False, "interface")):
        given = made(ones)
        given.is_leaf = is_leaf
        double(given)
        assert given.calls == [way]
    made = kind(1)
    made.is_neg = lambda given: given.is_negated
    for is_negated in (False, True):
        given = made(ones)
        given.is_negated = is_negated
        if is_negated:
            with pytest.raises(relaxc.ArgumentError, match="argument `x`: its negation is pending"):
                double(given)
        else:
            double(given)
    with pytest.raises(relaxc.ArgumentError, match="argument `x`: no tensor has elements"):
        double(kind(1)(np.ones((2, 2), "complex64")))


def test_many_types(double):
    for _ in range(100):
        given = kind(1)(np.ones((2, 2), "float32"))
        assert double(given).tolist() == [[2.0, 2.0]] * 2 and given.calls == ["interface"]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def test_tensors_of_pytorch(double, torch, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "__dlpack__", None)
    assert double(torch.ones(2, 3)).tolist() == [[2.0] * 3] * 2
    copies = double.copied_arguments
    assert double(torch.arange(6.0).reshape(2, 3).T).tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]
    assert double.copied_arguments == copies + 1
    assert double(torch.ones(0, 3)).shape == (0, 3)


def fake(torch):
    from torch._subclasses import FakeTensorMode

    return FakeTensorMode().from_tensor(torch.ones(2, 3))


REFUSED = [
    ("require gradient", lambda torch: torch.ones(2, 2, requires_grad=True)),
    ("negative bit", lambda torch: torch._neg_view(torch.ones(2, 2))),
    ("negative bit", lambda torch: torch.ones(1, 1, dtype=torch.complex64).conj().imag),
    ("conjugate bit", lambda torch: torch.ones(2, 2, dtype=torch.complex64).conj()),
    ("type code 5", lambda torch: torch.ones(2, 2, dtype=torch.complex64)),
    ("type code 10", lambda torch: torch.ones(2, 2).to(torch.float8_e4m3fn)),
    ("other than torch.strided", lambda torch: torch.eye(2).to_sparse()),
    ("other than torch.strided", lambda torch: torch.eye(2).to_sparse_csr()),
    ("other than torch.strided", lambda torch: torch.eye(2).to_mkldnn()),
    ("on meta", lambda torch: torch.ones(2, 2, device="meta")),
    ("QInt", lambda torch: torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8)),
    ("no memory", lambda torch: torch._efficientzerotensor((2, 2))),
    ("no memory", fake),
    ("no memory", lambda torch: fake(torch).T),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("message, make", REFUSED)
def test_tensors_of_pytorch_that_are_refused(double, torch, message, make):
    given = make(torch)
    with pytest.raises(relaxc.ArgumentError, match=message) as raised:
        double(given)
    assert str(raised.value).startswith("argument `x`: ") and "Exception raised from" not in str(raised.value)


def test_tensors_of_transforms_are_refused(double, torch):
    with pytest.raises(relaxc.ArgumentError, match="its memory is not lent"):
        torch.vmap(lambda x: torch.from_dlpack(double(x)))(torch.ones(2, 2, 2))
    with pytest.raises(relaxc.ArgumentError, match="require gradient"):
        torch.func.grad(lambda x: double(x).item())(torch.ones(2, 2))
