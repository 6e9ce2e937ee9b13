#include "diagnose/compile/graph_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

#include "diagnose/line_scan.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdull;
  return hash ^ (hash >> 33);
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

// Position of `wanted` outside quotes and brackets; npos if there is none.
std::size_t find_outside(std::string_view text, std::string_view wanted) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
      continue;
    }
    if (depth == 0 && text.substr(i).starts_with(wanted)) return i;
    if (c == '\'' || c == '"') quote = c;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
  }
  return std::string_view::npos;
}

// Elements of "a, b" at the top level, sorted.
std::string sorted_elements(std::string_view inner) {
  std::vector<std::string> parts;
  while (!inner.empty()) {
    const std::size_t comma = std::min(find_outside(inner, ","), inner.size());
    parts.emplace_back(trim(inner.substr(0, comma)));
    inner.remove_prefix(std::min(inner.size(), comma + 1));
  }
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// The matching close of the bracket at `open`; npos if there is none.
std::size_t close_of(std::string_view text, std::size_t open) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      if (--depth == 0) return i;
    }
  }
  return std::string_view::npos;
}

// "{b, a}" and "OrderedSet([b, a])" -> sorted. Dictionaries (with ':') keep their order.
std::string sort_sets(std::string text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t open = std::string::npos;
    if (text[at] == '{') open = at;
    for (const std::string_view word : {"OrderedSet([", "frozenset([", "set(["}) {
      if (std::string_view(text).substr(at).starts_with(word)) open = at + word.size() - 1;
    }
    if (open == std::string::npos) continue;
    const std::size_t close = close_of(text, open);
    if (close == std::string::npos) break;
    const std::string inner = text.substr(open + 1, close - open - 1);
    if (find_outside(inner, ":") != std::string::npos) continue;
    const std::string sorted = sorted_elements(inner);
    text.replace(open + 1, close - open - 1, sorted);
    at = open + sorted.size();
  }
  return text;
}

// Takes one graph's text apart; statements refer to each other by the hashes of `values_`.
class GraphParser {
 public:
  NormalGraph parse(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      take_line(text.substr(0, end));
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    for (const GraphNode& node : graph_.nodes) {
      graph_.hash = mix(graph_.hash, node.hash);
      graph_.unordered_hash += mix(0x1234, node.hash);
      if (node.is_collective) graph_.collectives_hash = mix(graph_.collectives_hash, node.hash);
    }
    return std::move(graph_);
  }

 private:
  void take_line(std::string_view raw) {
    const std::string_view line = trim(raw);
    if (in_signature_) {
      signature_ += ' ';
      signature_ += line.substr(0, line.find("  # "));
      if (line.find("):") != std::string_view::npos || line.ends_with(") -> None:")) {
        take_signature();
      }
      return;
    }
    if (line.empty()) return;
    if (line.starts_with('#')) {
      take_comment(line);
    } else if (line.starts_with("class ") || line.find(" class ") != std::string_view::npos) {
      values_.clear();  // a nested module's names are its own
    } else if (line.starts_with("def forward(")) {
      signature_ = line.substr(12);
      in_signature_ = true;
      if (find_outside(signature_, "):") != std::string_view::npos ||
          line.find("):") != std::string_view::npos) {
        take_signature();
      }
    } else if (in_body_) {
      take_statement(line);
    }
  }

  // # File: /job/mr.py:10 in forward, code: h=torch.relu(s.a(x))
  void take_comment(std::string_view line) {
    const std::size_t at = line.find("File: ");
    if (at == std::string_view::npos) {
      if (line.find("No stacktrace") != std::string_view::npos) file_.clear(), line_ = 0;
      return;
    }
    std::string_view rest = line.substr(at + 6);
    const std::size_t code = rest.find(", code: ");
    code_ = code == std::string_view::npos ? "" : rest.substr(code + 8);
    rest = rest.substr(0, code);
    const std::size_t in = rest.find(" in ");
    function_ = in == std::string_view::npos ? "" : rest.substr(in + 4);
    rest = rest.substr(0, in);
    const std::size_t colon = rest.rfind(':');
    if (colon == std::string_view::npos) return;
    file_ = rest.substr(0, colon);
    line_ = 0;
    for (const char c : rest.substr(colon + 1)) {
      if (is_digit(c) && line_ < 100'000'000) line_ = line_ * 10 + (c - '0');
    }
  }

