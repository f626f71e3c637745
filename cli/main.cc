// medley: what users ask of a coordinator, and `up`, a cluster on one machine.
#include "cli/command_line.h"

int main(int argc, char** argv) { return medley::RunCommandLine(argc, argv); }
