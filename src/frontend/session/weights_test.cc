// Weights of the transformers library in and out, against its logits
// (bench/golden/hugging_face.py).
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "frontend/import/hugging_face.h"
#include "frontend/import/safetensors.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kGolden = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/";

json read_golden() {
  std::ifstream file(kGolden + "hf_logits.json");
  return json::parse(file);
}

nn::GPTConfig gpt_config() {
  return {.vocab_size = 11, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8};
}

nn::LlamaConfig llama_config(bool is_tied) {
  return {.vocab_size = 11,
          .block_size = 8,
          .n_layer = 2,
          .n_head = 4,
          .n_kv_head = 2,
          .n_embd = 16,
          .n_hidden = 12,
          .rope_theta = 10000,
          .is_tied = is_tied};
}

std::string path_of(const std::string& name) {
  return kGolden + "hf_" + name + ".safetensors";
}

void expect_equal_files(const std::string& found_path, const std::string& expected_path) {
  const import::SafetensorsFile found(found_path), expected(expected_path);
  EXPECT_EQ(found.metadata(), expected.metadata());
  EXPECT_EQ(found.tensors().size(), expected.tensors().size());
  for (const import::StoredTensor& tensor : expected.tensors()) {
    const import::StoredTensor* const twin = found.find(tensor.name);
    ASSERT_NE(twin, nullptr) << tensor.name;
    EXPECT_EQ(import::read_tensor(*twin), import::read_tensor(tensor)) << tensor.name;
  }
}

// Loads the file, compares logits, saves again and compares the files.
template <typename Model>
void compare(const Model& model, const std::string& name) {
  const import::WeightNames names = import::hugging_face_names(model);
  Session session;
  import::load_weights(path_of(name), names, [&](const std::string& state, ir::Literal value) {
    session.set_state(state, value);
});
const json golden = read_golden();
std::vector<int64_t> tokens;
for (const json& row : golden["tokens"]) {
  for (const json& token : row) tokens.push_back(token);
}
Compiled forward = session.compile([&](const Tensor& x) { return model(x); });
const ir::Literal logits = forward(ir::Literal::from_i64({2, 8}, tokens)).values[0];
const json& expected = golden["logits"][name];
ASSERT_EQ(logits.num_elements(), static_cast<int64_t>(expected.size()));
for (int64_t i = 0; i < logits.num_elements(); ++i) {
  EXPECT_NEAR(logits.get(i), expected[i].get<double>(), 2e-5) << name << " " << i;
}
const std::string saved = ::testing::TempDir() + "/saved_" + name + ".safetensors";
  import::save_weights(saved, names, [&](const std::string& state) { return session.state(state);
  }  // namespace
);
expect_equal_files(saved, path_of(name));
}  // namespace monograph::session

TEST(Weights, OfTransformersGpt2) {
  compare(nn::GPT(gpt_config()), "gpt2");
}

TEST(Weights, OfTransformersLlama) {
  compare(nn::Llama(llama_config(false)), "llama");
}

TEST(Weights, OfTransformersLlamaWithTiedHead) {
  compare(nn::Llama(llama_config(true)), "llama_tied");
}

// name, parameter or buffer, and shape, a line each.
TEST(Weights, OfTorchvisionResNetsHaveItsNamesAndShapes) {
  std::ifstream file(kGolden + "resnet_names.txt");
  std::map<std::string, std::map<std::string, std::string>> expected;
  for (std::string model, name, shape; file >> model >> name >> shape;) {
    expected[model][name] = "[" + shape + "]";
  }
  ASSERT_EQ(expected.size(), 2u);
  for (const auto& [model, tensors] : expected) {
    const nn::ResNet resnet(model == "resnet18" ? nn::ResNetConfig::resnet18()
                                                : nn::ResNetConfig::resnet50());
    std::map<std::string, std::string> found;
    for (const import::WeightName& weight : import::torchvision_names(resnet).weights) {
      found[weight.stored] = import::stored_shape(weight).str();
    }
    EXPECT_EQ(found, tensors);
  }
}

