"""Make the demo's starting checkpoint: a 0.9 M-parameter Llama that adds two small numbers, badly.

The start is noised on purpose. A clean warm start already answers about as well as this size of model can, so GRPO
would have nothing to show. Continuing on a teacher with 45 % wrong answers leaves a policy that knows the task and
samples it badly (about 0.2), which reinforcement learning can repair in a minute on one core.

    python -m rollway.demo.make_tiny_policy OUT_DIR

Takes about five minutes on one core. Needs the `embedded` and `dev` extras (torch, transformers, reasoning-gym).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import reasoning_gym
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHAIN_SUM = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] + '\\n' }}{% endfor %}"
WRONG_BY = (-10, -2, -1, 1, 2, 10)
TOKENIZER_SEED = 5
WARM_START_SEED = 1_000
NOISY_SEED = 3_000_000
EVALUATION_SEED = 987_654_321


def problems(seed: int, size: int) -> list[dict[str, Any]]:
    """`size` chain_sum items; item i uses seed + i, so callers stride their seeds by `size`."""
    dataset = reasoning_gym.create_dataset("chain_sum", size=size, seed=seed, **CHAIN_SUM)
    return [dataset[index] for index in range(size)]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE that splits digits, so that numbers have one spelling."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<pad>", "<bos>", "<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((item["question"] + "\n" for item in problems(TOKENIZER_SEED, 2000)), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", padding_side="left"
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(vocab_size: int) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def batches(
    tokenizer: PreTrainedTokenizerFast, seed: int, batch_size: int, wrong_share: float
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Endless left-padded (ids, attention, labels); labels are -100 on the prompt."""
    chance = random.Random(7)
    while True:
        rows = []
        for item in problems(seed, batch_size):
            wrong = chance.choice(WRONG_BY) if chance.random() < wrong_share else 0
            prompt = tokenizer(item["question"] + "\n")["input_ids"]
            answer = [*tokenizer(str(int(item["answer"]) + wrong))["input_ids"], tokenizer.eos_token_id]
            rows.append((prompt, answer))
        seed += batch_size
        length = max(len(prompt) + len(answer) for prompt, answer in rows)
        ids = torch.zeros(batch_size, length, dtype=torch.long)
        attention = torch.zeros(batch_size, length, dtype=torch.long)
        labels = torch.full((batch_size, length), -100)
        for row, (prompt, answer) in enumerate(rows):
            ids[row, length - len(prompt) - len(answer) :] = torch.tensor(prompt + answer)
            attention[row, length - len(prompt) - len(answer) :] = 1
            labels[row, length - len(answer) :] = torch.tensor(answer)
        yield ids, attention, labels


def train(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, *, seed: int, steps: int, wrong_share: float
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)
    started = time.monotonic()
    model.train()
    for step, (ids, attention, labels) in enumerate(batches(tokenizer, seed, 256, wrong_share), start=1):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, step / 50)
        positions = (attention.cumsum(1) - 1).clamp(min=0)
        logits = model(input_ids=ids, attention_mask=attention, position_ids=positions).logits
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}  loss {loss.item():.3f}  {time.monotonic() - started:.0f} s", flush=True)
        if step >= steps:
            break


@torch.no_grad()
def accuracy(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, *, sampled: bool) -> float:
    """Share of 500 held-out problems answered exactly, greedy or sampled at temperature 1."""
    torch.manual_seed(0)
    model.eval()
    items = problems(EVALUATION_SEED, 500)
    inputs = tokenizer([item["question"] + "\n" for item in items], return_tensors="pt", padding=True)
    choice = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0} if sampled else {"do_sample": False}
    output = model.generate(
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        max_new_tokens=6,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **choice,
    )
    texts = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    right = [text.strip() == item["answer"] for text, item in zip(texts, items, strict=True)]
    return float(sum(right)) / len(items)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--clean-steps", type=int, default=300)
    parser.add_argument("--noisy-steps", type=int, default=150)
    parser.add_argument("--wrong-share", type=float, default=0.45)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    model = build_model(len(tokenizer))
    train(model, tokenizer, seed=WARM_START_SEED, steps=arguments.clean_steps, wrong_share=0.0)
    print("clean", accuracy(model, tokenizer, sampled=False), accuracy(model, tokenizer, sampled=True), flush=True)
    train(model, tokenizer, seed=NOISY_SEED, steps=arguments.noisy_steps, wrong_share=arguments.wrong_share)
    print("noisy", accuracy(model, tokenizer, sampled=False), accuracy(model, tokenizer, sampled=True), flush=True)
    model.half().save_pretrained(arguments.out)
    tokenizer.save_pretrained(arguments.out)


if __name__ == "__main__":
    main()
