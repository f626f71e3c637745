"""The inner loops, compiled once for each instruction set."""

_COPTS = {
    "Sse41": ["-msse4.1"],
    "Avx2": ["-mavx2", "-mfma"],
    "Avx512": [
        "-mavx2",
        "-mfma",
        "-mavx512f",
        "-mavx512bw",
        "-mavx512dq",
        "-mavx512vl",
        "-mprefer-vector-width=512",
    ],
}

def vector_kernel_libraries(name):
    """`name`: vector_kernels.cc and adamw_kernel.cc in every variant; each defines kVectorKernels<Variant>."""
    for variant, copts in _COPTS.items():
        defines = ["MEDLEY_VECTOR_KERNELS=kVectorKernels" + variant, "MEDLEY_ADAMW=AdamW" + variant]
        native.cc_library(
            name = "adamw_" + variant.lower(),
            srcs = ["adamw_kernel.cc"],
            # Without fusion: AdamW gives the same bits on every device.
            copts = copts + ["-O3", "-fno-math-errno", "-ffp-contract=off"],
            local_defines = defines,
            deps = ["//kernels/arguments:adamw_step"],
        )
        native.cc_library(
            name = "vector_kernels_" + variant.lower(),
            srcs = [
                "activation_kernels.h",
                "normalization_kernels.h",
                "softmax_kernels.h",
                "vector_kernels.cc",
                "vector_types.h",
            ],
            copts = copts + ["-O3", "-fno-math-errno", "-ffp-contract=fast", "-Wno-psabi"],
            local_defines = defines,
            deps = [":adamw_" + variant.lower(), ":vector_kernels_table"],
        )
    native.cc_library(
        name = name,
        deps = [":vector_kernels_table"] + [":vector_kernels_" + variant.lower() for variant in _COPTS],
    )
