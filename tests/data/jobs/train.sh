#!/bin/sh
TP=2
MODEL=(--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
  --group-query-attention --num-query-groups 8 --swiglu --disable-bias-linear --normalization RMSNorm
  --untie-embeddings-and-output-weights --position-embedding-type rope --vocab-size 128256)
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py ${MODEL[@]} --tensor-model-parallel-size $TP \
  --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --seq-length 8192 \
  --micro-batch-size 1 --global-batch-size 128 --bf16
