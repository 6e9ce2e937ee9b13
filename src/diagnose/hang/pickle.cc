#include "diagnose/hang/pickle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "diagnose/hang/json_text.h"

namespace monograph::diagnose {
namespace {

constexpr int kMaxDepth = 64;  // a dump is 5 deep
// A reference of two bytes may stand for a long string, and nested references grow exponentially in
// a crafted file; both bounds together stop that and leave room for any real dump.
constexpr size_t kSmallOutput = size_t{64} << 20;
constexpr size_t kMaxGrowth = 256;

enum class Kind : uint8_t { kMark, kNone, kBool, kInt, kUnsigned, kFloat, kString, kList, kDict };

struct Node {
  Kind kind;
  uint64_t bits = 0;  // the bool, integer or float
  std::string_view text;
  std::vector<uint32_t> children;  // list items, or key, value, key, value
};

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  std::string run() {
    while (true) {
      start_ = at_;
      uint8_t opcode = byte();
      if (opcode == '.') break;
      if (!scalar(opcode) && !container(opcode) && !memo(opcode)) {
        throw_user_error(
            "pickle opcode 0x{:02x} at offset {} is not allowed: a flight recorder dump holds only "
            "None, "
            "bools, numbers, strings, lists, tuples and dicts; if this file is a dump, write it "
            "again "
            "as JSON",
            opcode, start_);
      }
    }
    uint32_t root = pop();
    emit(root, 0);
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw_user_error("pickle: {} at offset {}; the file is cut short or damaged", what, start_);
  }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("the bytes end inside a value");
    std::string_view piece = bytes_.substr(at_, count);
    at_ += count;
    return piece;
  }

  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }

  uint64_t little_endian(size_t num_bytes) {
    std::string_view piece = take(num_bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < num_bytes; ++i) {
      value |= uint64_t{static_cast<uint8_t>(piece[i])} << (8 * i);
    }
    return value;
  }

  void push(Node node) {
    stack_.push_back(static_cast<uint32_t>(nodes_.size()));
    nodes_.push_back(std::move(node));
  }

  uint32_t pop() {
    if (stack_.empty() || nodes_[stack_.back()].kind == Kind::kMark) fail("a value is missing");
    uint32_t node = stack_.back();
    stack_.pop_back();
    return node;
  }

  // Removes the values above the last mark, and the mark.
  std::vector<uint32_t> pop_to_mark() {
    size_t first = stack_.size();
    while (first > 0 && nodes_[stack_[first - 1]].kind != Kind::kMark) --first;
    if (first == 0) fail("a mark is missing");
    std::vector<uint32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
    stack_.resize(first - 1);
    return items;
  }

  Node& top(Kind kind) {
    if (stack_.empty() || nodes_[stack_.back()].kind != kind) fail("a container is missing");
    return nodes_[stack_.back()];
  }

  void push_integer(uint64_t bits) { push({Kind::kInt, bits, {}, {}}); }
  void push_text(uint64_t size) { push({Kind::kString, 0, take(size), {}}); }

  void push_long(size_t num_bytes) {
    if (num_bytes > 9) fail("an integer is wider than 64 bits");
    uint64_t bits = little_endian(std::min<size_t>(num_bytes, 8));
    if (num_bytes == 9) {
      if (byte() != 0) fail("an integer is wider than 64 bits");
      push({Kind::kUnsigned, bits, {}, {}});
      return;
    }
    if (num_bytes > 0 && num_bytes < 8 && (bits >> (8 * num_bytes - 1) & 1) != 0) {
      bits |= ~uint64_t{0} << (8 * num_bytes);
    }
    push_integer(bits);
  }

  bool scalar(uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (uint8_t version = byte(); version < 2 || version > 5) fail("unknown pickle protocol");
        return true;
      case 0x95:
        take(8);
        return true;  // FRAME
      case 'N':
        push({Kind::kNone, 0, {}, {}});
        return true;  // NONE
      case 0x88:
        push({Kind::kBool, 1, {}, {}});
        return true;  // NEWTRUE
      case 0x89:
        push({Kind::kBool, 0, {}, {}});
        return true;  // NEWFALSE
      case 'K':
        push_integer(byte());
        return true;  // BININT1
      case 'M':
        push_integer(little_endian(2));
        return true;  // BININT2
      case 'J':       // BININT
        push_integer(static_cast<uint64_t>(int64_t{static_cast<int32_t>(little_endian(4))}));
        return true;
      case 0x8a:
        push_long(byte());
        return true;  // LONG1
      case 'G':
        push_float();
        return true;  // BINFLOAT
      case 'X':
        push_text(little_endian(4));
        return true;  // BINUNICODE
      case 0x8c:
        push_text(byte());
        return true;  // SHORT_BINUNICODE
      case 0x8d:
        push_text(little_endian(8));
        return true;  // BINUNICODE8
      default:
        return false;
    }
  }

  void push_float() {
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | byte();
    push({Kind::kFloat, bits, {}, {}});
  }

  void push_tuple(size_t size) {
    std::vector<uint32_t> items(size);
    for (size_t i = size; i > 0; --i) items[i - 1] = pop();
    push({Kind::kList, 0, {}, std::move(items)});
  }

  bool container(uint8_t opcode) {
    switch (opcode) {
      case '(':
        push({Kind::kMark, 0, {}, {}});
        return true;  // MARK
      case ']':
      case ')':
        push({Kind::kList, 0, {}, {}});
        return true;  // EMPTY_LIST, EMPTY_TUPLE
      case '}':
        push({Kind::kDict, 0, {}, {}});
        return true;  // EMPTY_DICT
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple(opcode - 0x84u);
        return true;  // TUPLE1 to TUPLE3
      case 't':
        push({Kind::kList, 0, {}, pop_to_mark()});
        return true;  // TUPLE
      case 'a':
      case 's': {  // APPEND, SETITEM
        std::vector<uint32_t> items(opcode == 'a' ? 1 : 2);
        for (size_t i = items.size(); i > 0; --i) items[i - 1] = pop();
        extend(opcode == 'a' ? Kind::kList : Kind::kDict, items);
        return true;
      }
      case 'e':
        extend(Kind::kList, pop_to_mark());
        return true;  // APPENDS
      case 'u':
        extend(Kind::kDict, pop_to_mark());
        return true;  // SETITEMS
      default:
        return false;
    }
  }

  void extend(Kind kind, const std::vector<uint32_t>& items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) fail("a dict key has no value");
    Node& node = top(kind);
    node.children.insert(node.children.end(), items.begin(), items.end());
  }

  bool memo(uint8_t opcode) {
    switch (opcode) {
      case 'q':
        remember(byte());
        return true;  // BINPUT
      case 'r':
        remember(little_endian(4));
        return true;  // LONG_BINPUT
      case 0x94:
        remember(memo_.size());
        return true;  // MEMOIZE
      case 'h':
        recall(byte());
        return true;  // BINGET
      case 'j':
        recall(little_endian(4));
        return true;  // LONG_BINGET
      default:
        return false;
    }
  }

  void remember(uint64_t id) {
    uint32_t node = pop();
    stack_.push_back(node);
    memo_[id] = node;
  }

  void recall(uint64_t id) {
    auto found = memo_.find(id);
    if (found == memo_.end()) fail("a reference to a value that was not stored");
    stack_.push_back(found->second);
  }

  void emit(uint32_t index, int depth) {
    if (depth > kMaxDepth) fail("values nest too deep or contain themselves");
    if (out_.size() > std::max(kSmallOutput, kMaxGrowth * bytes_.size())) {
      fail("the value grows far beyond its file");
    }
    const Node& node = nodes_[index];
    switch (node.kind) {
      case Kind::kMark:
        fail("a stray mark");
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += node.bits != 0 ? "true" : "false";
        return;
      case Kind::kInt:
        out_ += std::to_string(static_cast<int64_t>(node.bits));
        return;
      case Kind::kUnsigned:
        out_ += std::to_string(node.bits);
        return;
      case Kind::kFloat:
        emit_float(std::bit_cast<double>(node.bits));
        return;
      case Kind::kString:
        append_json_string(out_, node.text);
        return;
      case Kind::kList:
        emit_list(node, depth);
        return;
      case Kind::kDict:
        emit_dict(node, depth);
        return;
    }
  }

  void emit_float(double value) {
    if (std::isfinite(value)) {
      fmt::format_to(std::back_inserter(out_), "{:.17g}", value);
    } else {
      out_ += "null";
    }
  }

  void emit_list(const Node& node, int depth) {
    out_ += '[';
    for (size_t i = 0; i < node.children.size(); ++i) {
      if (i > 0) out_ += ',';
      emit(node.children[i], depth + 1);
    }
    out_ += ']';
  }

  void emit_dict(const Node& node, int depth) {
    out_ += '{';
    for (size_t i = 0; i < node.children.size(); i += 2) {
      if (i > 0) out_ += ',';
      const Node& key = nodes_[node.children[i]];
      if (key.kind == Kind::kString) {
        append_json_string(out_, key.text);
      } else if (key.kind == Kind::kInt) {  // JSON keys are strings
        out_ += fmt::format("\"{}\"", static_cast<int64_t>(key.bits));
      } else {
        fail("a dict key is neither a string nor an integer");
      }
      out_ += ':';
      emit(node.children[i + 1], depth + 1);
    }
    out_ += '}';
  }

  std::string_view bytes_;
  size_t at_ = 0;
  size_t start_ = 0;  // of the opcode at hand, for messages
  std::vector<Node> nodes_;
  std::vector<uint32_t> stack_;
  std::unordered_map<uint64_t, uint32_t> memo_;
  std::string out_;
};

}  // namespace

bool looks_like_pickle(std::string_view head) {
  return head.size() >= 3 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

std::string pickle_to_json(std::string_view bytes) {
  return Machine(bytes).run();
}

}  // namespace monograph::diagnose
