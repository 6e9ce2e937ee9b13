#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/models.h"

// Presets of classifiers of images: ResNets.
namespace monograph::train {

// UserError for a size that it has not, or one below 1.
std::unique_ptr<Model> make_image_model(const ModelConfig& config);
std::vector<std::string> image_model_names();
bool contains_image_model(std::string_view name);

}  // namespace monograph::train
