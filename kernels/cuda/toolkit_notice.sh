#!/usr/bin/env bash
# Says so if this machine has no CUDA toolkit to build the backend with, where third_party/cuda looks for it.
[ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] ||
  echo "notice: no CUDA toolkit here; the cuda backend is built without support for it"
