"""Writes page_files.cc: the files that are named, as literals, with their types."""
import os
import sys

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml"}
PIECE = 12_000  # compilers take literals of 65,536 bytes and no more


def literal(text):
    pieces = [text[at:at + PIECE] for at in range(0, len(text), PIECE)] or [""]
    return "\n".join('R"page(%s)page"' % piece for piece in pieces)


def main(files):
    print('#include "coordinator/web/page_files.h"\n\nnamespace medley {\n\nconst std::vector<PageFile>& PageFiles() {\n'
          "  static const auto* files = new std::vector<PageFile>{")
    for path in sorted(files):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert ')page"' not in text, path
        print('{"%s", "%s", %s},' % (os.path.basename(path), TYPES[os.path.splitext(path)[1]], literal(text)))
    print("  };\n  return *files;\n}\n\n}  // namespace medley")


main(sys.argv[1:])
