#include "diagnose/hang/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace monograph::diagnose {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (int value : values) out += static_cast<char>(value);
  return out;
}

TEST(Pickle, BuildsEveryKindOfValue) {
  // {'a': [1, -2, 300, None, True, False, (1.5, 'x')]} as protocol 2 writes it.
  std::string pickle =
      bytes({0x80, 2,    '}',  '(',  'X',  1,   0,    0, 0,   'a',  'q',  0,   ']',  '(',  'K', 1,
             'J',  0xfe, 0xff, 0xff, 0xff, 'M', 0x2c, 1, 'N', 0x88, 0x89, 'G', 0x3f, 0xf8, 0,   0,
             0,    0,    0,    0,    'X',  1,   0,    0, 0,   'x',  0x86, 'e', 'u',  '.'});
  EXPECT_EQ(pickle_to_json(pickle), R"({"a":[1,-2,300,null,true,false,[1.5,"x"]]})");
}

TEST(Pickle, LongIntegersKeepTheirSign) {
  EXPECT_EQ(pickle_to_json(bytes({0x80, 2, 0x8a, 0, '.'})), "0");
  EXPECT_EQ(pickle_to_json(bytes({0x80, 2, 0x8a, 1, 0xff, '.'})), "-1");
  EXPECT_EQ(pickle_to_json(bytes({0x80, 2, 0x8a, 8, 0, 0, 0, 0, 0, 0, 0, 0x80, '.'})),
            "-9223372036854775808");
  EXPECT_EQ(pickle_to_json(
                bytes({0x80, 2, 0x8a, 9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, '.'})),
            "18446744073709551615");
}

TEST(Pickle, MemoGivesTheSameValueAgain) {
  // ['ab', 'ab'] with the second a reference; protocol 4 with FRAME and MEMOIZE.
  std::string pickle = bytes({0x80, 4,   0x95, 12, 0,   0,   0,    0,   0, 0,   0,  ']',
                              0x94, '(', 0x8c, 2,  'a', 'b', 0x94, 'h', 1, 'e', '.'});
  EXPECT_EQ(pickle_to_json(pickle), R"(["ab","ab"])");
}

TEST(Pickle, EveryOpcodeOutsideTheSmallSetIsRefused) {
  const std::set<int> allowed{0x80, 0x95, '.',  '(',  'N', 0x88, 0x89, 'K',  'M',  'J',  0x8a,
                              'G',  'X',  0x8c, 0x8d, ']', ')',  '}',  0x85, 0x86, 0x87, 't',
                              'a',  'e',  's',  'u',  'q', 'r',  0x94, 'h',  'j'};
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (allowed.contains(opcode)) continue;
    EXPECT_THAT(
        [&] {
          pickle_to_json(bytes({0x80, 2, opcode, 'x', '\n', 'y', '\n', '.'}));
        },
        ThrowsMessage<UserError>(HasSubstr("is not allowed")))
        << opcode;
  }
}

// What a hostile file would hold: posix.system('true').
TEST(Pickle, ACallIsRefusedBeforeAnythingHappens) {
  std::string hostile =
      std::string("\x80\x02") + "cposix\nsystem\nX\x04" + std::string(3, '\0') + "true\x85R.";
  EXPECT_THAT([&] { pickle_to_json(hostile); },
              ThrowsMessage<UserError>(HasSubstr("0x63 at offset 2")));
}

TEST(Pickle, ValuesThatContainThemselvesOrExplodeAreRefused) {
  EXPECT_THROW(pickle_to_json(bytes({0x80, 2, ']', 'q', 0, 'h', 0, 'a', '.'})), UserError);
  // Each list holds the one before twice: 2^40 values from 200 bytes.
  std::string bomb = bytes({0x80, 2, ']', 'q', 0});
  for (int i = 0; i < 40; ++i) bomb += bytes({']', 'q', i + 1, '(', 'h', i, 'h', i, 'e'});
  EXPECT_THROW(pickle_to_json(bomb + "."), UserError);
}

TEST(Pickle, EveryCutIsAnErrorOrAValue) {
  std::string pickle = bytes(
      {0x80, 2, '}', '(', 'X', 1, 0, 0, 0, 'a', 'q', 0, ']', '(', 'K', 1, 'h', 0, 'e', 'u', '.'});
  for (size_t size = 0; size < pickle.size(); ++size) {
    EXPECT_THROW(pickle_to_json(pickle.substr(0, size)), UserError) << size;
  }
}

}  // namespace
}  // namespace monograph::diagnose
