#pragma once

namespace medley {

// Runs what the arguments of `medley` say; the exit code. Answers are on standard output, errors on standard
// error: one line, or with --output json {"error": TEXT, "code": NAME}.
//   0    done
//   1    it failed, or the watched job did
//   2    the command line or a file is wrong
//   130  Ctrl-C
int RunCommandLine(int argc, char** argv);

}  // namespace medley
