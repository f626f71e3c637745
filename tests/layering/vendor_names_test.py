#!/usr/bin/env python3
"""What belongs to one vendor is named in that vendor's folder alone.

Every source of the repository is searched for the functions, types, constants, headers and kernel words of CUDA and OpenCL
and of the libraries over them. Names of backends and libraries in texts ("cuda", "cuDNN", "CLBlast") are no such thing.
"""
import os
import re
import unittest

# Of the host's side: calls, types, constants, headers.
HOST_API = re.compile(r"""
    \bcu(?:da)?[A-Z][a-z]\w* | \b(?:cublas|cublasLt|cudnn|nccl|nvrtc|nvml|nvtx)[A-Z]\w* |
    \bCU(?:device|context|stream|event|module|function|result|mem|deviceptr|library|kernel)\w* |
    \b(?:CUDA|CUBLAS|CUBLASLT|CUDNN|NCCL|NVRTC|NVML)_[A-Z]\w* |
    \b(?:hip|rocblas|miopen|ze|zel|sycl)[A-Z]\w*\s*\( |
    \bcl[A-Z][a-z]\w* | \bCLBlast[A-Z]\w* |
    \bcl_(?:mem|kernel|context|command_queue|device\w*|platform\w*|event|program|bool|u?int|u?long|float\w*)\b |
    \bCL_[A-Z]\w* |
    \#[ \t]*include[ \t]*[<"](?:cuda|cublas|cudnn|nccl|nvrtc|nvml|CL/|clblast|hip/|rocblas|sycl/|level_zero)[^>"\n]*[>"]
    """, re.VERBOSE)
# The words of kernels, and the dialects that a compiler says it is at.
KERNEL_WORDS = re.compile(r"""
    \b__(?:global|device|host|shared|constant|managed|launch_bounds)__\b | \b__(?:kernel|global|local|constant)\b |
    \b(?:thread|block)Idx\b | \b(?:block|grid)Dim\b | \b__sync(?:threads|warp)\b | <<<[^\n]*>>> |
    \bget_(?:global|local|group)_(?:id|size)\b | \bget_num_groups\b | \bCLK_\w+ | \bcl_khr_\w+
    """, re.VERBOSE)
DIALECTS = re.compile(r"\b__(?:CUDACC\w*|CUDA_ARCH|NVCC|OPENCL\w*|HIP\w*)__\b")

SOURCES = (".h", ".hpp", ".cc", ".cpp", ".c", ".cu", ".cuh", ".cl", ".inc", ".proto", ".py", ".sh")

# Where everything may be named; and where only some of it.
VENDORS = ("kernels/cuda/", "kernels/opencl/", "third_party/")
ITSELF = "tests/layering/vendor_names_test.py"
TWO_DIALECTS = "kernels/portable/source/kernel_language.h"
PORTABLE_KERNELS = "kernels/portable/source/"


def forbidden_in(path):
    """The patterns that `path`, from the root of the repository, must be free of."""
    if path == ITSELF or path.startswith(VENDORS):
        return []
    if path == TWO_DIALECTS:
        return [HOST_API]
    if path.startswith(PORTABLE_KERNELS):
        return [HOST_API, KERNEL_WORDS]
    return [HOST_API, KERNEL_WORDS, DIALECTS]


def find_vendor_names(path, text):
    """Lines of `text` that `path` must not have: "path:line: name"."""
    return [f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(0).strip()}"
            for pattern in forbidden_in(path) for match in pattern.finditer(text)]


def sources(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "bazel-"))]
        for name in files:
            if name.endswith(SOURCES):
                yield os.path.relpath(os.path.join(folder, name), root)


