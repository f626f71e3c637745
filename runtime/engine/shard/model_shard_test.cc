#include "runtime/engine/shard/model_shard.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "kernels/reference/reference_backend.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

constexpr ModelConfig kGpt2 = {
    .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 16, .vocabulary = 13, .context = 6};

// Grouped queries, heads wider than the residual stream, a head of its own.
constexpr ModelConfig kLlama = {.layers = 2,
                                .hidden = 8,
                                .heads = 4,
                                .feed_forward = 12,
                                .vocabulary = 13,
                                .context = 6,
                                .family = ModelFamily::kLlama,
                                .tied_head = false,
                                .key_value_heads = 2,
                                .head_size = 4};

constexpr ModelConfig Tied(ModelConfig config) {
  config.tied_head = true;
  return config;
}

TrainingShape ShapeOf(const ModelConfig& model) {
  return {.model = model, .sequence = 6, .global_batch_sequences = 2};
}

constexpr ModelConfig kModels[] = {kGpt2, kLlama, Tied(kLlama)};

TrainingShape AnyShape() { return ShapeOf(kModels[GENERATE(0, 1, 2)]); }

constexpr int kMicroBatch = 2;

Device OpenReference(Bytes limit = MiB(16)) {
  absl::StatusOr<Device> device =
      ReferenceBackend().open({.name = "test", .backend = "reference", .cores = {0}, .memory_limit = limit});
  REQUIRE(device.ok());
  return *std::move(device);
}

std::vector<int32_t> Tokens(const TrainingShape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(kMicroBatch * shape.sequence);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % shape.model.vocabulary);
  return tokens;
}

std::unique_ptr<ModelShard> Shard(Device& device, const TrainingShape& shape, BlockRange blocks,
                                  const BufferCounts& buffers) {
  absl::StatusOr<std::unique_ptr<ModelShard>> shard = ModelShard::Create(
      device, {.shape = shape, .chunks = {blocks}, .micro_batch_sequences = kMicroBatch, .buffers = buffers});
  INFO(shard.status().ToString());
  REQUIRE(shard.ok());
  // Ten times GPT-2's deviation: gradients well above rounding.
  for (const PlacedParameter& placed : (*shard)->arena().layout().parameters) {
    std::vector<float> values(placed.spec.elements);
    InitialiseParameter(placed.spec, 5, values.data());
    if (placed.spec.initialisation == Initialisation::kNormal) {
      for (float& value : values) value *= 10;
    }
    REQUIRE((*shard)->arena().Write(Part::kParameter, placed.spec.name, values).ok());
  }
  return *std::move(shard);
}

std::vector<float> Read(const ModelShard& shard, Part part, const std::string& name) {
  ParameterArena& arena = const_cast<ModelShard&>(shard).arena();
  std::vector<float> values(arena.layout().Find(name)->spec.elements);
  REQUIRE(arena.Read(part, name, absl::MakeSpan(values)).ok());
  return values;
}

// Mean loss of the micro-batch on the whole model; training, its gradients are added.
double LossOf(ModelShard& whole, Purpose purpose) {
  const TrainingShape& shape = whole.options().shape;
  REQUIRE(whole.SetTokens({}, Tokens(shape, 1)).ok());
  REQUIRE(whole.SetTargets({}, Tokens(shape, 2)).ok());
  REQUIRE(whole.Forward({}, purpose).ok());
  if (purpose == Purpose::kTrain) REQUIRE(whole.Backward({}).ok());
  return *whole.TakeLossSum() / (shape.global_batch_sequences * shape.sequence);
}

TEST_CASE("a shard allocates what the memory model says, to the byte, whatever it holds") {
  const TrainingShape shape = AnyShape();
  const int blocks = shape.model.blocks();
  const int first = GENERATE_COPY(range(0, blocks));
  const int end = GENERATE_COPY(range(first + 1, blocks + 1));
  const int stash = GENERATE(1, 3);
  CAPTURE(first, end, stash, FamilyOf(shape.model).name);
  const BufferCounts buffers = {.stash = {stash},
                                .deferred = {stash / 2},
                                .input = first > 0 ? stash : 0,
                                .output = end < blocks ? 2 : 0,
                                .input_gradient = first > 0 ? 1 : 0,
                                .output_gradient = end < blocks ? 1 : 0};
  Device device = OpenReference();
  const std::unique_ptr<ModelShard> shard = Shard(device, shape, {first, end}, buffers);
  CHECK(device.queue->allocated() ==
        MemoryOf(shape.model, shape.sequence, {{first, end}}, kMicroBatch, buffers).total());
}

