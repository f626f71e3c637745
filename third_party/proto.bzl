"""Protos, by the machine's own protoc."""

def cc_proto(name, proto, deps = [], grpc = False, **kwargs):
    """One .proto of this package as a C++ library.

    Args:
      name: the library.
      proto: the file.
      deps: cc_proto libraries whose .proto it imports.
      grpc: also generate and link the service stubs.
      **kwargs: passed to cc_library.
    """
    stem = proto[:-len(".proto")]
    hdrs = [stem + ".pb.h"] + ([stem + ".grpc.pb.h"] if grpc else [])
    srcs = [stem + ".pb.cc"] + ([stem + ".grpc.pb.cc"] if grpc else [])
    plugin = " --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin)" if grpc else ""
    native.genrule(
        name = name + "_gen",
        srcs = [proto] + native.glob(["*.proto"], exclude = [proto]),
        outs = hdrs + srcs,
        cmd = "protoc -I. --cpp_out=$(GENDIR)" + plugin + " $(location " + proto + ")",
    )
    native.cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        deps = deps + [Label("//third_party:grpc") if grpc else Label("//third_party:protobuf")],
        **kwargs
    )
