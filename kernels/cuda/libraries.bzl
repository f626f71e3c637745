"""What needs the toolkit's headers and compiler: only where they are (BUILD.bazel)."""

load("@local_cuda//:cuda.bzl", "HAS_CUDNN", "STUB_DRIVER")
load(":cuda_kernels.bzl", "cuda_kernels")

_BASE = ["//runtime/base:status_macros", "//third_party:absl"]

def _library_table(name):
    native.cc_library(
        name = name,
        srcs = [name + ".cc"],
        hdrs = [name + ".h"],
        deps = _BASE + ["//kernels/host:dynamic_library", "@local_cuda//:headers"],
    )

def cuda_libraries():
    """The backend by driver and cuBLASLt, and its tests."""
    for name in ["cuda_driver", "cublaslt_library"]:
        _library_table(name)
    cuda_kernels(
        name = "cuda_kernels",
        src = "cuda_kernels.cu",
        sources = ["//kernels/portable:kernel_sources"],
        symbol = "medley_cuda_kernels",
    )
    native.cc_library(
        name = "cuda_device",
        srcs = ["cuda_device.cc"],
        hdrs = ["cuda_device.h"],
        deps = _BASE + [":cuda_driver", "//runtime/base:bytes"],
    )
    native.cc_library(
        name = "cuda_queue",
        srcs = ["cuda_copy_lane.cc", "cuda_queue.cc", "cuda_timer.cc"],
        hdrs = ["cuda_copy_lane.h", "cuda_queue.h"],
        visibility = ["//:comm"],
        deps = _BASE + [
            ":cuda_device",
            "//runtime/base:mutex",
            "//runtime/device:copy_lane",
            "//runtime/device:copy_range",
            "//runtime/device:ops",
        ],
    )
    native.cc_library(
        name = "cuda_launcher",
        srcs = ["cuda_launcher.cc"],
        hdrs = ["cuda_launcher.h"],
        deps = _BASE + [":cuda_kernels", ":cuda_queue", "//kernels/portable:launcher"],
    )
    native.cc_library(
        name = "bf16_operands",
        srcs = ["bf16_operands.cc"],
        hdrs = ["bf16_operands.h"],
        deps = _BASE + [":cuda_queue"],
    )
    native.cc_library(
        name = "cublaslt_ops",
        srcs = ["cublaslt_ops.cc"],
        hdrs = ["cublaslt_ops.h"],
        deps = _BASE + [
            ":bf16_operands",
            ":cublaslt_library",
            ":cuda_queue",
            ":matmul_plan",
            "//kernels/arguments:op_arguments",
            "//kernels/portable:launcher",
            "//kernels/portable:portable_ops",
            "//runtime/device:uniform_ops",
        ],
    )
    native.cc_library(
        name = "cuda_backend_with_toolkit",
        srcs = ["cuda_backend.cc"],
        local_defines = ["MEDLEY_HAS_CUDNN"] if HAS_CUDNN else [],
        deps = _BASE + [
            ":cublaslt_ops",
            ":cuda_backend_header",
            ":cuda_launcher",
            ":cuda_variant",
            "//kernels/fallback:reference_fallback_ops",
            "//kernels/portable:portable_ops",
            "//runtime/device:candidate_ops",
        ] + ([":cudnn_attention_ops"] if HAS_CUDNN else []),
    )
    native.cc_library(
        name = "simulated_driver",
        testonly = True,
        srcs = ["simulated_driver.cc"],
        hdrs = ["simulated_driver.h"],
        visibility = ["//:comm", "//:tests"],
        deps = [":cuda_driver"],
    )
    native.cc_library(
        name = "simulated_device",
        testonly = True,
        srcs = ["simulated_device.cc"],
        hdrs = ["simulated_device.h"],
        visibility = ["//:tests"],
        deps = _BASE + [
            ":cuda_queue",
            ":simulated_driver",
            "//kernels/arguments:op_arguments",
            "//kernels/host:host_queue",
            "//kernels/reference:reference_ops",
            "//runtime/device",
            "//runtime/device:op_slices",
            "//runtime/device:uniform_ops",
        ],
    )
    native.cc_test(
        name = "cuda_queue_test",
        size = "small",
        srcs = ["cuda_queue_test.cc"],
        deps = [":cuda_queue", ":simulated_driver", "//third_party:catch_main"],
    )
    native.cc_test(
        name = "cuda_copy_lane_test",
        size = "small",
        srcs = ["cuda_copy_lane_test.cc"],
        deps = _BASE + [":cuda_queue", ":simulated_driver", "//runtime/device:copy_lane_program", "//third_party:catch_main"],
    )

def cudnn_libraries():
    """Attention by cuDNN, and its test."""
    _library_table("cudnn_library")
    native.cc_library(
        name = "cudnn_graph",
        srcs = ["cudnn_graph.cc"],
        hdrs = ["cudnn_graph.h"],
        deps = _BASE + [":cudnn_library", "//runtime/base:bytes"],
    )
    native.cc_library(
        name = "attention_graph",
        srcs = ["attention_graph.cc"],
        hdrs = ["attention_graph.h"],
        deps = _BASE + [":cudnn_graph"],
    )
    native.cc_library(
        name = "cudnn_attention_ops",
        srcs = ["cudnn_attention_ops.cc"],
        hdrs = ["cudnn_attention_ops.h"],
        deps = _BASE + [
            ":attention_graph",
            ":bf16_operands",
            ":cuda_queue",
            "//kernels/arguments:op_arguments",
            "//runtime/device:uniform_ops",
        ],
    )
    native.cc_test(
        name = "attention_graph_test",
        size = "medium",
        srcs = ["attention_graph_test.cc"],
        local_defines = ["MEDLEY_STUB_DRIVER='\"%s\"'" % STUB_DRIVER],
        deps = [":attention_graph", "//tests:skipped", "//third_party:catch_main", "//third_party:dl"],
    )