  // self, L_x_: "f32[8, 64]cpu", L_y_: "f32[]cpu"):
  void take_signature() {
    in_signature_ = false;
    in_body_ = true;
    std::string_view text = signature_;
    const std::size_t end = text.rfind("):");
    if (end != std::string_view::npos) text = text.substr(0, end);
    while (!text.empty()) {
      const std::size_t comma = std::min(find_outside(text, ","), text.size());
      const std::string_view one = trim(text.substr(0, comma));
      text.remove_prefix(std::min(text.size(), comma + 1));
      const std::string_view name = trim(one.substr(0, one.find(':')));
      if (name.empty() || name == "self") continue;
      const std::string normal = normal_text(one);
      graph_.inputs.emplace_back(normal);
      values_[std::string(name)] = {hash_text(normal), hash_text(masked(normal))};
    }
  }

  void take_statement(std::string_view line) {
    GraphNode node;
    node.text = line.substr(0, std::min(line.find(";  "), line.find("  # ")));
    std::string_view text = node.text;
    if (text.ends_with(';')) text.remove_suffix(1);
    std::string_view name, type;
    const std::size_t equals = find_outside(text, " = ");
    if (equals != std::string_view::npos) {
      name = text.substr(0, equals);
      const std::size_t colon = name.find(": \"");
      if (colon != std::string_view::npos) {
        type = name.substr(colon + 2);
        name = name.substr(0, colon);
      }
      text = text.substr(equals + 3);
    }
    const bool alias = type.empty() && values_.contains(std::string(text));
    if (alias) {  // l_x_ = L_x_
      values_[std::string(name)] = values_[std::string(text)];
      return;
    }
    if (text == "None" || text.starts_with("fx_pytree.")) return;
    node.op = text.substr(0, text.find('('));
    node.is_collective = node.op.find("c10d") != std::string::npos &&
                         node.op.find("wait_tensor") == std::string::npos;
    node.file = file_;
    node.line = line_;
    node.function = function_;
    node.code = code_;
    const Value value = hash_statement(text, type, node.op.find("c10d") != std::string::npos);
    node.hash = value.exact;
    node.shape = value.masked;
    bind_names(name, value);
    graph_.nodes.push_back(std::move(node));
  }

  struct Value {
    std::uint64_t exact = 0;
    std::uint64_t masked = 0;
  };

  // "a" or "a, b, " on the left of the assignment
  void bind_names(std::string_view names, const Value& value) {
    std::uint64_t position = 0;
    while (!names.empty()) {
      const std::size_t comma = std::min(names.find(','), names.size());
      const std::string name(trim(names.substr(0, comma)));
      names.remove_prefix(std::min(names.size(), comma + 1));
      if (name.empty()) continue;
      values_[name] = {mix(value.exact, position), mix(value.masked, position)};
      ++position;
    }
  }

  Value hash_statement(std::string_view expression, std::string_view type, bool uses_group) {
    std::string normal = normal_text(expression);
    if (uses_group) normal = with_group_number(std::move(normal));
    const std::string type_text = normal_text(type);
    Value result{hash_text(type_text), hash_text(masked(type_text))};
    for (std::size_t i = 0; i < normal.size();) {
      if (!is_word(normal[i])) {
        const auto byte = static_cast<unsigned char>(normal[i++]);
        result = {mix(result.exact, byte), mix(result.masked, byte)};
        continue;
      }
      std::size_t end = i;
      while (end < normal.size() && is_word(normal[end])) ++end;
      const std::string word = normal.substr(i, end - i);
      // A name behind a dot is an attribute, not a value.
      const auto found = i > 0 && normal[i - 1] == '.' ? values_.end() : values_.find(word);
      i = end;
      if (found != values_.end()) {
        result = {mix(result.exact, found->second.exact), mix(result.masked, found->second.masked)};
      } else if (is_digit(word[0])) {
        result = {mix(result.exact, hash_text(word)), mix(result.masked, 1)};
      } else {
        const std::uint64_t hash = hash_text(symbol_name(word));
        result = {mix(result.exact, hash), mix(result.masked, hash)};
      }
    }
    return result;
  }

  // Symbolic sizes are numbered in the order in which the compiler met them.
  std::string symbol_name(const std::string& word) {
    const bool symbol = word.size() > 1 && (word[0] == 's' || word[0] == 'u') &&
                        std::all_of(word.begin() + 1, word.end(), is_digit);
    if (!symbol) return word;
    const auto [found, is_new] = symbols_.try_emplace(word, symbols_.size());
    return std::string(1, word[0]) + "#" + std::to_string(found->second);
  }