class VendorNamesTest(unittest.TestCase):
    def test_a_vendors_names_are_found_wherever_they_are_planted(self):
        for planted in [
                "cuMemAlloc(&pointer, size);", "cudaMalloc(&pointer, size);", "CUdeviceptr pointer;",
                "if (result != CUDA_SUCCESS)", "cublasLtMatmul(handle)", "cublasCreate(&handle)",
                "cudnnBackendExecute(plan)", "ncclAllReduce(a, b)", "nvrtcCompileProgram(program)",
                "nvmlInit_v2()", "auto* f = dlsym(library, \"cuInit\");", "hipMalloc(&pointer, size)",
                "clEnqueueNDRangeKernel(queue)", "clCreateBuffer(context)", "cl_mem buffer;",
                "cl_command_queue queue;", "return CL_SUCCESS;", "CLBlastSgemm(layout)",
                "#include <cuda_runtime.h>", "#include <cuda.h>", "#  include \"cublas_v2.h\"", "#include <cudnn.h>",
                "#include <CL/cl.h>", "#include <clblast_c.h>", "#include <nccl.h>",
                "__global__ void Add()", "__shared__ float tile[256];", "__kernel void Add()", "x = threadIdx.x;",
                "i = get_global_id(0);", "__syncthreads();", "Add<<<1, 256>>>(x);", "barrier(CLK_LOCAL_MEM_FENCE)",
                "#ifdef __CUDACC__", "#if __CUDA_ARCH__ >= 900", "#ifdef __OPENCL_VERSION__",
                "// as cuMemcpyAsync does"]:
            for path in ["runtime/device/device.h", "kernels/cpu/gemm.cc", "kernels/portable/launcher.h",
                         "kernels/cudas.cc", "comm/ucx/ucx_worker.h", "tests/perf/op_times.cc"]:
                with self.subTest(planted=planted, path=path):
                    self.assertEqual(len(find_vendor_names(path, "first line\n" + planted)), 1)
                    self.assertIn(path + ":2: ", find_vendor_names(path, "first line\n" + planted)[0])
            for path in ["kernels/cuda/cuda_queue.cc", "kernels/opencl/opencl_queue.h", "third_party/stub.h"]:
                self.assertEqual(find_vendor_names(path, planted), [])

    def test_names_of_backends_and_libraries_and_words_like_a_vendors_may_be_anywhere(self):
        for text in ['{.name = "cuda"}', '#include "kernels/cuda/cuda_backend.h"', "// cuBLASLt, cuDNN and CLBlast",
                     "CudaBackend(), OpenClBackend()", "if (backend == kOpenCl)", "#include <climits>",
                     "struct Cluster cluster;", "clock_gettime(CLOCK_MONOTONIC)", "cleanUp()", "clear()", "CLI::App app;",
                     "current = cursor;", "custom_scale", "CUSTOM", "hipster", "MEDLEY_CUDA_LIBRARIES", "std::clamp(x, a, b)",
                     "nvidia", "zero(x)", "local __attribute__"]:
            with self.subTest(text=text):
                self.assertEqual(find_vendor_names("runtime/device/device.h", text), [])

    def test_portable_kernels_may_ask_for_the_dialect_and_one_header_may_speak_both(self):
        optimizer = PORTABLE_KERNELS + "optimizer.h"
        self.assertEqual(find_vendor_names(optimizer, "#ifndef __CUDACC__"), [])
        self.assertEqual(len(find_vendor_names(optimizer, "x = threadIdx.x;")), 1)
        self.assertEqual(find_vendor_names(TWO_DIALECTS, "#define LOCAL_ID threadIdx.x\n#define GLOBAL __global"), [])
        self.assertEqual(len(find_vendor_names(TWO_DIALECTS, "cudaMalloc(&p, n);")), 1)

    def test_no_source_outside_a_vendors_folder_names_it(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        paths = list(sources(root))
        self.assertIn("runtime/device/device.h", paths)  # the search is at the right place
        self.assertGreater(len(paths), 300)
        found = []
        for path in paths:
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                found += find_vendor_names(path, file.read())
        self.assertEqual(found, [], "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
