#include "comm/conformance/peer_process.h"

int main(int count, char** arguments) { return medley::PeerProcess::RunPeer({arguments, arguments + count}); }
