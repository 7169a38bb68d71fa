"""Pure-torch reconstruct_indices_from_tree_mask (NGRAM speculative decoding)."""


def reconstruct_indices_from_tree_mask(
    tree_mask, verified_seq_len, positions, retrive_index, retrive_next_token, retrive_next_sibling, bs, n
):
    mask, lens = tree_mask.view(bs, n, n).bool().tolist(), verified_seq_len.tolist()
    positions, ri = positions.view(-1), retrive_index.view(-1)
    nt, ns = retrive_next_token.view(-1), retrive_next_sibling.view(-1)
    for b in range(bs):
        anc = [[j for j in range(i) if mask[b][i][j]] for i in range(n)]
        par = [a[-1] if a else -1 for a in anc]
        for i in range(n):
            positions[b * n + i] = lens[b] + len(anc[i])
            ri[b * n + i] = b * n + i
            nt[b * n + i] = next((k for k in range(i + 1, n) if i in anc[k]), -1)
            ns[b * n + i] = next((k for k in range(i + 1, n) if par[i] >= 0 and par[k] == par[i]), -1)
