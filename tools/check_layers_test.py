#!/usr/bin/env python3
"""Plants violations in a small tree: check_layers must find each, and none in the clean tree."""

import pathlib
import tempfile
import unittest

import check_layers
import cpp_functions

CLEAN = {
    "src/base/error.h": "#pragma once\n#include <string>\n",
    "src/ir/graph.h": '#pragma once\n#include "base/error.h"\n',
    "src/ir/graph.cc": '#include "ir/graph.h"\n',
    "src/ops/mm.cc": '#include "ir/graph.h"\n',
    "src/frontend/trace/tensor.h": '#include "ir/graph.h"\n',
    "src/frontend/nn/linear.h": '#include "frontend/trace/tensor.h"\n',
    "src/CMakeLists.txt": "room(base LIBRARIES fmt)\nroom(ir DEPENDS base LIBRARIES fmt)\n",
    "tests/golden_test.cc": '#include "ops/mm.h"\n',
}


def run(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **changes}.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layers.violations(check_layers.Tree(folder))


def body(num_lines):
    return "int f(int x) {\n" + "  x += 1;\n" * (num_lines - 2) + "}\n"


class Planted(unittest.TestCase):
    def finds(self, changes, *words):
        found = run(changes)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_clean_tree(self):
        self.assertEqual(run({}), [])

    def test_include_outside_the_line(self):
        text = '\n#include "ops/mm.h"\n'
        self.finds(
            {"src/ir/a.cc": text, "src/ops/mm.h": ""}, "src/ir/a.cc:2", "room ir", "only: base"
        )

    def test_nobody_includes_cli(self):
        self.finds({"src/train/a.cc": '#include "cli/b.h"\n', "src/cli/b.h": ""}, "room train")

    def test_sub_rooms_in_order(self):
        text = '#include "frontend/session/s.h"\n'
        self.finds({"src/frontend/nn/a.cc": text, "src/frontend/session/s.h": ""}, "trace < nn")

    def test_unknown_room_and_include(self):
        self.finds({"src/stuff/a.cc": ""}, "'stuff' is no room")
        self.finds({"src/ir/a.cc": '#include "graph.h"\n'}, "no file of src/")
        self.finds({"src/a.cc": ""}, "no room")

    def test_ring_of_files(self):
        ring = {"src/ir/a.h": '#include "ir/b.h"\n', "src/ir/b.h": '#include "ir/a.h"\n'}
        self.finds(ring, "ring of files", "src/ir/a.h -> src/ir/b.h -> src/ir/a.h")

    def test_ring_of_folders(self):
        ring = {
            "src/ir/a.h": '#include "ir/loop/b.h"\n',
            "src/ir/c.h": "",
            "src/ir/loop/b.h": '#include "ir/c.h"\n',
        }
        self.finds(ring, "ring of folders", "src/ir -> src/ir/loop -> src/ir")
        ring["src/ir/a_test.cc"] = ring.pop("src/ir/a.h")
        self.assertEqual(run(ring), [])

    def test_dependency_in_cmake(self):
        self.finds(
            {"src/CMakeLists.txt": "room(ir DEPENDS base ops LIBRARIES fmt)\n"}, "depends on ops"
        )

    def test_heavy_header(self):
        self.finds({"src/ir/a.h": "#include <nlohmann/json.hpp>\n"}, "compiles slowly")
        self.finds({"src/ir/a.cc": "#include <CLI/CLI.hpp>\n"}, "compiles slowly")

    def test_vague_names(self):
        for name in (
            "src/ir/util.h",
            "src/ir/string_utils.cc",
            "tests/helpers/a.cc",
            "src/ir/misc.h",
        ):
            self.finds({name: ""}, "says nothing")

    def test_long_file(self):
        self.finds({"src/ir/a.cc": "int x;\n" * 501}, "501 lines")
        self.assertEqual(run({"src/ir/a.cc": "int x;\n" * 500}), [])

    def test_long_function(self):
        self.finds(
            {"src/ir/a.cc": "namespace a {\n" + body(61) + "}\n"}, "src/ir/a.cc:2", "f has 61"
        )
        self.assertEqual(run({"src/ir/a.cc": body(60)}), [])
        self.finds({"tools/a.py": "def g():\n" + "    x = 1\n" * 60}, "tools/a.py:1", "g has 61")


class Functions(unittest.TestCase):
    def test_shapes_of_functions(self):
        text = """
namespace a { namespace {
struct S : T<int> {
  S(int x)
      : x_{x}, y_(x) {
    if (x) { y_ = 1; }
  }
  void get() const noexcept { for (;;) {} }
};
template <typename T>
T twice(T x) {
  auto f = [](int y) { return y; };
  return '}' + f(x) /* } */;  // }
}
const std::vector<int> kTable = {1, 2};
const Op op = {.infer = infer, .list = {1, 2}};
TEST(Suite, Name) {
  check("}", R"(
}})");
  int n = 1'000'000;
}
}  // namespace
}
int last() { return 0; }
"""
        found = [f for f in cpp_functions.find(text) if f[0] not in ("x_", "S") or f[2] - f[1] > 0]
        names = [name for name, _, _ in found]
        self.assertEqual(names[-4:], ["get", "twice", "TEST", "last"])
        self.assertIn(("twice", 10, 14), found)
        self.assertIn(("TEST", 17, 21), found)
        self.assertIn(("last", 24, 24), found)


if __name__ == "__main__":
    unittest.main()
