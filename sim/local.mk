# SPDX-License-Identifier: BSD-3-Clause
# The simulated GPU: drop-in libcuda.so.1, libcudart.so.13, libnvidia-ml.so.1, and shunt-sim.
