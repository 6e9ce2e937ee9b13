#pragma once

namespace monograph::runtime {

// Lets OpenMP's threads wait for the next kernel actively for some 50 us only, then sleep. By
// default they spin for 3 ms, which beside other busy processes makes a training step ten times
// slower: the thread that has work waits for the processor that the spinning one holds. OpenMP
// reads its settings once, when the program is loaded, so this starts the program again, in place,
// with GOMP_SPINCOUNT set. Does nothing when that or OMP_WAIT_POLICY is set. Call it first in main;
// `arguments`: its argv.
void limit_spinning(char** arguments);

}  // namespace monograph::runtime