TEST_CASE("a shard that does not fit says what it needs, part by part, and gives everything back") {
  const TrainingShape shape = ShapeOf(kGpt2);
  const BlockRange blocks = {0, shape.model.blocks()};
  const Bytes need = MemoryOf(shape.model, shape.sequence, {blocks}, kMicroBatch, {.stash = {1}}).total();
  Device device = OpenReference({need.value - 1});
  const absl::Status status = ModelShard::Create(device, {.shape = shape,
                                                          .chunks = {blocks},
                                                          .micro_batch_sequences = kMicroBatch,
                                                          .buffers = {.stash = {1}}})
                                  .status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("blocks 0-3") && Catch::Contains(FormatBytes(need)) &&
                 Catch::Contains("activations") && Catch::Contains("workspace"));
  CHECK(device.queue->allocated() == Bytes{0});
}

TEST_CASE("parameters start the same whoever holds them") {
  const TrainingShape shape = ShapeOf(kGpt2);
  Device device = OpenReference();
  const auto arena = [&](BlockRange blocks) {
    return ParameterArena::Create(device, shape.model, {blocks}, WholeModel(shape.model));
  };
  const auto whole = arena({0, 4}), last = arena({2, 4});
  REQUIRE((*whole)->Initialise(9).ok());
  REQUIRE((*last)->Initialise(9).ok());
  for (const PlacedParameter& placed : (*last)->layout().parameters) {
    CAPTURE(placed.spec.name);
    std::vector<float> a(placed.spec.elements), b(placed.spec.elements);
    REQUIRE((*whole)->Read(Part::kParameter, placed.spec.name, absl::MakeSpan(a)).ok());
    REQUIRE((*last)->Read(Part::kParameter, placed.spec.name, absl::MakeSpan(b)).ok());
    CHECK(a == b);
  }
  std::vector<float> values(3);
  CHECK(absl::IsNotFound((*last)->Write(Part::kParameter, "wpe.weight", values)));
  CHECK(absl::IsInvalidArgument((*last)->Write(Part::kParameter, "ln_f.bias", values)));
}

TEST_CASE(
    "the ranks of a unit together start with the values that one device has, and read back what was "
    "written") {
  const TrainingShape shape = AnyShape();
  Device device = OpenReference();
  const BlockRange blocks = {0, shape.model.blocks()};
  const auto whole = *ParameterArena::Create(device, shape.model, {blocks}, WholeModel(shape.model));
  REQUIRE(whole->Initialise(9).ok());
  std::vector<std::unique_ptr<ParameterArena>> ranks;
  for (const ModelShare& share : EvenShares(shape.model, 2)) {
    ranks.push_back(*ParameterArena::Create(device, shape.model, {blocks}, share));
    REQUIRE(ranks.back()->Initialise(9).ok());
    CHECK(ranks.back()->layout().elements < whole->layout().elements);
  }
  for (const PlacedParameter& placed : whole->layout().parameters) {
    CAPTURE(placed.spec.name);
    std::vector<float> values(placed.spec.elements), together(placed.spec.elements, std::nanf(""));
    REQUIRE(whole->Read(Part::kParameter, placed.spec.name, absl::MakeSpan(values)).ok());
    for (const auto& rank : ranks)
      REQUIRE(rank->Read(Part::kParameter, placed.spec.name, absl::MakeSpan(together)).ok());
    CHECK(together == values);
    for (float& value : values) value += 1;
    for (const auto& rank : ranks) {
      REQUIRE(rank->Write(Part::kGradient, placed.spec.name, values).ok());
      REQUIRE(rank->Read(Part::kGradient, placed.spec.name, absl::MakeSpan(together)).ok());
    }
    CHECK(together == values);
  }
}

