"""Layering rules as tests."""

def forbidden_dependency_test(name, target, must_not_reach):
    """Fails if `target` depends, however indirectly, on any of `must_not_reach` (full labels)."""
    forbidden = " + ".join(must_not_reach)
    native.genquery(
        name = name + "_query",
        expression = "deps(%s) intersect (%s)" % (target, forbidden),
        scope = [target] + must_not_reach,
        testonly = True,
    )
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["//third_party:assert_empty.sh"],
        args = ["$(location :%s_query)" % name],
        data = [":%s_query" % name],
    )
