#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "diagnose/hang/progress.h"
#include "diagnose/reader.h"

// The hang part of the room's registry: files and lines in, one finding for each stuck job out.
namespace monograph::diagnose {

struct HangFacts : Facts {
  enum class Kind { kDump, kText, kRas } kind = Kind::kText;
  Progress progress;
};

bool accepts_flight_recorder(std::string_view head, std::string_view path);
std::unique_ptr<Facts> read_flight_recorder_file(Input& input);

bool accepts_ras(std::string_view head, std::string_view path);
std::unique_ptr<Facts> read_ras_file(Input& input);

std::unique_ptr<LineReader> make_hang_reader();
std::unique_ptr<LineReader> make_ras_reader();

// The files of one job share a folder and a name up to its numbers: "logs/type_rank#.txt".
std::string job_of_path(const std::string& path);

struct Hang;
Finding to_finding(const Hang& hang, const Progress& progress);

void conclude_hangs(const FactsList& facts, Report& report);

}  // namespace monograph::diagnose