TEST_CASE("gradients are the slopes of the loss, for every tensor") {
  const TrainingShape shape = AnyShape();
  Device device = OpenReference();
  const std::unique_ptr<ModelShard> whole = Shard(device, shape, {0, shape.model.blocks()}, {.stash = {1}});
  (void)LossOf(*whole, Purpose::kTrain);
  std::mt19937_64 random(11);
  for (const PlacedParameter& placed : whole->arena().layout().parameters) {
    const std::string& name = placed.spec.name;
    CAPTURE(name);
    const std::vector<float> gradient = Read(*whole, Part::kGradient, name),
                             values = Read(*whole, Part::kParameter, name);
    // Along a random direction of signs: one number for the whole tensor, well above the loss's rounding.
    std::vector<float> direction(values.size());
    double slope = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      direction[i] = random() % 2 == 0 ? 1.0f : -1.0f;
      slope += static_cast<double>(gradient[i]) * direction[i];
    }
    constexpr float kStep = 1e-3f;
    double losses[2];
    for (const int side : {0, 1}) {
      std::vector<float> moved = values;
      for (size_t i = 0; i < values.size(); ++i) moved[i] += (side == 0 ? -kStep : kStep) * direction[i];
      REQUIRE(whole->arena().Write(Part::kParameter, name, moved).ok());
      losses[side] = LossOf(*whole, Purpose::kEvaluate);
    }
    REQUIRE(whole->arena().Write(Part::kParameter, name, values).ok());
    CHECK((losses[1] - losses[0]) / (2 * kStep) == Approx(slope).epsilon(1e-2).margin(2e-4));
  }
}

void CopyBoundary(Slice from, Slice to) {
  std::memcpy(to.buffer->host_address() + to.offset_bytes, from.buffer->host_address() + from.offset_bytes,
              static_cast<size_t>(from.elements) * sizeof(float));
}

TEST_CASE("a model cut in two anywhere gives the loss and the gradients of the whole one, bit for bit") {
  const TrainingShape shape = AnyShape();
  const int cut = GENERATE(1, 2, 3);
  CAPTURE(cut);
  const int blocks = shape.model.blocks();
  Device a = OpenReference(), b = OpenReference(), c = OpenReference();
  const std::unique_ptr<ModelShard> whole = Shard(a, shape, {0, blocks}, {.stash = {1}});
  const std::unique_ptr<ModelShard> front =
      Shard(b, shape, {0, cut}, {.stash = {1}, .output = 1, .output_gradient = 1});
  const std::unique_ptr<ModelShard> back =
      Shard(c, shape, {cut, blocks}, {.stash = {1}, .input = 1, .input_gradient = 1});
  const double loss = LossOf(*whole, Purpose::kTrain);

  REQUIRE(front->SetTokens({}, Tokens(shape, 1)).ok());
  REQUIRE(back->SetTargets({}, Tokens(shape, 2)).ok());
  REQUIRE(front->Forward({.output = 0}, Purpose::kTrain).ok());
  CopyBoundary(front->BoundaryOf({BufferKind::kOutput, 0}), back->BoundaryOf({BufferKind::kInput, 0}));
  REQUIRE(back->Forward({.input = 0}, Purpose::kTrain).ok());
  REQUIRE(back->Backward({.input = 0, .input_gradient = 0}).ok());
  CHECK(*back->TakeLossSum() / (shape.global_batch_sequences * shape.sequence) == loss);
  CopyBoundary(back->BoundaryOf({BufferKind::kInputGradient, 0}),
               front->BoundaryOf({BufferKind::kOutputGradient, 0}));
  REQUIRE(front->Backward({.output_gradient = 0}).ok());

  for (const PlacedParameter& placed : whole->arena().layout().parameters) {
    const std::string& name = placed.spec.name;
    CAPTURE(name);
    const std::vector<float> want = Read(*whole, Part::kGradient, name);
    const bool in_front = front->arena().layout().Find(name) != nullptr,
               in_back = back->arena().layout().Find(name) != nullptr;
    if (in_front && in_back) {  // tied: each has its own part
      const std::vector<float> x = Read(*front, Part::kGradient, name),
                               y = Read(*back, Part::kGradient, name);
      for (size_t i = 0; i < want.size(); ++i) CHECK(x[i] + y[i] == Approx(want[i]).margin(1e-6));
    } else {
      CHECK(Read(in_front ? *front : *back, Part::kGradient, name) == want);
    }
  }
}

