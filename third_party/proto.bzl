"""Protos, by the machine's own protoc."""

load("//third_party/precompiled:precompiled.bzl", "with_precompiled")

def _generate(name, proto, outs, flags):
    native.genrule(
        name = name,
        srcs = native.glob(["*.proto"]),
        outs = outs,
        cmd = "protoc -I. " + flags + " $(location " + proto + ")",
    )

def cc_proto(name, proto, deps = [], **kwargs):
    """The messages of one .proto of this package as a C++ library; `deps` are those it imports."""
    stem = proto[:-len(".proto")]
    _generate(name + "_gen", proto, [stem + ".pb.h", stem + ".pb.cc"], "--cpp_out=$(GENDIR)")
    native.cc_library(
        name = name,
        srcs = [stem + ".pb.cc"],
        hdrs = [stem + ".pb.h"],
        **with_precompiled("library", copts = ["-w"], deps = deps + ["//third_party:protobuf"], **kwargs)
    )

def cc_grpc(name, proto, deps, **kwargs):
    """The service stubs of one .proto; `deps` has its messages."""
    stem = proto[:-len(".proto")]
    _generate(
        name + "_gen",
        proto,
        [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"],
        "--grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin)",
    )
    native.cc_library(
        name = name,
        srcs = [stem + ".grpc.pb.cc"],
        hdrs = [stem + ".grpc.pb.h"],
        **with_precompiled("library", copts = ["-w"], deps = deps + ["//third_party:grpc"], **kwargs)
    )
