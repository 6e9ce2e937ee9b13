#include "diagnose/timeline/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "diagnose/timeline/collectives.h"
#include "diagnose/timeline/copies.h"
#include "diagnose/timeline/intervals.h"
#include "diagnose/timeline/kineto.h"
#include "diagnose/timeline/kineto_event.h"
#include "diagnose/timeline/late_calls.h"
#include "diagnose/timeline/overlap.h"
#include "diagnose/timeline/trace_findings.h"

namespace monograph::diagnose {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kUs = 1000;

// Builds a timeline in microseconds.
class Maker {
 public:
  Maker& kernel(int64_t start, int64_t end, int64_t launch = -1, const char* name = "gemm",
                int stream = 7) {
    add(start, end, launch, name, stream, Activity::kCompute, -1);
    return *this;
  }

  Maker& collective(int64_t start, int64_t end, int64_t launch = -1, CollectiveInfo info = {},
                    int stream = 20) {
    if (info.op.empty()) info.op = "all_reduce";
    builder_.timeline.collectives.push_back(info);
    add(start, end, launch, "ncclDevKernel_AllReduce", stream, Activity::kCollective,
        static_cast<int32_t>(builder_.timeline.collectives.size()) - 1);
    return *this;
  }

  Maker& copy(int64_t start, int64_t end, const char* name, int64_t bytes, bool pageable = false) {
    builder_.timeline.copies.push_back({bytes, pageable});
    add(start, end, start, name, 7, Activity::kCopy,
        static_cast<int32_t>(builder_.timeline.copies.size()) - 1);
    return *this;
  }

  Maker& step(const char* name, int64_t start, int64_t end) {
    builder_.add_step(name, start * kUs, end * kUs);
    return *this;
  }

  Timeline make(int rank = 0) {
    Timeline timeline = builder_.finish();
    timeline.rank = rank;
    timeline.source = "made";
    return timeline;
  }

 private:
  void add(int64_t start, int64_t end, int64_t launch, const char* name, int stream,
           Activity activity, int32_t detail) {
    Span span;
    span.start_ns = start * kUs;
    span.end_ns = end * kUs;
    span.name = builder_.name_id(name);
    span.stream = stream;
    span.activity = activity;
    span.detail = detail;
    if (launch >= 0) builder_.add_launch(++correlation_, launch * kUs);
    builder_.add(span, launch >= 0 ? correlation_ : 0);
  }

  TimelineBuilder builder_;
  int64_t correlation_ = 0;
};

CollectiveInfo info(const char* op, int64_t elements, int64_t address = 0, int64_t group_size = 2,
                    int64_t sequence = -1) {
  CollectiveInfo one;
  one.op = op;
  one.group = "0";
  one.group_size = group_size;
  one.num_elements_in = one.num_elements_out = elements;
  one.input_address = address;
  one.sequence = sequence;
  return one;
}

TEST(Intervals, UnionIntersectionAndDifferenceAgreeWithCountingEachPoint) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> sides[2];
    bool covered[2][100] = {};
    for (int side = 0; side < 2; ++side) {
      for (int i = 0; i < 8; ++i) {
        int64_t start = random() % 100;
        int64_t end = std::min<int64_t>(100, start + random() % 20);
        sides[side].push_back({start, end});
        for (int64_t at = start; at < end; ++at) covered[side][at] = true;
      }
    }
    std::vector<Interval> a = merge_intervals(sides[0]);
    std::vector<Interval> b = merge_intervals(sides[1]);
    int64_t in_a = 0;
    int64_t in_both = 0;
    int64_t only_a = 0;
    for (int at = 0; at < 100; ++at) {
      in_a += covered[0][at];
      in_both += covered[0][at] && covered[1][at];
      only_a += covered[0][at] && !covered[1][at];
    }
    EXPECT_EQ(total_length(a), in_a);
    EXPECT_EQ(shared_length(a, b), in_both);
    EXPECT_EQ(total_length(subtract_intervals(a, b)), only_a);
  }
}