TEST_CASE("with conversions, training takes at most what the memory model says") {
  const TrainingShape shape = AnyShape();
  const Dtype activations = GENERATE(Dtype::kBf16, Dtype::kF32);
  const int blocks = shape.model.blocks(), first = GENERATE(0, 2), end = GENERATE_COPY(2, blocks);
  if (first == end) return;
  CAPTURE(FamilyOf(shape.model).name, first, end, NameOf(activations));
  const bool begins = first == 0, ends = end == blocks;
  const BufferCounts buffers = {.stash = {1},
                                .input = begins ? 0 : 1,
                                .output = ends ? 0 : 1,
                                .input_gradient = begins ? 0 : 1,
                                .output_gradient = ends ? 0 : 1,
                                .activations = activations,
                                .narrowest = Dtype::kBf16};
  Device device = OpenReference();
  const auto shard = Shard(device, shape, {first, end}, buffers);
  if (begins) REQUIRE(shard->SetTokens({}, Tokens(shape, 1)).ok());
  if (ends) REQUIRE(shard->SetTargets({}, Tokens(shape, 2)).ok());
  const ModelShard::Boundary narrow(0, Dtype::kBf16);
  const ModelShard::PassBuffers passes = {
      .input = narrow, .output = narrow, .input_gradient = narrow, .output_gradient = narrow};
  REQUIRE(shard->Forward(passes, Purpose::kTrain).ok());
  REQUIRE(shard->Backward(passes).ok());
  const RankMemory memory = MemoryOf(shape.model, shape.sequence, {{first, end}}, kMicroBatch, buffers);
  CHECK(memory.conversions > Bytes{0});
  CHECK(device.queue->peak_allocated() == memory.total());
}

TEST_CASE(
    "the gradients of the input and of the weights, one long after the other, are backward's to the bit") {
  const TrainingShape shape = AnyShape();
  const int cut = GENERATE(1, 2, 3);
  // What crosses to a part that stores f32 may be bf16.
  const Dtype across = GENERATE(Dtype::kF32, Dtype::kBf16);
  CAPTURE(cut, NameOf(across));
  const int blocks = shape.model.blocks();
  Device device = OpenReference();
  // Two micro-batches of other tokens through both parts.
  const auto gradients = [&](bool splits) {
    const int deferred = splits ? 2 : 0;
    const auto front = Shard(device, shape, {0, cut},
                             {.stash = {2}, .deferred = {deferred}, .output = 2, .output_gradient = 2});
    const auto back = Shard(device, shape, {cut, blocks},
                            {.stash = {2}, .deferred = {deferred}, .input = 2, .input_gradient = 2});
    const auto of_front = [&](int m) {
      return ModelShard::PassBuffers{
          .stash = m, .deferred = splits ? m : -1, .output = {m, across}, .output_gradient = {m, across}};
    };
    const auto of_back = [&](int m) {
      return ModelShard::PassBuffers{
          .stash = m, .deferred = splits ? m : -1, .input = {m, across}, .input_gradient = {m, across}};
    };
    for (const int m : {0, 1}) {
      REQUIRE(front->SetTokens({.stash = m}, Tokens(shape, 1 + m)).ok());
      REQUIRE(back->SetTargets({.stash = m}, Tokens(shape, 3 + m)).ok());
      REQUIRE(front->Forward(of_front(m), Purpose::kTrain).ok());
      CopyBoundary(front->BoundaryOf({BufferKind::kOutput, m}), back->BoundaryOf({BufferKind::kInput, m}));
      REQUIRE(back->Forward(of_back(m), Purpose::kTrain).ok());
    }
    for (const int m : {0, 1}) {
      REQUIRE((splits ? back->InputGradient(of_back(m)) : back->Backward(of_back(m))).ok());
      CopyBoundary(back->BoundaryOf({BufferKind::kInputGradient, m}),
                   front->BoundaryOf({BufferKind::kOutputGradient, m}));
      REQUIRE((splits ? front->InputGradient(of_front(m)) : front->Backward(of_front(m))).ok());
    }
    if (splits) {
      for (const int m : {0, 1}) {
        REQUIRE(back->WeightGradient(of_back(m)).ok());
        // In pieces, as before a reduction.
        for (int block = cut - 1; block >= 0; --block)
          REQUIRE(front->WeightGradient(of_front(m), {block, block + 1}).ok());
      }
    }
    std::map<std::string, std::vector<float>> values;
    for (const auto& [where, shard] : {std::pair("front ", front.get()), std::pair("back ", back.get())}) {
      for (const PlacedParameter& placed : shard->arena().layout().parameters)
        values[where + placed.spec.name] = Read(*shard, Part::kGradient, placed.spec.name);
    }
    return values;
  };
  const auto apart = gradients(true), together = gradients(false);
  for (const auto& [name, values] : together) {
    CAPTURE(name);
    CHECK(apart.at(name) == values);
    CHECK(std::any_of(values.begin(), values.end(), [](float value) { return value != 0; }));
  }
}

