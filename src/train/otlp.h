#pragma once

#include <chrono>
#include <string>

namespace monograph::train {

// Where metrics go in OpenTelemetry's protocol, as JSON (opentelemetry.io/docs/specs/otlp): a
// collector, "http://HOST:PORT" with /v1/metrics behind it or another path, by POST; or a file, one
// request a line, as the collector's otlpjsonfile receiver reads it.
class OtlpTarget {
 public:
  // UserError for another scheme, no port that is a number, or a file that cannot be written.
  explicit OtlpTarget(std::string target);

  // A collector that is not there is a warning, once, and tried again after a minute: training
  // goes on without it.
  void send(const std::string& request);

 private:
  void post(const std::string& request);

  std::string target_, host_, port_, path_;  // host_: empty for a file
  bool has_warned_ = false;
  std::chrono::steady_clock::time_point next_try_ = {};
};

}  // namespace monograph::train
