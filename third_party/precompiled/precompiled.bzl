"""Headers of the system that are compiled once, and not once for each source."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_headers_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )

    # Empty: a source whose options do not suit what was compiled, which g++ finds out, gets nothing and includes everything itself.
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(header, "")
    provided = [header]
    if ctx.attr.enabled and "clang" not in toolchain.compiler_executable:
        compiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")
        variables = cc_common.create_compile_variables(
            cc_toolchain = toolchain,
            feature_configuration = features,
            user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ["-x", "c++-header"],
            source_file = ctx.file.list.path,
            output_file = compiled.path,
            quote_include_directories = depset(["."]),
            use_pic = True,
        )
        ctx.actions.run(
            mnemonic = "PrecompileHeaders",
            executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = CPP_COMPILE_ACTION_NAME),
            arguments = cc_common.get_memory_inefficient_command_line(
                feature_configuration = features,
                action_name = CPP_COMPILE_ACTION_NAME,
                variables = variables,
            ),
            env = cc_common.get_environment_variables(
                feature_configuration = features,
                action_name = CPP_COMPILE_ACTION_NAME,
                variables = variables,
            ),
            inputs = depset([ctx.file.list] + ctx.files.included, transitive = [toolchain.all_files]),
            outputs = [compiled],
        )
        provided.append(compiled)
    return [CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset(provided)))]

precompiled_headers = rule(
    doc = "What the header `list` includes, compiled with the options of all sources: NAME.h, which a source includes before all else " +
          "(with_precompiled). Not `enabled`, or with clang, NAME.h is empty, and sources compile by their own includes alone.",
    implementation = _precompiled_headers_impl,
    attrs = {
        "list": attr.label(allow_single_file = [".h"], mandatory = True),
        "included": attr.label_list(allow_files = [".h"], doc = "headers of this project that `list` includes"),
        "enabled": attr.bool(mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def with_precompiled(name, deps = [], copts = [], **kwargs):
    """The attributes of a target, with the precompiled headers `name` of this package added."""
    return dict(
        kwargs,
        deps = deps + ["//third_party/precompiled:" + name],
        copts = ["-include", "third_party/precompiled/%s.h" % name] + copts,
    )
