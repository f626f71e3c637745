"""The CUDA toolkit of this machine as the repository @local_cuda; downloads nothing.

It is looked for in $CUDA_HOME, then in /usr/local/cuda. @local_cuda has
    //:cuda.bzl    HAS_CUDA: nvcc and the headers of the driver and cuBLASLt were found; HAS_CUDNN: those of cuDNN 9, too;
                   NVCC: the compiler's path; STUB_DRIVER: of the toolkit's library that stands for the driver, "" if it has none
    //:headers     a cc_library of the headers, empty without a toolkit. Nothing is linked: libraries are opened at run time.
"""

_BUILD = """
cc_library(
    name = "headers",
    hdrs = glob(["include/*.h", "include/crt/*.h", "include/crt/*.hpp", "include/cuda/**", "include/nv/**", "cudnn/cudnn*.h"]),
    includes = [%s],
    visibility = ["//visibility:public"],
)
"""

def _first_with(repository_ctx, folders, files):
    """The first of `folders` that has every one of `files`, or None."""
    for folder in folders:
        if all([repository_ctx.path(folder + "/" + name).exists for name in files]):
            return folder
    return None

def _local_cuda_impl(repository_ctx):
    folders = ["/usr/local/cuda"]
    home = repository_ctx.os.environ.get("CUDA_HOME", "")
    if home:
        folders = [home]
    root = _first_with(repository_ctx, folders, ["bin/nvcc", "bin/bin2c", "include/cuda.h", "include/cublasLt.h"])
    cudnn = None
    includes = []
    if root:
        # A folder of links, so that the package's files are its own.
        repository_ctx.symlink(root + "/include", "include")
        includes.append('"include"')
        candidates = [root + "/include", "/usr/include", "/usr/include/x86_64-linux-gnu"]
        cudnn = _first_with(repository_ctx, candidates, ["cudnn_graph.h", "cudnn_version.h"])
        if cudnn and cudnn != root + "/include":
            for header in repository_ctx.path(cudnn).readdir():
                if header.basename.startswith("cudnn"):
                    repository_ctx.symlink(header, "cudnn/" + header.basename)
            includes.append('"cudnn"')
    repository_ctx.file("BUILD.bazel", _BUILD % ", ".join(includes))
    stub = _first_with(repository_ctx, [root + "/lib64/stubs"] if root else [], ["libcuda.so"])
    repository_ctx.file("cuda.bzl", "HAS_CUDA = %s\nHAS_CUDNN = %s\nNVCC = \"%s\"\nSTUB_DRIVER = \"%s\"\n" % (
        root != None,
        cudnn != None,
        root + "/bin/nvcc" if root else "",
        stub + "/libcuda.so" if stub else "",
    ))

local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    environ = ["CUDA_HOME"],
    local = True,
)