TEST_CASE("what first layers keep goes to host memory and comes back elsewhere, and what others do stays") {
  const TrainingShape shape = AnyShape();
  const BlockRange blocks = {0, shape.model.blocks()};
  const int homed_layers = GENERATE(0, 1);  // 0: all go
  CAPTURE(FamilyOf(shape.model).name, homed_layers);
  // Two micro-batches, of which the first one's is in host memory while the second one has its place.
  const auto gradients = [&](bool homed) {
    Device device = OpenReference();
    const BufferCounts on_device = {.stash = {2}}, on_host = {.stash = {homed_layers > 0 ? 2 : 0},
                                                              .leaving_stash = {2},
                                                              .stash_home = {1},
                                                              .activations_home = ActivationsHome::kHost,
                                                              .homed_layers = homed_layers};
    const auto shard = Shard(device, shape, blocks, homed ? on_host : on_device);
    const RankMemory memory =
        MemoryOf(shape.model, shape.sequence, {blocks}, kMicroBatch, shard->options().buffers);
    CHECK(device.queue->allocated() == memory.total());
    CHECK(shard->host_allocated() == memory.host);
    const Bytes size{memory.host};
    const auto passes = [&](int m, int place) {
      return homed ? ModelShard::PassBuffers{.stash = homed_layers > 0 ? m : -1, .leaving_stash = place}
                   : ModelShard::PassBuffers{.stash = m};
    };
    for (const int m : {0, 1}) {
      REQUIRE(shard->SetTokens(passes(m, 0), Tokens(shape, 1 + m)).ok());
      REQUIRE(shard->SetTargets(passes(m, 0), Tokens(shape, 3 + m)).ok());
      REQUIRE(shard->Forward(passes(m, 0), Purpose::kTrain).ok());
      if (homed && m == 0) REQUIRE(shard->StoreStash(0, 0, 0, size).ok());
    }
    if (homed) REQUIRE(shard->FetchStash(0, 0, 1, size).ok());
    for (const int m : {0, 1}) REQUIRE(shard->Backward(passes(m, 1 - m)).ok());
    std::map<std::string, std::vector<float>> values;
    for (const PlacedParameter& placed : shard->arena().layout().parameters)
      values[placed.spec.name] = Read(*shard, Part::kGradient, placed.spec.name);
    return values;
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("ranks that share a model count each element of its gradient once in the norm") {
  const TrainingShape shape = AnyShape();
  const BlockRange blocks = {0, shape.model.blocks()};
  const std::vector<ModelShare> shares = {{{0, 1}, {0, 3}, {0, 9}},
                                          {{1, 2}, {3, shape.model.feed_forward}, {9, 13}}};
  CAPTURE(FamilyOf(shape.model).name, shape.model.tied_head);
  std::map<SegmentId, double> want, have;
  for (int member = -1; member < 2; ++member) {  // -1: alone
    Device device = OpenReference();
    ShardOptions options{.shape = shape, .chunks = {blocks}, .buffers = {.stash = {1}}};
    if (member >= 0) {
      options.share = shares[member];
      const ParameterLayout layout = LayoutOf(LocalModel(shape.model, shares[member]), options.chunks);
      options.optimizer = WholeOptimizer(layout);
      options.optimizer->norms = NormRunsOf(layout, {.uncut = member == 0});
    }
    const std::unique_ptr<ModelShard> shard = *ModelShard::Create(device, options);
    CHECK(device.queue->allocated() ==
          MemoryOf(shard->arena().config(), shape.sequence, {blocks}, 1, options.buffers).total());
    for (SegmentId segment = 0; segment < SegmentCount(shape.model); ++segment) {
      for (ParameterSpec tensor : SegmentParameters(shape.model, segment)) {
        std::vector<float> values(tensor.elements);
        tensor.initialisation = Initialisation::kNormal;
        tensor.standard_deviation = 1;
        InitialiseParameter(tensor, 3, values.data());
        REQUIRE(shard->arena().Write(Part::kGradient, tensor.name, values).ok());
        if (member >= 0) continue;
        for (const float value : values) want[segment] += static_cast<double>(value) * value;
      }
    }
    REQUIRE(shard->ComputeNorms(shard->arena().layout().segments).ok());
    REQUIRE(shard->TakeLossSum().ok());  // fetches and waits
    for (SegmentId segment = 0; segment < SegmentCount(shape.model); ++segment) {
      CAPTURE(segment.value());
      const double counted = shard->fetched_squared_norm(segment);
      if (member < 0) {
        CHECK(counted == Approx(want[segment]).epsilon(1e-12));
      } else {
        have[segment] += counted;
      }
    }
  }
  for (SegmentId segment = 0; segment < SegmentCount(shape.model); ++segment) {
    CAPTURE(segment.value());
    CHECK(have[segment] == Approx(want[segment]).epsilon(1e-12));
  }
}

TEST_CASE(
    "who owns some of the parameters has their moments alone, and updates them to the bits of one that owns "
    "all") {
  const TrainingShape shape = AnyShape();
  const BlockRange blocks = {0, shape.model.blocks()};
  const ModelShare share = EvenShares(shape.model, 2)[GENERATE(0, 1)];
  Device of_all = OpenReference(), of_some = OpenReference();
  ShardOptions options{.shape = shape, .chunks = {blocks}, .share = share, .buffers = {.stash = {1}}};
  const std::unique_ptr<ModelShard> all = *ModelShard::Create(of_all, options);
  // Runs of unlike lengths, through tensors and across their ends.
  const ParameterLayout& layout = all->arena().layout();
  OptimizerShard& owned = options.optimizer.emplace();
  for (int64_t offset = 3, i = 0; offset + 40 < layout.elements; offset += 60 + 7 * i, ++i)
    owned.owned.push_back({offset, 5 + 3 * (i % 9), owned.elements()});
  CAPTURE(FamilyOf(shape.model).name, owned.owned.size());
  const std::unique_ptr<ModelShard> some = *ModelShard::Create(of_some, options);
  CHECK(of_all.queue->allocated() - of_some.queue->allocated() ==
        Bytes{8 * (layout.elements - owned.elements())});

  constexpr Part kParts[] = {Part::kParameter, Part::kGradient, Part::kFirstMoment, Part::kSecondMoment};
  const ParameterLayout whole = LayoutOf(shape.model, options.chunks);
  for (const PlacedParameter& placed : whole.parameters) {
    ParameterSpec tensor = placed.spec;
    tensor.initialisation = Initialisation::kNormal;
    tensor.standard_deviation = 1;
    std::vector<float> values(tensor.elements);
    for (const Part part : kParts) {
      InitialiseParameter(tensor, 7 + static_cast<int>(part), values.data());
      if (part == Part::kSecondMoment)
        for (float& value : values) value = std::abs(value);
      for (ModelShard* shard : {all.get(), some.get()})
        REQUIRE(shard->arena().Write(part, tensor.name, values).ok());
    }
  }
  // What a shard has, by part and element of its layout; others are not numbers.
  const auto values_of = [&](const ModelShard& shard) {
    std::vector<std::vector<float>> values;
    for (const Part part : kParts) {
      std::vector<float>& held = values.emplace_back(layout.elements, std::nanf(""));
      for (size_t t = 0; t < layout.parameters.size(); ++t) {
        const ParameterSpec& tensor = whole.parameters[t].spec;
        std::vector<float> read(tensor.elements, std::nanf(""));
        REQUIRE(const_cast<ModelShard&>(shard).arena().Read(part, tensor.name, absl::MakeSpan(read)).ok());
        for (const HeldRun& run : HeldRuns(shape.model, tensor, share))
          std::copy_n(read.begin() + run.whole, run.count,
                      held.begin() + layout.parameters[t].offset + run.held);
      }
    }
    return values;
  };
  const auto before = values_of(*all);
  const ModelShard::Update update{
      .learning_rate = 0.1f, .weight_decay = 0.5f, .gradient_scale = 0.3f, .step = 2};
  REQUIRE(all->UpdateParameters(update).ok());
  REQUIRE(some->UpdateParameters(update).ok());
  const auto want = values_of(*all), have = values_of(*some);
  std::vector<bool> is_owned(layout.elements, false);
  for (const OwnedRun& run : owned.owned) std::fill_n(is_owned.begin() + run.offset, run.elements, true);
  for (int64_t i = 0; i < layout.elements; ++i) {
    CAPTURE(i, is_owned[i]);
    REQUIRE(have[0][i] == (is_owned[i] ? want[0][i] : before[0][i]));
    REQUIRE(want[0][i] != before[0][i]);
    REQUIRE(have[1][i] == 0);
    for (const int moment : {2, 3}) {
      REQUIRE(std::isnan(have[moment][i]) == !is_owned[i]);
      if (is_owned[i]) REQUIRE(have[moment][i] == want[moment][i]);
    }
  }
}

TEST_CASE("gradients and losses add up over micro-batches, and an update starts them anew") {
  const TrainingShape shape = ShapeOf(kGpt2);
  Device device = OpenReference();
  const std::unique_ptr<ModelShard> whole = Shard(device, shape, {0, shape.model.blocks()}, {.stash = {1}});
  const double loss = LossOf(*whole, Purpose::kTrain);
  CHECK(LossOf(*whole, Purpose::kEvaluate) == loss);
  const std::vector<float> once = Read(*whole, Part::kGradient, "h.0.mlp.c_fc.weight");
  CHECK(LossOf(*whole, Purpose::kTrain) == loss);  // TakeLossSum began anew
  const std::vector<float> twice = Read(*whole, Part::kGradient, "h.0.mlp.c_fc.weight");
  for (size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == Approx(2 * once[i]).margin(1e-6));

  const auto squared_norm = [&] {
    REQUIRE(whole->ComputeNorms(whole->arena().layout().segments).ok());
    REQUIRE(whole->TakeLossSum().ok());  // fetches and waits
    double sum = 0;
    for (const SegmentId segment : whole->arena().layout().segments)
      sum += whole->fetched_squared_norm(segment);
    return sum;
  };
  const double squared = squared_norm();
  double want = 0;
  for (const PlacedParameter& placed : whole->arena().layout().parameters) {
    for (const float value : Read(*whole, Part::kGradient, placed.spec.name))
      want += static_cast<double>(value) * value;
  }
  CHECK(squared == Approx(want).epsilon(1e-6));

  const std::vector<float> bias = Read(*whole, Part::kParameter, "ln_f.weight"),
                           weight = Read(*whole, Part::kParameter, "wpe.weight");
  REQUIRE(whole->ZeroGradients().ok());
  REQUIRE(whole->UpdateParameters({.learning_rate = 0.1f, .weight_decay = 0.5f, .step = 1}).ok());
  CHECK(Read(*whole, Part::kParameter, "ln_f.weight") == bias);  // no gradient, no decay on norms
  const std::vector<float> decayed = Read(*whole, Part::kParameter, "wpe.weight");
  for (size_t i = 0; i < weight.size(); ++i) CHECK(decayed[i] == Approx(weight[i] * 0.95f).epsilon(1e-6));
  CHECK(squared_norm() == 0);
}

}  // namespace
}  // namespace medley
