"""Pure-torch stand-in for the handful of sgl_kernel symbols that SGLang's
CPU engine imports unconditionally (SGLANG_USE_CPU_ENGINE=1).  It does NOT
define convert_weight_packed, so SGLang sees "no AMX backend" and uses its own
native torch code for every layer.  Only murmur_hash32_cpu (seeded sampling) is
called in normal serving; the others are called by speculative decoding.
"""

import ctypes

import torch

__version__ = "0.4.10"  # what sglang 0.5.23 pins

_M = 0xFFFFFFFF
_lib = torch.library.Library("sgl_kernel", "FRAGMENT")


# ---- seeded sampling (same arithmetic as sglang/kernels/ops/sampling/murmur_hash.py)
def _mul(a, b):  # (a * b) mod 2**32 without int64 overflow
    return ((a & 0xFFFF) * b + ((((a >> 16) * b) & 0xFFFF) << 16)) & _M


def _mix(h, k):
    k = _mul(k, 0xCC9E2D51)
    k = ((k << 15) | (k >> 17)) & _M
    k = _mul(k, 0x1B873593)
    h = h ^ k
    h = ((h << 13) | (h >> 19)) & _M
    return (h * 5 + 0xE6546B64) & _M


def _murmur_hash32(seed, positions, col_indices):
    seed = seed.to(torch.int64)[:, None]
    pos = positions.to(torch.int64)[:, None] & _M
    col = col_indices.to(torch.int64)[None, :] & _M
    h = torch.zeros_like(seed)
    for k in (seed & _M, (seed >> 32) & _M, pos):
        h = _mix(h, k)
    h = _mix(h, col) ^ 16
    h = h ^ (h >> 16)
    h = _mul(h, 0x85EBCA6B)
    h = h ^ (h >> 13)
    h = _mul(h, 0xC2B2AE35)
    h = h ^ (h >> 16)
    return h.to(torch.uint32)


_lib.define("murmur_hash32_cpu(Tensor seed, Tensor positions, Tensor col_indices) -> Tensor")
_lib.impl("murmur_hash32_cpu", _murmur_hash32, "CPU")


# ---- KV / request-pool bookkeeping (used by speculative decoding)
def assign_req_to_token_pool_cpu(req_idx, req_to_token, start, end, out_cache_loc, pool_len):
    o = 0
    for r, s, e in zip(req_idx.tolist(), start.tolist(), end.tolist()):
        req_to_token[r, s:e] = out_cache_loc[o : o + e - s].to(req_to_token.dtype)
        o += e - s


def assign_extend_cache_locs_cpu(req_idx, req_to_token, start, end, out_cache_loc, pool_len):
    o = 0
    for r, s, e in zip(req_idx.tolist(), start.tolist(), end.tolist()):
        out_cache_loc[o : o + e - s] = req_to_token[r, s:e].to(out_cache_loc.dtype)
        o += e - s


def assign_draft_cache_locs_contiguous_cpu(req_idx, req_to_token, seq_lens, out_cache_loc, pool_len, topk, steps):
    n = topk * steps
    for i, (r, s) in enumerate(zip(req_idx.tolist(), seq_lens.tolist())):
        out_cache_loc[i * n : (i + 1) * n] = req_to_token[r, s : s + n].to(out_cache_loc.dtype)


def copy_all_layer_kv_cache_cpu(data_ptrs, strides, tgt_loc, src_loc):
    tgt, src = tgt_loc.tolist(), src_loc.tolist()
    for base, st in zip(data_ptrs.to(torch.int64).tolist(), strides.to(torch.int64).tolist()):
        rows = [ctypes.string_at(base + s * st, st) for s in src]
        for t, b in zip(tgt, rows):
            ctypes.memmove(base + t * st, b, st)


def fill_bonus_tokens_cpu(accept_tokens, accept_lens, bonus_tokens, accept_stride):
    n = accept_lens.numel()
    idx = torch.arange(n) * accept_stride + accept_lens.long() - 1
    bonus_tokens[:n] = accept_tokens.reshape(-1)[idx].to(bonus_tokens.dtype)


def fill_accept_out_cache_loc_cpu(accept_index, out_cache_loc, accept_out_cache_loc):
    src = accept_index.reshape(-1)
    src = src[src > -1].long()
    accept_out_cache_loc[: src.numel()] = out_cache_loc[src].to(accept_out_cache_loc.dtype)


def rotate_input_ids_cpu(input_ids, start_loc, seq_lens, topk_index, select_index=None):
    new = topk_index.reshape(-1)
    for i, (s, n) in enumerate(zip(start_loc.tolist(), seq_lens.tolist())):
        if n > 0:
            input_ids[s : s + n - 1] = input_ids[s + 1 : s + n].clone()
            p = s + n - 1 if select_index is None else int(select_index[i])
            input_ids[p] = new[i]


def build_tree_kernel_efficient_cpu(
    parent_list,
    selected_index,
    seq_lens,
    tree_mask,
    positions,
    retrieve_index,
    next_token,
    next_sibling,
    topk,
    depth,
    n,
    mode,
):
    parents, sel, lens = parent_list.tolist(), selected_index.tolist(), seq_lens.tolist()
    positions, mask = positions.view(-1), tree_mask.view(-1)
    prefix = 0
    for b, L in enumerate(lens):
        at = {}
        for p in range(n - 2, -1, -1):
            at[sel[b][p]] = p
        par = [-1] * n  # parent node of each draft node
        for i in range(1, n):
            t = sel[b][i - 1] // topk
            par[i] = 0 if t == 0 else at.get(parents[b][t], -2) + 1
        for i in range(n):
            retrieve_index[b, i] = b * n + i
        for i in range(n - 1, 0, -1):
            if par[i] >= 0:
                old = int(next_token[b, par[i]])
                next_token[b, par[i]] = i
                if old != -1:
                    next_sibling[b, i] = old
        for i in range(n):
            row = (n * n * b + prefix * n + (L + n) * i + L) if int(mode) == 0 else (n * n * b + n * i)
            mask[row : row + n] = False
            mask[row] = True
            d, j = 0, i
            while j > 0 and d < depth:
                mask[row + j] = True
                d, j = d + 1, par[j]
            positions[b * n + i] = L + d
        prefix += L


def verify_tree_greedy_cpu(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    target_predict,
):
    cand, ri = candidates.tolist(), retrive_index.tolist()
    nt, ns, tgt = retrive_next_token.tolist(), retrive_next_sibling.tolist(), target_predict.reshape(-1).tolist()
    for b in range(len(cand)):
        last, cur, k = ri[b][0], 0, 0
        accept_index[b, 0] = last
        for _ in range(1, accept_index.shape[1]):
            cur = nt[b][cur]
            while cur != -1 and cand[b][cur] != tgt[last]:
                cur = ns[b][cur]
            if cur == -1:
                break
            predicts[last] = tgt[last]
            k += 1
            accept_index[b, k] = ri[b][cur]
            last = ri[b][cur]
        accept_token_num[b] = k
        predicts[last] = tgt[last]
