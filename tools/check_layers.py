#!/usr/bin/env python3
"""Holds the source tree to the rooms of the design: who may include whom, no rings, no vague names,
no long files or functions.

Usage: tools/check_layers.py [ROOT]      prints one line a violation and exits 1 if there is any
"""

import ast
import pathlib
import re
import sys

import cpp_functions

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60

# room -> the rooms it may include; beside itself. Order: a room stands below the ones that use it.
ROOMS = {
    "base": "",
    "ir": "base",
    "device": "base",
    "comm": "device base",
    "ops": "ir base",
    "analysis": "ops ir base",
    "passes": "analysis ops ir base",
    "codegen": "analysis ops ir base",
    "compiler": "codegen passes analysis ops ir base",
    "runtime": "comm device ops ir base",
    "frontend": "compiler runtime codegen passes analysis ops comm device ir base",
    "verify": "frontend compiler runtime codegen passes analysis ops comm device ir base",
    "train": "frontend compiler runtime codegen passes analysis ops comm device ir base",
    "launch": "comm device base",
    "diagnose": "ir base",
    "simulate": "compiler analysis ir base",
    "cli": "train verify frontend compiler runtime codegen passes analysis ops comm device ir base"
    " launch diagnose simulate",
}
# Folders inside a room that stand in an order: a later one may include the earlier ones.
SUB_ROOMS = {"frontend": ["trace", "nn", "import", "session"]}

# Headers that cost seconds in every file that sees them -> the files that may include them.
HEAVY_HEADERS = {
    "CLI/": r"src/cli/arguments\.cc",
    "nlohmann/": r".*\.cc",
    "simdjson": r".*\.cc",
    "dnnl": r".*\.cc",
}

FOLDERS = ["src", "tests", "bench", "examples", "python", "tools", "scripts", "cmake"]
CPP = {".h", ".cc", ".cu", ".cuh", ".inc"}
CODE = CPP | {".py", ".sh", ".cmake"}
VAGUE = re.compile(r"(^|_)(utils?|helpers?|common|misc|managers?)(_|\.|$)", re.IGNORECASE)
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
CMAKE_ROOM = re.compile(r"^\s*room\((\w+)([^)]*)\)", re.MULTILINE)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def find_rings(edges):
    """edges: node -> set of nodes. Yields a cycle, as a list of nodes, for each back edge."""
    state = {}

    def visit(node, path):
        state[node] = "open"
        for target in sorted(edges.get(node, ())):
            if state.get(target) == "open":
                yield path[path.index(target) :] + [target]
            elif target not in state:
                yield from visit(target, path + [target])
        state[node] = "done"

    for node in sorted(edges):
        if node not in state:
            yield from visit(node, [node])