  // Ranks may know one group under different names; which calls share a group is what counts.
  std::string with_group_number(std::string normal) {
    const std::size_t close = normal.rfind('\'');
    if (close == std::string::npos || close == 0) return normal;
    const std::size_t open = normal.rfind('\'', close - 1);
    if (open == std::string::npos) return normal;
    const std::string name = normal.substr(open + 1, close - open - 1);
    // all_reduce(x, 'sum') of an older call form has no group behind the operation.
    static const char* const kReductions[] = {"sum", "avg", "min", "max", "product"};
    if (std::find(std::begin(kReductions), std::end(kReductions), name) != std::end(kReductions)) {
      return normal;
    }
    const auto [found, is_new] = groups_.try_emplace(name, groups_.size());
    return normal.replace(open + 1, close - open - 1, "group" + std::to_string(found->second));
  }

  static std::string masked(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size();) {
      const bool number = is_digit(text[i]) && (i == 0 || !is_word(text[i - 1]));
      if (!number) {
        result += text[i++];
        continue;
      }
      while (i < text.size() && (is_word(text[i]) || text[i] == '.')) ++i;
      result += '0';
    }
    return result;
  }

  NormalGraph graph_;
  std::unordered_map<std::string, Value> values_;
  std::map<std::string, std::size_t> symbols_;
  std::map<std::string, std::size_t> groups_;
  std::string signature_;
  bool in_signature_ = false;
  bool in_body_ = false;  // behind the first signature; titles stand before it
  std::string file_;
  int line_ = 0;
  std::string function_;
  std::string code_;
};

}  // namespace

std::string normal_text(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    bool done = false;
    for (const std::string_view device :
         {"cuda:", "cpu:", "xpu:", "hpu:", "npu:", "mtia:", "hip:"}) {
      if (!rest.starts_with(device) || rest.size() == device.size() ||
          !is_digit(rest[device.size()])) {
        continue;
      }
      result += device.substr(0, device.size() - 1);
      i += device.size();
      while (i < text.size() && is_digit(text[i])) ++i;
      done = true;
      break;
    }
    if (done) continue;
    constexpr std::string_view kIndex = ", index=";
    if (rest.starts_with(kIndex)) {
      i += kIndex.size();
      while (i < text.size() && is_digit(text[i])) ++i;
    } else if (rest.starts_with("0x")) {
      i += 2;
      while (i < text.size() && std::isxdigit(static_cast<unsigned char>(text[i]))) ++i;
      result += 'N';
    } else if (is_digit(text[i])) {
      std::size_t end = i;
      while (end < text.size() && is_digit(text[end])) ++end;
      // Ids and addresses; no size has as many digits.
      result += end - i >= 10 ? std::string_view("N") : text.substr(i, end - i);
      i = end;
    } else if (text[i] == '/' && (i == 0 || text[i - 1] == '\'' || text[i - 1] == '"')) {
      const std::size_t end = std::min(text.find_first_of("'\"", i), text.size());
      result += base_name(text.substr(i, end - i));
      i = end;
    } else {
      result += text[i++];
    }
  }
  return result.find_first_of("{") == std::string::npos && result.find("et([") == std::string::npos
             ? result
             : sort_sets(std::move(result));
}

NormalGraph parse_graph(std::string_view text) {
  return GraphParser().parse(text);
}

bool is_same_graph(const NormalGraph& a, const NormalGraph& b) {
  if (a.hash == b.hash) return true;
  return a.nodes.size() == b.nodes.size() && a.unordered_hash == b.unordered_hash &&
         a.collectives_hash == b.collectives_hash;
}

std::size_t first_difference(const NormalGraph& a, const NormalGraph& b) {
  std::size_t at = 0;
  while (at < a.nodes.size() && at < b.nodes.size() && a.nodes[at].hash == b.nodes[at].hash) ++at;
  return at;
}

bool differs_in_numbers_only(const NormalGraph& a, const NormalGraph& b) {
  if (a.nodes.size() != b.nodes.size()) return false;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    if (a.nodes[i].shape != b.nodes[i].shape) return false;
  }
  return true;
}

}  // namespace monograph::diagnose
