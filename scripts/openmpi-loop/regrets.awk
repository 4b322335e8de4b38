# What the tuning file of scripts/openmpi-loop misses: of each cell, the file's time over the least of
# all algorithms.
#
# First the lines of the search: HOSTS ALGORITHM.SEGMENT forced COLLECTIVE BYTES NANOSECONDS; then those
# of the launches. A time is the median of the file's launches. Exit status 0 where 95 % of the cells are
# within 3 %.

{ cell = $1 " " $4 " " $5 }
$3 == "forced" {
    if (!(cell in least) || $6 < least[cell]) { least[cell] = $6; by[cell] = $2 }
    next
}
$3 == "own" { own[cell, ++owns[cell]] = $6; next }
$3 == "file" { if (!(cell in count)) cells[++many] = cell; time[cell, ++count[cell]] = $6 }

function median(v, cell, n,    i, j, x, s) {
    for (i = 1; i <= n; i++) s[i] = v[cell, i]
    for (i = 2; i <= n; i++) {
        x = s[i]
        for (j = i - 1; j > 0 && s[j] > x; j--) s[j + 1] = s[j]
        s[j + 1] = x
    }
    return (s[int((n + 1) / 2)] + s[int(n / 2) + 1]) / 2
}

END {
    if (!many) { print "error: no times" > "/dev/stderr"; exit 2 }
    print ""
    print "| hosts | collective | size | file, ms | least, ms | by algorithm.segment | file over least |"
    print "|---|---|---|---|---|---|---|"
    for (c = 1; c <= many; c++) {
        cell = cells[c]
        middle = median(time, cell, count[cell])
        regret = middle / least[cell]
        near += regret <= 1.03
        # What runs by itself, or by the file, was measured more often, and is one of all.
        best = median(own, cell, owns[cell])
        if (middle < best) best = middle
        if (least[cell] < best) best = least[cell]
        gain += log(median(own, cell, owns[cell]) / best)
        split(cell, word, " ")
        printf "| %s | %s | %d KiB | %.1f | %.1f | %s | %.3f |\n", word[1], word[2], word[3] / 1024, \
            middle / 1e6, least[cell] / 1e6, by[cell], regret
    }
    printf "\nwithin 3 %% of the least of all: %d of %d cells (asked: 95 %%)\n", near, many
    printf "the least of all would gain %.2f in the geometric mean\n", exp(gain / many)
    exit !(near >= 0.95 * many)
}
