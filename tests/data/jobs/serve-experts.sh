#!/bin/sh
vllm serve deepseek-ai/DeepSeek-V3 --data-parallel-size 8 --enable-expert-parallel \
  --all2all-backend deepep_low_latency --max-model-len 16384 --max-num-seqs 64 --quantization fp8
