// Prints docs/ops.md. Usage: document_ops > docs/ops.md

#include <fmt/core.h>

#include "ops/document.h"

int main() {
  fmt::print("{}", monograph::ops::document_ops());
}
