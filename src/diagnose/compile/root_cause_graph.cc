#include "diagnose/compile/root_cause.h"

namespace monograph::diagnose {

void add_root_cause_section(const CompileJob&, Report&) {}

}  // namespace monograph::diagnose