class Tree:
    """The code files below root; check_* yield "path:line: message" strings."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.texts = {}
        for folder in FOLDERS:
            for path in sorted((self.root / folder).rglob("*")):
                is_code = path.suffix in CODE or path.name == "CMakeLists.txt"
                if path.is_file() and is_code:
                    self.texts[path.relative_to(self.root).as_posix()] = path.read_text()
        self.sources = {p: t for p, t in self.texts.items() if pathlib.Path(p).suffix in CPP}
        self.rooms = {p: t for p, t in self.sources.items() if p.startswith("src/")}

    def includes(self, path):
        """(line, kind, name) of each #include; kind is '"' or '<'."""
        text = self.sources[path]
        for match in INCLUDE.finditer(text):
            yield line_of(text, match.start(2)), match.group(1), match.group(2)

    def check_rooms(self):
        for path in self.rooms:
            parts = path.split("/")
            if len(parts) < 3:
                yield f"{path}:1: stands in no room: move it below src/ROOM/"
                continue
            room = parts[1]
            if room not in ROOMS:
                yield f"{path}:1: '{room}' is no room: the rooms are {', '.join(ROOMS)}"
                continue
            for line, kind, name in self.includes(path):
                if kind == '"':
                    yield from self.check_include(path, line, room, name)

    def check_include(self, path, line, room, name):
        where = f"{path}:{line}"
        target = name.split("/")[0]
        if f"src/{name}" not in self.rooms:
            yield f'{where}: "{name}" is no file of src/: write "room/file.h", or <...>'
        elif target != room and target not in ROOMS[room].split():
            allowed = ROOMS[room].replace(" ", ", ") or "nothing"
            yield f'{where}: room {room} includes "{name}", but may include only: {allowed}'
        elif target == room and room in SUB_ROOMS:
            order = SUB_ROOMS[room]
            own, other = path.split("/")[2], name.split("/")[1]
            if other in order and (own not in order or order.index(own) < order.index(other)):
                rule = " < ".join(order)
                yield f'{where}: {room}/{own} includes "{name}", but the order is {rule}'

    def check_cmake(self):
        """What the build links must be what the table allows."""
        path = "src/CMakeLists.txt"
        for match in CMAKE_ROOM.finditer(self.texts.get(path, "")):
            where = f"{path}:{line_of(self.texts[path], match.start())}"
            room, words = match.group(1), match.group(2).split()
            if room not in ROOMS:
                yield f"{where}: '{room}' is no room: the rooms are {', '.join(ROOMS)}"
                continue
            depends = words[words.index("DEPENDS") + 1 :] if "DEPENDS" in words else []
            for other in depends:
                if other.isupper():
                    break
                if other not in ROOMS[room].split():
                    yield f"{where}: room {room} depends on {other}, which its line does not allow"

    def check_rings(self):
        files, folders = {}, {}
        for path in self.rooms:
            for _, kind, name in self.includes(path):
                target = f"src/{name}"
                if kind != '"' or target not in self.rooms:
                    continue
                files.setdefault(path, set()).add(target)
                # Rings between rooms are check_rooms' business. A test is a leaf and closes none.
                folder, other = path.rpartition("/")[0], target.rpartition("/")[0]
                is_same_room = folder.split("/")[1] == other.split("/")[1]
                if is_same_room and folder != other and not path.endswith("_test.cc"):
                    folders.setdefault(folder, set()).add(other)
        for kind, edges in (("files", files), ("folders", folders)):
            for ring in find_rings(edges):
                yield f"{ring[0]}:1: ring of {kind}: {' -> '.join(ring)}"

    def check_heavy_headers(self):
        for path in self.sources:
            for line, _, name in self.includes(path):
                for prefix, allowed in HEAVY_HEADERS.items():
                    if name.startswith(prefix) and not re.fullmatch(allowed, path):
                        yield f"{path}:{line}: <{name}> compiles slowly: only {allowed} may include it"

    def check_names(self):
        for path in self.texts:
            for part in path.split("/"):
                if VAGUE.search(part):
                    yield f"{path}:1: '{part}' says nothing: name what it holds"

    def check_lengths(self):
        for path, text in self.texts.items():
            num_lines = len(text.splitlines())
            if num_lines > MAX_FILE_LINES:
                yield f"{path}:1: {num_lines} lines, more than {MAX_FILE_LINES}: split it by idea"
            for name, first, last in functions(path, text):
                if last - first + 1 > MAX_FUNCTION_LINES:
                    yield (
                        f"{path}:{first}: {name} has {last - first + 1} lines,"
                        f" more than {MAX_FUNCTION_LINES}"
                    )


def functions(path, text):
    """(name, first line, last line) of each function."""
    suffix = pathlib.Path(path).suffix
    if suffix in CPP:
        yield from cpp_functions.find(text)
    elif suffix == ".py":
        for node in ast.walk(ast.parse(text, path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.name, node.lineno, node.end_lineno


def violations(tree):
    checks = [
        tree.check_rooms,
        tree.check_cmake,
        tree.check_rings,
        tree.check_heavy_headers,
        tree.check_names,
        tree.check_lengths,
    ]
    return [line for check in checks for line in check()]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    tree = Tree(root)
    if not tree.texts:
        sys.exit(f"layers: no code below {root}: give the root of the project")
    found = violations(tree)
    for line in found:
        print(line)
    print(f"layers: {len(tree.texts)} files, {len(found)} violations")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
