#pragma once

#include "passes/pass.h"

namespace monograph::passes {
