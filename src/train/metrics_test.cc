#include "train/metrics.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/message_of.h"

namespace monograph::train {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Metrics, CountsWhatTheLogIsGiven) {
  const std::string path = testing::TempDir() + "/metrics.prom";
  Metrics metrics(path, 3, 1e10);
  EXPECT_THAT(content_of(path), HasSubstr("monograph_steps_total{rank=\"3\"} 0\n"));
  EventLog events;  // writes no file: metrics need none
  metrics.watch(events);
  events.write(EventLevel::kInfo, EventCategory::kCompile, "compile",
               {{"frame_key", std::string_view("train_step#1")},
                {"product_flops", 4e9},
                {"kernels", int64_t{5}},
                {"kernels_from_cache", int64_t{2}},
                {"fused_kernels", int64_t{4}},
                {"fused_share", 0.5},
                {"ns", int64_t{2'000'000'000}}});
  events.write(EventLevel::kInfo, EventCategory::kCompile, "recompile", {});
  events.write(EventLevel::kInfo, EventCategory::kCompile, "compile_timeout", {});
  events.write(EventLevel::kDebug, EventCategory::kCompile, "swap_in", {});  // not of its level
  for (int64_t i = 1; i <= 100; ++i) {
    events.write(EventLevel::kInfo, EventCategory::kRun, "step",
                 {{"ns", i * 10'000'000}, {"loss", 1.0 / static_cast<double>(i)}});
  }
  metrics.write();
  const std::string text = content_of(path);
  for (const char* line :
       {"# TYPE monograph_cache_misses_total counter\n", "cache_misses_total{rank=\"3\"} 3\n",
        "fused_share{rank=\"3\"} 0.5\n", "compile_seconds_total{rank=\"3\"} 2\n",
        "recompiles_total{rank=\"3\"} 1\n", "compile_timeouts_total{rank=\"3\"} 1\n",
        "swap_ins_total{rank=\"3\"} 0\n", "steps_total{rank=\"3\"} 100\n",
        "product_flops_per_second{rank=\"3\"} 4000000000\n", "mfu{rank=\"3\"} 0.4\n",
        "loss{rank=\"3\"} 0.01\n", "step_seconds{rank=\"3\",quantile=\"0.99\"} 0.99\n",
        "step_seconds_sum{rank=\"3\"} 50.5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Metrics, WithoutAPeakNothingIsSaidOfItsShare) {
  const Metrics metrics(testing::TempDir() + "/metrics.prom", 0);
  EXPECT_THAT(metrics.text(), HasSubstr("product_flops_per_second"));
  EXPECT_THAT(metrics.text(), Not(HasSubstr("mfu")));
}

// A collector on a free port that answers one request with `answer`; gives what it was sent.
class Collector {
 public:
  explicit Collector(std::string answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Collector() { close(listener_); }
  int port() const { return port_; }
  std::string received() {
    thread_.join();
    return received_;
  }

 private:
  void serve() {
    const int client = accept(listener_, nullptr, nullptr);
    char buffer[65536];
    size_t wanted = 1;
    while (received_.size() < wanted) {
      const ssize_t count = recv(client, buffer, sizeof buffer, 0);
      if (count <= 0) break;
      received_.append(buffer, static_cast<size_t>(count));
      const size_t body = received_.find("\r\n\r\n"), length = received_.find("Content-Length: ");
      wanted = body == received_.npos ? received_.size() + 1
                                      : body + 4 + std::stoul(received_.substr(length + 16));
    }
    (void)!send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
    close(client);
  }

  std::string answer_, received_;
  int listener_ = -1, port_ = 0;
  std::thread thread_;
};

// Two steps, sent there.
void send_to(const std::string& target) {
  Metrics metrics("", 3);
  metrics.send_to(OtlpTarget(target));
  EventLog events;
  metrics.watch(events);
  for (const double loss : {1.0, std::numeric_limits<double>::quiet_NaN()}) {
    events.write(
        EventLevel::kInfo, EventCategory::kRun, "step",
        {{"ns", int64_t{500'000'000}}, {"loss", loss}, {"exposed_ns", int64_t{1'000'000}}});
  }
  testing::internal::CaptureStderr();
  metrics.write();
}

TEST(Metrics, ACollectorGetsThemAsOtlp) {
  Collector collector("HTTP/1.1 200 OK\r\n\r\n");
  send_to(fmt::format("http://127.0.0.1:{}", collector.port()));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  const std::string request = collector.received();
  EXPECT_TRUE(request.starts_with("POST /v1/metrics HTTP/1.1\r\n")) << request;
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  const auto body = nlohmann::json::parse(request.substr(request.find("\r\n\r\n") + 4));
  const auto& of_rank = body.at("resourceMetrics").at(0);
  EXPECT_EQ(of_rank.at("resource").at("attributes").at(1).at("value").at("intValue"), "3");
  std::map<std::string, nlohmann::json> metrics;
  for (const auto& each : of_rank.at("scopeMetrics").at(0).at("metrics")) {
    metrics[each.at("name")] = each;
  }
  const auto& steps = metrics.at("monograph_steps_total").at("sum");
  EXPECT_EQ(steps.at("dataPoints").at(0).at("asDouble"), 2);
  EXPECT_EQ(steps.at("isMonotonic"), true);
  EXPECT_EQ(metrics.at("monograph_loss").at("gauge").at("dataPoints").at(0).at("asDouble"), "NaN");
  EXPECT_EQ(metrics.at("monograph_exposed_communication_seconds")
                .at("gauge")
                .at("dataPoints")
                .at(0)
                .at("asDouble"),
            0.001);
  const auto& summary = metrics.at("monograph_step_seconds").at("summary").at("dataPoints").at(0);
  EXPECT_EQ(summary.at("count"), "2");
  EXPECT_EQ(summary.at("quantileValues").at(1).at("value"), 0.5);
}

TEST(Metrics, ACollectorThatRefusesOrIsNotThereIsAWarning) {
  Collector collector("HTTP/1.1 503 Service Unavailable\r\n\r\n");
  send_to(fmt::format("http://127.0.0.1:{}/in", collector.port()));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("it answers 'HTTP/1.1 503"));
  EXPECT_TRUE(collector.received().starts_with("POST /in HTTP/1.1\r\n"));
  send_to("http://127.0.0.1:1");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("metrics do not reach http://127.0.0.1:1: Connection refused"));
}

TEST(Metrics, AFileTakesOneRequestALine) {
  const std::string path = testing::TempDir() + "/metrics.otlp";
  std::remove(path.c_str());
  for (int i = 0; i < 2; ++i) {
    send_to(path);
    testing::internal::GetCapturedStderr();
  }
  std::istringstream lines(content_of(path));
  int num_lines = 0;
  for (std::string line; std::getline(lines, line); ++num_lines) {
    EXPECT_TRUE(nlohmann::json::parse(line).contains("resourceMetrics"));
  }
  EXPECT_GE(num_lines, 2);
}

TEST(Metrics, BadTargetsAreRefused) {
  for (const char* target : {"https://host:4318", "http://host", "http://:4318", "http://host:x"}) {
    EXPECT_THAT(message_of([&] { OtlpTarget{target}; }), HasSubstr("use http://HOST:PORT"))
        << target;
  }
  EXPECT_THAT(message_of([] { OtlpTarget("/nowhere/metrics"); }), HasSubstr("cannot write --otlp"));
}

TEST(Metrics, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(Metrics("/nowhere/metrics", 0), UserError);
}

}  // namespace
}  // namespace monograph::train