TEST(Overlap, BothFormulasAndExposedTime) {
  // Communication 100 to 300, computation 0 to 200 and, on another stream, 50 to 120.
  Timeline timeline =
      Maker().kernel(0, 200).kernel(50, 120, -1, "other", 8).collective(100, 300).make();
  Overlap overlap = total_overlap(timeline);
  EXPECT_EQ(overlap.communication_ns, 200 * kUs);
  EXPECT_EQ(overlap.computation_ns, 200 * kUs);
  EXPECT_EQ(overlap.both_ns, 100 * kUs);
  EXPECT_EQ(overlap.exposed_ns(), 100 * kUs);
  EXPECT_DOUBLE_EQ(overlap.over_communication(), 50);
  EXPECT_DOUBLE_EQ(overlap.over_larger(), 50);
  Timeline more = Maker().kernel(0, 400).collective(100, 300).make();
  EXPECT_DOUBLE_EQ(total_overlap(more).over_communication(), 100);
  EXPECT_DOUBLE_EQ(total_overlap(more).over_larger(), 50);
}

TEST(Overlap, WorkBelongsToTheStepThatLaunchedIt) {
  Timeline timeline = Maker()
                          .step("ProfilerStep#1", 0, 100)
                          .step("ProfilerStep#2", 100, 200)
                          .kernel(50, 90, 10)
                          .kernel(110, 150, 95)  // runs in step 2, launched in step 1
                          .kernel(160, 170, 120)
                          .make();
  std::vector<Overlap> steps = step_overlaps(timeline);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].computation_ns, 80 * kUs);
  EXPECT_EQ(steps[1].computation_ns, 10 * kUs);
}

TEST(Idle, EveryGapIsPutDownToWhatEndsIt) {
  Timeline timeline = Maker()
                          .kernel(0, 100, 0)
                          .kernel(110, 200, 50)   // 10 us, launched long before: the launch itself
                          .kernel(300, 400, 250)  // 100 us, launched in the gap: the host
                          .kernel(500, 600, 350)  // 100 us, launched before the gap: something else
                          .make();
  Idle idle = device_idle(timeline);
  EXPECT_EQ(idle.kernel_wait_ns, 10 * kUs);
  EXPECT_EQ(idle.host_wait_ns, 100 * kUs);
  EXPECT_EQ(idle.other_ns, 100 * kUs);
  EXPECT_EQ(idle.num_gaps, 3);
}

LateReason only_reason(const Timeline& timeline) {
  const CollectiveDrift drift = collective_drifts(timeline).at(0);
  auto most = std::max_element(drift.calls_by_reason.begin(), drift.calls_by_reason.end());
  EXPECT_EQ(*most, 1);
  return static_cast<LateReason>(most - drift.calls_by_reason.begin());
}

TEST(Drift, EachReasonIsTold) {
  EXPECT_EQ(only_reason(Maker().kernel(0, 100, 0).collective(210, 300, 200).make()),
            LateReason::kHost);
  EXPECT_EQ(only_reason(Maker().kernel(0, 400, 0).collective(210, 300, 200).make()),
            LateReason::kNotLate);
  EXPECT_EQ(only_reason(Maker().kernel(0, 200, 0).collective(205, 300, 10).make()),
            LateReason::kKernel);
  EXPECT_EQ(only_reason(Maker().kernel(0, 400, 0).collective(205, 300, 10).make()),
            LateReason::kBusy);
  EXPECT_EQ(only_reason(Maker().kernel(0, 20, 0).collective(205, 300, 10).make()),
            LateReason::kOther);
  Timeline queued = Maker()
                        .collective(0, 200, 0, info("broadcast", 1))
                        .collective(205, 300, 10, info("all_reduce", 1))
                        .make();
  for (const CollectiveDrift& drift : collective_drifts(queued)) {
    if (drift.op != "all_reduce") continue;
    EXPECT_EQ(drift.calls_by_reason[static_cast<size_t>(LateReason::kStream)], 1);
  }
}

