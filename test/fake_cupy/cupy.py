# SPDX-License-Identifier: BSD-3-Clause
"""As much of CuPy as mpi4py's tests use, on simulated GPUs: device_arrays.py cupy is tried with it. As CuPy from 14 on it
refuses what an element type cannot hold."""
import array as arrays
import ctypes
import types

from device_arrays import Slice, allocate, cudart, must

__version__ = "14.0.0"


class ndarray(Slice):
    def __init__(self, size, typecode):
        self.typecode, self.itemsize, self.size, self.readonly = typecode, arrays.array(typecode).itemsize, size, False
        self.address = allocate(self.size * self.itemsize)
        self.dtype, self.device = types.SimpleNamespace(char=typecode), types.SimpleNamespace(id=current_device())

    def __del__(self):
        if getattr(self, "address", None):
            cudart().cudaFree(self.address)

    def fill(self, value):
        self.write([value] * self.size)

    def ravel(self):
        return self

    def buffer_info(self):
        return self.address, self.size

    def toDlpack(self):
        import dlpackimpl
        managed = dlpackimpl.make_dl_managed_tensor(self)
        managed.dl_tensor.device = dlpackimpl.DLDevice(dlpackimpl.DLDeviceType.kDLCUDA, self.device.id)
        return dlpackimpl.make_py_capsule(managed)


def current_device():
    device = ctypes.c_int()
    must(cudart().cudaGetDevice(ctypes.byref(device)))
    return device.value


def zeros(shape, typecode):
    size = 1
    for n in shape if isinstance(shape, (tuple, list)) else [shape]:
        size *= n
    made = ndarray(size, typecode)
    made.fill(0)
    return made


def asarray(values, typecode):
    return arrays.array(typecode, values)


def array(value, typecode):
    """ValueError where there is no such type."""
    return arrays.array(typecode, [value])


class Device:
    def __init__(self, number):
        self.number = number

    def use(self):
        must(cudart().cudaSetDevice(self.number))


def count_devices():
    count = ctypes.c_int()
    must(cudart().cudaGetDeviceCount(ctypes.byref(count)))
    return count.value


cuda = types.SimpleNamespace(
    Device=Device, runtime=types.SimpleNamespace(is_hip=False, getDeviceCount=count_devices),
    get_current_stream=lambda: types.SimpleNamespace(synchronize=lambda: must(cudart().cudaDeviceSynchronize())))
