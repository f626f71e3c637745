#!/usr/bin/env bash
# Training steps on an NVIDIA GPU in bf16, ours and PyTorch's one after the other for each model, in one run.
#   tests/perf/gpu.sh STEP_BENCHMARK [DEVICE]      DEVICE: by default cuda
# Prints for each model gpu_torch_ratio_MODEL (tokens/s against PyTorch's), gpu_mfu_MODEL and torch_mfu_MODEL (model FLOP/s
# against PyTorch's best large bf16 matmul in the same run). Exits with 0 and a notice where there is no GPU or no PyTorch.
set -euo pipefail
benchmark=$(cd "$(dirname "${1:?which step_benchmark}")" && pwd)/$(basename "$1")
device=${2:-cuda}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
# A Python package may be where CUDA's libraries are.
for folder in $("$python" -c 'import site, sys; print(*site.getsitepackages())' 2>/dev/null); do
  for libraries in "$folder"/nvidia/*/lib; do
    [ -d "$libraries" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries"
  done
done
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}

if ! trial=$("$benchmark" --device "$device" --batch 1 --sequence 64 --steps 1 --precision bf16 2>&1); then
  trial=$(tail -n 1 <<<"$trial")
  # What the backend says where the machine has none; anything else is an error of ours.
  case $trial in
    *"NVIDIA driver"*|*"no CUDA support"*) echo "# no GPU here: $trial"; exit 0 ;;
  esac
  echo "$trial" >&2
  exit 1
fi
if ! "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  echo "# no PyTorch with CUDA here: ours alone"
  torch_is_here=no
fi

# Model, sequence, batch: as much as keeps a GPU of 80 GB busy.
while read -r model sequence batch; do
  echo "# $model, sequence $sequence, batch $batch"
  ours=$("$benchmark" --device "$device" --model "$model" --sequence "$sequence" --batch "$batch" --steps 10 --precision bf16)
  echo "$ours"
  [ "${torch_is_here:-yes}" = yes ] || continue
  torch=$("$python" "$here/torch_gpu_step.py" --model "$model" --sequence "$sequence" --batch "$batch" --steps 10)
  echo "$torch"
  printf '%s\n%s\n' "$ours" "$torch" | awk -v model="${model//-/_}" '
    $1 == "tokens_per_second" { ours = $2 }
    $1 == "model_gflops" { flops = $2 }
    $1 == "torch_tokens_per_second" { torch = $2 }
    $1 == "torch_best_matmul_gflops" { peak = $2 }
    END {
      printf "gpu_torch_ratio_%s %.3f\ngpu_mfu_%s %.3f\ntorch_mfu_%s %.3f\n", model, ours / torch, model, flops / peak, model,
             flops / ours * torch / peak
    }'
done <<'MODELS'
gpt2-124m 1024 16
gpt2-774m 1024 8
llama-1b 2048 4
MODELS