std::string message_of(const std::string& path, const import::WeightNames& names) {
  try {
    import::load_weights(path, names, [](const std::string&, const ir::Literal&){});
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

// Rewrites a file under other names, with tensors added.
std::string rewritten(const std::string& from, const std::string& prefix_to_drop,
                      const std::vector<import::TensorSource>& more) {
  const import::SafetensorsFile file(from);
  std::vector<import::TensorSource> sources = more;
  for (const import::StoredTensor& tensor : file.tensors()) {
    const bool drops = tensor.name.starts_with(prefix_to_drop);
    sources.push_back({drops ? tensor.name.substr(prefix_to_drop.size()) : tensor.name, tensor.type,
                       [&] { return import::read_tensor(tensor); }});
  }
  const std::string path = ::testing::TempDir() + "/rewritten.safetensors";
  import::write_safetensors(path, sources);
  return path;
}

TEST(Weights, TakesTheNamesOfGpt2ModelWithMasksAndHead) {
  const nn::GPT model(gpt_config());
  const auto names = import::hugging_face_names(model);
  const import::SafetensorsFile file(path_of("gpt2"));
  const import::StoredTensor& embedding = *file.find("transformer.wte.weight");
  const auto mask = [] { return ir::Literal({ir::DType::kF32, {1, 1, 8, 8}}); };
  const auto head = [&] { return import::read_tensor(embedding); };
  EXPECT_EQ(message_of(rewritten(path_of("gpt2"), "transformer.",
                                 {{"h.0.attn.bias", mask().type(), mask},
                                  {"lm_head.weight", embedding.type, head}}),
                       names),
            "no error");
  const auto other_head = [&] { return ir::Literal(embedding.type); };
  EXPECT_THAT(message_of(rewritten(path_of("gpt2"), "transformer.",
                                   {{"lm_head.weight", embedding.type, other_head}}),
                         names),
              HasSubstr("lm_head.weight differs from wte.weight"));
}

TEST(Weights, OneErrorListsAllThatDoesNotFit) {
  nn::GPTConfig config = gpt_config();
  config.block_size = 6;
  config.n_layer = 1;
  const nn::GPT shorter(config);
  const std::string message = message_of(path_of("gpt2"), import::hugging_face_names(shorter));
  EXPECT_THAT(message, HasSubstr("12 unexpected: "));
  EXPECT_THAT(message, HasSubstr("transformer.h.1.attn.c_attn.bias f32[24]"));
  EXPECT_THAT(message,
              HasSubstr("1 unfit: transformer.wpe.weight is f32[8,8], the model takes [6,8]"));
  const std::string other =
      message_of(path_of("llama_tied"), import::hugging_face_names(nn::Llama(llama_config(false))));
  EXPECT_THAT(other, HasSubstr("1 missing: lm_head.weight [11,16]"));
}

TEST(Weights, HalfPrecisionIsWidened) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 2, 2};
  } net;
  const std::string path = ::testing::TempDir() + "/half.safetensors";
  const auto half = [](ir::DType dtype, ir::Shape shape) {
    return ir::Literal::from({dtype, std::move(shape)}, [](int64_t i) { return 0.5 * i; });
  };
  import::write_safetensors(
      path, {{"fc.weight", {ir::DType::kBF16, {2, 2}}, [&] { return half(ir::DType::kBF16, {2, 2});
}
}
, {
  "fc.bias", {ir::DType::kF16, {2}}, [&] { return half(ir::DType::kF16, {2}); }
}
});
std::map<std::string, ir::Literal> loaded;
  import::load_weights(path, import::own_names(net),
                       [&](const std::string& name, ir::Literal value) { loaded[name] = value;
  });
  EXPECT_EQ(loaded["fc.weight"], ir::Literal::from_f32({2, 2}, {0, 0.5, 1, 1.5}));
  EXPECT_EQ(loaded["fc.bias"], ir::Literal::from_f32({2}, {0, 0.5}));
  }

  }  // namespace
  }  // namespace monograph::session
