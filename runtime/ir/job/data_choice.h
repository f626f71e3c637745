#pragma once
#include <cstdint>

// What a job says of its token files.
namespace medley {

enum class TokenFormat : uint8_t {
  kAutomatic,  // a path that ends in ".txt": kText; a magic number of llm.c: kLlmC; anything else: kUint16,
               // or kUint32 where the vocabulary has more than 65536 ids
  kText,       // every byte is a token, 0 .. 255
  kUint16,     // little-endian 16-bit ids and nothing else, as nanoGPT's prepare.py writes them
  kUint32,     // little-endian 32-bit ids and nothing else
  kLlmC,  // llm.c: 256 little-endian int32 (magic, version, token count, zeros), then ids: of 16 bits with
          // magic 20240520, version 1 (GPT-2), of 32 bits with 20240801, version 7 (Llama 3)
};

enum class DataOrder : uint8_t {
  kSequential,  // file order, and from the start again in the next epoch
  kShuffled,    // another permutation of all windows in each epoch
};

}  // namespace medley
