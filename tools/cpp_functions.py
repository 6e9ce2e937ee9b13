"""Finds functions in C++ text by matching braces: enough for lengths, without a compiler."""

import re

# What the eye skips: strings, comments, characters, preprocessor lines. Raw strings come first.
SKIPPED = re.compile(
    r'R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'
    r"|//(?:\\\n|[^\n])*|/\*.*?\*/"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|^[ \t]*\#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(
    r"\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b",
    re.DOTALL,
)
NAME = re.compile(r"([~\w:]+|operator\s*\S+)\s*\(")


def blank(text):
    """The text with everything skipped replaced by spaces; lines stay where they are."""
    return SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def find(text):
    """Yields (name, first line, last line) of each function body outside other functions."""
    code = blank(text)
    stack = []  # of ["scope" | "function" | "value", name, first line]
    start, parens, line = 0, 0, 1
    for position, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char in "()":
            parens += 1 if char == "(" else -1
        elif char == ";" and parens == 0:
            start = position + 1
        elif char == "{":
            header = code[start:position]
            inside = stack and stack[-1][0] != "scope"
            kind = "value"
            if not inside and parens == 0:
                if SCOPE.match(header) and not header.rstrip().endswith(")"):
                    kind = "scope"
                elif NAME.search(header):
                    kind = "function"
            name = NAME.search(header).group(1) if kind == "function" else ""
            first = line - header.lstrip().count("\n")
            stack.append([kind, name, first, parens])
            parens = 0
            start = position + 1
        elif char == "}" and stack:
            kind, name, first, parens = stack.pop()
            start = position + 1
            if kind == "function":
                yield name, first, line
