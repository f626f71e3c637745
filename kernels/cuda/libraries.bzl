"""What needs the toolkit's headers and compiler: only where they are (BUILD.bazel)."""

load("@local_cuda//:cuda.bzl", "HAS_CUDNN", "STUB_DRIVER")
load(":cuda_kernels.bzl", "cuda_kernels")
load("//third_party:medley.bzl", "medley_library", "medley_test")

_BASE = ["//runtime/base:status_macros", "//third_party:absl"]

def _library_table(name):
    medley_library(name = name, deps = _BASE + ["//kernels/host:dynamic_library", "@local_cuda//:headers"])

def cuda_libraries():
    """The backend by driver and cuBLASLt, and its tests."""
    for name in ["cuda_driver", "cublaslt_library"]:
        _library_table(name)
    cuda_kernels(
        name = "cuda_kernels",
        src = "cuda_kernels.cu",
        sources = ["//kernels/portable:kernel_text.h"],
        symbol = "medley_cuda_kernels",
    )
    medley_library(name = "cuda_device", deps = _BASE + [":cuda_driver", "//runtime/base:bytes"])
    medley_library(
        name = "nccl_library",
        hdrs = ["nccl_interface.h", "nccl_library.h"],
        visibility = ["//:comm"],
        deps = _BASE + ["//kernels/host:dynamic_library", "@local_cuda//:headers"],
    )
    medley_library(
        name = "cuda_queue",
        srcs = ["cuda_copy_lane.cc", "cuda_queue.cc", "cuda_timer.cc"],
        hdrs = ["cuda_copy_lane.h", "cuda_queue.h"],
        visibility = ["//:comm"],
        deps = _BASE + [
            ":cuda_device", "//runtime/base:mutex", "//runtime/device:copy_lane", "//runtime/device:copy_range",
            "//runtime/device:device_group", "//runtime/device:ops",
        ],
    )
    medley_library(name = "nccl_groups", visibility = ["//:comm"], deps = _BASE + [
        ":cuda_queue", ":nccl_library", "//runtime/device:device_group",
    ])
    medley_library(name = "cuda_launcher", deps = _BASE + [":cuda_kernels", ":cuda_queue", "//kernels/portable:launcher"])
    medley_library(name = "rounded_operands", deps = _BASE + [":cuda_queue"])
    medley_library(name = "cublaslt_ops", deps = _BASE + [
        ":rounded_operands", ":cublaslt_library", ":cuda_queue", ":matmul_plan", "//kernels/arguments:op_arguments",
        "//kernels/portable:launcher", "//kernels/portable:portable_ops", "//runtime/device:uniform_ops",
    ])
    medley_library(
        name = "cuda_backend_with_toolkit",
        srcs = ["cuda_backend.cc"],
        local_defines = ["MEDLEY_HAS_CUDNN"] if HAS_CUDNN else [],
        deps = _BASE + [
            ":cublaslt_ops", ":cuda_backend_header", ":cuda_launcher", ":cuda_variant",
            ":nccl_groups", ":nccl_library", "//kernels/fallback:reference_fallback_ops", "//kernels/portable:portable_ops",
            "//runtime/device:candidate_ops", "//runtime/device:converting_ops",
        ] + ([":cudnn_attention_ops"] if HAS_CUDNN else []),
    )
    medley_library(name = "simulated_driver", testonly = True, visibility = ["//:comm", "//:tests"], deps = [":cuda_driver"])
    medley_library(name = "simulated_nccl", testonly = True, visibility = ["//:comm", "//:tests"], deps = [
        ":nccl_library", ":simulated_driver", "//runtime/base:narrow", "//third_party:threads",
    ])
    medley_library(name = "simulated_device", testonly = True, visibility = ["//:tests"], deps = _BASE + [
        ":cuda_queue", ":nccl_groups", ":nccl_library", ":simulated_driver", "//kernels/arguments:op_arguments",
        "//kernels/host:host_queue", "//kernels/reference:reference_ops", "//runtime/device", "//runtime/device:converting_ops",
        "//runtime/device:op_slices", "//runtime/device:uniform_ops",
    ])
    medley_test(name = "cuda_queue_test", deps = [":cuda_queue", ":simulated_driver"])
    medley_test(name = "nccl_groups_test", deps = _BASE + [
        ":cuda_queue", ":nccl_groups", ":nccl_library", ":simulated_driver", ":simulated_nccl", "//runtime/base:narrow",
    ])
    medley_test(name = "cuda_copy_lane_test", deps = _BASE + [
        ":cuda_queue", ":simulated_driver", "//runtime/device:copy_lane_program",
    ])

def cudnn_libraries():
    """Attention by cuDNN, and its test."""
    _library_table("cudnn_library")
    medley_library(name = "cudnn_graph", deps = _BASE + [":cudnn_library", "//runtime/base:bytes"])
    medley_library(name = "attention_graph", deps = _BASE + [":cudnn_graph"])
    medley_library(name = "cudnn_attention_ops", deps = _BASE + [
        ":attention_graph", ":rounded_operands", ":cuda_queue", "//kernels/arguments:op_arguments", "//runtime/device:uniform_ops",
    ])
    medley_test(
        name = "attention_graph_test",
        size = "medium",
        local_defines = ["MEDLEY_STUB_DRIVER='\"%s\"'" % STUB_DRIVER],
        deps = [":attention_graph", "//tests:skipped", "//third_party:dl"],
    )