// Five steps of a kernel and an all-reduce; in the fourth something is changed.
Timeline steps_with(int64_t host, int64_t kernel, int64_t duration) {
  Maker maker;
  for (int step = 0; step < 5; ++step) {
    bool odd = step == 3;
    int64_t base = 10'000 * step;
    maker.step(("ProfilerStep#" + std::to_string(step)).c_str(), base, base + 9'000);
    int64_t kernel_end = base + 1'000 + (odd ? kernel : 0);
    maker.kernel(base, kernel_end, base, "gemm");
    int64_t launch = base + 900 + (odd ? host : 0);
    int64_t start = std::max(kernel_end, launch) + 5;
    maker.collective(start, start + 2'000 + (odd ? duration : 0), launch, info("all_reduce", 64));
  }
  return maker.make();
}

TEST(LateCalls, TheReasonIsTheOneThatChanged) {
  EXPECT_THAT(late_calls(steps_with(0, 0, 0)), IsEmpty());
  std::vector<LateCall> host = late_calls(steps_with(3'000, 0, 0));
  ASSERT_EQ(host.size(), 1u);
  EXPECT_EQ(host[0].why, LateCall::Why::kHost);
  EXPECT_EQ(host[0].step, "ProfilerStep#3");
  EXPECT_EQ(host[0].late_ns, 2'900 * kUs);
  std::vector<LateCall> kernel = late_calls(steps_with(0, 3'000, 0));
  ASSERT_EQ(kernel.size(), 1u);
  EXPECT_EQ(kernel[0].why, LateCall::Why::kKernel);
  EXPECT_EQ(kernel[0].kernel, "gemm");
  std::vector<LateCall> peers = late_calls(steps_with(0, 0, 3'000));
  ASSERT_EQ(peers.size(), 1u);
  EXPECT_EQ(peers[0].why, LateCall::Why::kPeers);
  EXPECT_EQ(peers[0].late_ns, 3'000 * kUs);
}

TEST(Useless, EmptyLonelyAndRepeatedCollectivesAreFound) {
  Timeline timeline =
      Maker()
          .collective(0, 10, -1, info("all_reduce", 0))
          .collective(20, 30, -1, info("all_gather", 64, 0, 1))
          .collective(40, 50, -1, info("all_reduce", 64, 0x1000))
          .collective(60, 70, -1, info("all_reduce", 64, 0x1000))
          .kernel(72, 74)
          .collective(80, 90, -1, info("all_reduce", 64, 0x1000))    // after a kernel: new data
          .collective(100, 110, -1, info("all_reduce", 64, 0x2000))  // another buffer
          .make();
  std::vector<UselessCollective> found = useless_collectives(timeline);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].why, UselessCollective::Why::kEmpty);
  EXPECT_EQ(found[1].why, UselessCollective::Why::kAlone);
  EXPECT_EQ(found[2].why, UselessCollective::Why::kRepeated);
  EXPECT_EQ(found[2].num_calls, 1);
}

// Three ranks meet in ten collectives; rank 1 comes 100 us after the others each time.
std::vector<Timeline> late_rank(int64_t extra_computation) {
  std::vector<Timeline> timelines;
  for (int rank = 0; rank < 3; ++rank) {
    Maker maker;
    for (int i = 0; i < 10; ++i) {
      int64_t base = 1000 * i + 37 * rank;  // the clocks do not agree
      int64_t late = rank == 1 ? 100 : 0;
      int64_t busy = rank == 1 ? extra_computation : 0;
      maker.kernel(base, base + 300 + busy, base - 1);
      maker.collective(base + 310 + late, base + 500, base + 305 + late,
                       info("all_reduce", 64, 0, 3, i));
    }
    timelines.push_back(maker.make(rank));
  }
  return timelines;
}

std::vector<const Timeline*> pointers(const std::vector<Timeline>& timelines) {
  std::vector<const Timeline*> result;
  for (const Timeline& timeline : timelines) result.push_back(&timeline);
  return result;
}

TEST(Stragglers, TheLateRankIsNamedWithItsReason) {
  std::vector<Timeline> slow_kernels = late_rank(100);
  Arrivals arrivals = compare_arrivals(pointers(slow_kernels));
  EXPECT_EQ(arrivals.num_matched, 10);
  EXPECT_EQ(arrivals.ranks[1].num_last, 10);
  std::vector<Finding> found = find_stragglers(arrivals, 10000 * kUs);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].where.ranks, ElementsAre(1));
  EXPECT_THAT(found[0].why, HasSubstr("computes 1.000 ms longer"));
  std::vector<Timeline> slow_host = late_rank(0);
  found = find_stragglers(compare_arrivals(pointers(slow_host)), 10000 * kUs);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].why, HasSubstr("longer for the host"));
}

TEST(Stragglers, EqualRanksHaveNone) {
  std::vector<Timeline> timelines;
  for (int rank = 0; rank < 2; ++rank) {
    Maker maker;
    for (int i = 0; i < 10; ++i)
      maker.kernel(100 * i, 100 * i + 50).collective(100 * i + 50, 100 * i + 90 + (i + rank) % 2);
    timelines.push_back(maker.make(rank));
  }
  EXPECT_THAT(find_stragglers(compare_arrivals(pointers(timelines)), 1000 * kUs), IsEmpty());
}

TEST(Copies, PageableRepeatedAndTinyCopiesAreFound) {
  Maker maker;
  maker.step("step 1", 0, 2000).step("step 2", 2000, 4000);
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < 10; ++i) {
      int64_t at = 2000 * step + 100 * i;
      maker.kernel(at, at + 60, at);
      maker.copy(at + 60, at + 80, "Memcpy HtoD (Pageable -> Device)", 1 << 20, true);
      maker.copy(at + 81, at + 83, "Memcpy DtoH (Device -> Pageable)", 4);
    }
  }
  Timeline timeline = maker.make();
  std::vector<RepeatedCopy> repeated = repeated_copies(timeline);
  ASSERT_EQ(repeated.size(), 2u);
  EXPECT_EQ(repeated[0].per_step, 10);
  std::vector<Finding> found = find_in_trace(timeline);
  EXPECT_THAT(found, Contains(Field("code", &Finding::code, "pageable_copies")));
  EXPECT_THAT(found, Contains(Field("code", &Finding::code, "repeated_copies")));
  EXPECT_THAT(found, Contains(Field("code", &Finding::code, "host_reads")));
}

TEST(Findings, AWellOverlappedStepHasNone) {
  Maker maker;
  maker.step("ProfilerStep#1", 0, 1000);
  for (int i = 0; i < 10; ++i)
    maker.kernel(100 * i, 100 * i + 99, 10 * i).collective(100 * i + 10, 100 * i + 60, 10 * i);
  EXPECT_THAT(find_in_trace(maker.make()), IsEmpty());
}

TEST(Kernels, NamesTellWhatTheyDo) {
  for (const char* name : {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
                           "ncclDevKernel_AllGather_RING_LL(x)", "ncclSymkDevKernel_AllReduce_x",
                           "void vllm::cross_device_reduce_1stage<float, 2>(x)",
                           "void one_shot_all_reduce_kernel<float>(x)"}) {
    EXPECT_EQ(classify_kernel(name), Activity::kCollective) << name;
  }
  EXPECT_EQ(classify_kernel("void at::native::reduce_kernel<512>(x)"), Activity::kCompute);
  EXPECT_EQ(classify_kernel("triton_poi_fused_add_0"), Activity::kCompute);
  EXPECT_EQ(collective_op("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)"), "reduce_scatter");
  EXPECT_EQ(collective_op("ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ReduceArgs)"), "all_reduce");
}

Timeline read(const std::string& text, size_t piece = 1 << 20) {
  size_t at = 0;
  auto read = [&](char* buffer, size_t capacity) {
    size_t count = text.copy(buffer, std::min(capacity, piece), at);
    at += count;
    return count;
  };
  return read_kineto("made.json", read);
}

std::string kernel_event(const std::string& name, const char* ts, const char* dur, int stream = 7) {
  return R"({"ph": "X", "cat": "kernel", "name": ")" + name + R"(", "pid": 0, "tid": )" +
         std::to_string(stream) + R"(, "ts": )" + ts + R"(, "dur": )" + dur +
         R"(, "args": {"device": 0, "stream": )" + std::to_string(stream) +
         R"(, "correlation": 5}})";
}

TEST(Kineto, TimesAreExactToTheNanosecond) {
  int64_t ns = 0;
  EXPECT_TRUE(parse_microseconds("4458676983543.183", ns));
  EXPECT_EQ(ns, 4458676983543183);
  EXPECT_TRUE(parse_microseconds("12", ns));
  EXPECT_EQ(ns, 12000);
  EXPECT_TRUE(parse_microseconds("1.5e3", ns));
  EXPECT_EQ(ns, 1500000);
  for (const char* bad : {"", "abc", "-5", "99999999999999999999", "1.2.3x"})
    EXPECT_FALSE(parse_microseconds(bad, ns)) << bad;
}

TEST(Kineto, InvalidBitsDoNoHarm) {
  std::string text =
      "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": N/A, \"name\": "
      "\"a\\\"b\"}],\n\"traceEvents\": [\n" +
      kernel_event("raw \x01\x02 control", "10", "5") + ",\n" +
      "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"no numbers\", \"ts\": NaN, \"dur\": "
      "N/A},,\n" +
      "17, \"text\", null,\n" + kernel_event("with \\\"quotes\\\" and }] inside", "20", "5") +
      "\n], \"traceName\": \"x\"}";
  for (size_t piece : {size_t{1}, size_t{7}, size_t{4096}}) {
    Timeline timeline = read(text, piece);
    EXPECT_EQ(timeline.spans.size(), 2u);
    EXPECT_EQ(timeline.num_skipped, 4);
    EXPECT_FALSE(timeline.is_truncated);
  }
}

TEST(Kineto, AListOfEventsIsReadToo) {
  EXPECT_EQ(read("[" + kernel_event("a", "1", "2") + "," + kernel_event("b", "4", "2") + "]")
                .spans.size(),
            2u);
}

TEST(Kineto, ATruncatedTraceGivesWhatItHeld) {
  std::string text = "{\"schemaVersion\": 1, \"traceEvents\": [" + kernel_event("a", "1", "2") +
                     "," + kernel_event("b", "4", "2");
  text.resize(text.size() - 20);
  Timeline timeline = read(text);
  EXPECT_EQ(timeline.spans.size(), 1u);
  EXPECT_TRUE(timeline.is_truncated);
  EXPECT_THAT(find_in_trace(timeline), Contains(Field("code", &Finding::code, "damaged_trace")));
}

// A lost quote swaps text and strings; reading goes on at a later event.
TEST(Kineto, ALostQuoteLosesAPartNotTheRest) {
  std::string text =
      "{\"traceEvents\": [" + kernel_event("a", "1", "2") + ",\n{\"ph\": \"X\", \"name\": \"lost, ";
  for (int i = 0; i < 100000; ++i) text += "\n  " + kernel_event("k", "10", "1") + ",";
  text += "\n" + kernel_event("z", "20", "2") + "]}";
  Timeline timeline = read(text);
  EXPECT_GT(timeline.spans.size(), 1000u);
}

TEST(Kineto, ArgumentsOfTheHostOpDescribeAKernelWithoutThem) {
  std::string text = R"json({"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 1, "dur": 2,
     "args": {"External id": 77, "Collective name": "_allgather_base", "In msg nelems": 4, "Out msg nelems": 8,
              "Group size": 2, "dtype": "Float", "Process Group Name": "3", "Seq": 9}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL(x)", "pid": 0, "tid": 20, "ts": 3, "dur": 5,
     "args": {"External id": 77, "stream": 20, "device": 0, "correlation": 1}}]})json";
  Timeline timeline = read(text);
  ASSERT_EQ(timeline.collectives.size(), 1u);
  EXPECT_EQ(timeline.collectives[0].op, "all_gather_base");
  EXPECT_EQ(timeline.collectives[0].num_elements_out, 8);
  EXPECT_EQ(timeline.collectives[0].sequence, 9);
}

}  // namespace
}  // namespace monograph::diagnose
