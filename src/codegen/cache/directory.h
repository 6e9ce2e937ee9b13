#pragma once

#include <filesystem>
#include <string>

namespace monograph::codegen {

// Replaces ${NAME} by the environment's value and ${NAME:-word} by that or the word:
// "/scratch/${SLURM_JOB_ID}/rank_${RANK:-0}". UserError that names a variable which is not set and
// has no word.
std::string expand_variables(const std::string& text);

// Of `given`, or, where that is empty, of
// ${MONOGRAPH_CACHE_DIR:-${XDG_CACHE_HOME:-~/.cache}/monograph}: variables are replaced in both.
std::filesystem::path cache_directory(const std::string& given = {});

// $TMPDIR or /tmp
std::filesystem::path temporary_root();

}  // namespace monograph::codegen
